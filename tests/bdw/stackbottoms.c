/* Stacks of the program's own on several threads, in the way of a runtime that has others say where
   a thread's stack begins: by its handle, with the allocation lock or in the procedure that pushes
   roots. All stacks lie in a row, with pages between them that cannot be read. */
#include "check.h"
#include <gc/gc_mark.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { THREADS = 3, STACK = 64 << 10, GUARD = 4096, COUNT = 50 };

struct stack {
    char *low, *bottom;
};

static struct runner {
    void *handle;
    struct stack first, second; /* the second lies below the first */
    char *own_top, *own_bottom; /* what the thread has left */
    ucontext_t own, on_first, on_second;
    pthread_t thread;
} runners[THREADS];
static sem_t waiting, go_on;
static int in_callback, called;
static GC_push_other_roots_proc former;

static APART void fill(void **kept, int first)
{
    for (int index = 0; index < COUNT; index++) {
        long *object = GC_malloc(64);
        object[0] = first + index;
        kept[index] = object;
    }
}

static APART void check_kept(void *const *kept, int first)
{
    for (int index = 0; index < COUNT; index++)
        CHECK_EQUAL(*(long *)kept[index], first + index);
}

/* Takes the memory of whatever was freed. */
static APART void spoil(void)
{
    for (int index = 0; index < 20000; index++)
        memset(GC_malloc(64), 0x55, 64);
}

static void move_to(struct runner *runner)
{
    struct GC_stack_base base = {runner->second.bottom};
    GC_set_stackbottom(runner->handle, &base);
}

static void push(void)
{
    for (int index = 0; index < THREADS && in_callback; index++) {
        struct runner *runner = &runners[index];
        move_to(runner);
        GC_push_all_eager(runner->first.low, runner->first.bottom);
        GC_push_all_eager(runner->own_top, runner->own_bottom);
    }
    called++;
    if (former)
        former();
}

static void on_second(int number)
{
    void *kept[COUNT];
    struct runner *runner = &runners[number];
    fill(kept, 2000);
    __asm__ volatile("" : : "r"(kept) : "memory");
    sem_post(&waiting);
    while (sem_wait(&go_on) != 0)
        ;
    check_kept(kept, 2000);
    struct GC_stack_base base;
    CHECK(GC_get_my_stackbottom(&base) == runner->handle);
    CHECK_EQUAL(base.mem_base, runner->second.bottom);
    /* The system's say is another matter. */
    CHECK_EQUAL(GC_get_stack_base(&base), GC_SUCCESS);
    CHECK(base.mem_base >= (void *)runner->own_bottom);
}

static void on_first(int number)
{
    void *kept[COUNT];
    struct runner *runner = &runners[number];
    fill(kept, 1000);
    __asm__ volatile("" : : "r"(kept) : "memory");
    runner->on_second.uc_link = NULL;
    swapcontext(&runner->on_first, &runner->on_second);
    check_kept(kept, 1000);
}

static void prepare(ucontext_t *context, struct stack *stack, void (*start)(int), int number)
{
    getcontext(context);
    context->uc_stack.ss_sp = stack->low;
    context->uc_stack.ss_size = stack->bottom - stack->low;
    makecontext(context, (void (*)(void))start, 1, number);
}

static void back_to_first(int number)
{
    on_second(number);
    setcontext(&runners[number].on_first);
}

static void back_to_own(int number)
{
    on_first(number);
    setcontext(&runners[number].own);
}

static void *run(void *argument)
{
    struct runner *runner = argument;
    int number = (int)(runner - runners);
    struct GC_stack_base base;
    void *kept[COUNT];
    fill(kept, 0);
    runner->handle = GC_get_my_stackbottom(&base);
    CHECK(runner->handle != NULL);
    runner->own_bottom = base.mem_base;
    runner->own_top = (char *)&base < (char *)kept ? (char *)&base : (char *)kept;
    prepare(&runner->on_second, &runner->second, back_to_first, number);
    prepare(&runner->on_first, &runner->first, back_to_own, number);
    struct GC_stack_base first = {runner->first.bottom};
    GC_alloc_lock();
    GC_set_stackbottom(NULL, &first);
    GC_alloc_unlock();
    swapcontext(&runner->own, &runner->on_first);
    GC_alloc_lock();
    GC_set_stackbottom(runner->handle, &base);
    GC_alloc_unlock();
    check_kept(kept, 0);
    return argument;
}

static void round_of_all(int in_procedure)
{
    in_callback = 0;
    GC_disable();
    for (int index = 0; index < THREADS; index++)
        CHECK_EQUAL(pthread_create(&runners[index].thread, NULL, run, &runners[index]), 0);
    for (int index = 0; index < THREADS; index++)
        while (sem_wait(&waiting) != 0)
            ;
    if (!in_procedure) {
        GC_alloc_lock();
        for (int index = 0; index < THREADS; index++)
            move_to(&runners[index]);
        GC_alloc_unlock();
    }
    in_callback = 1;
    GC_enable();
    for (int turn = 0; turn < 3; turn++) {
        GC_gcollect();
        spoil();
    }
    /* Not under way when they go on. */
    GC_disable();
    for (int index = 0; index < THREADS; index++)
        sem_post(&go_on);
    for (int index = 0; index < THREADS; index++)
        CHECK_EQUAL(pthread_join(runners[index].thread, NULL), 0);
    in_callback = 0;
    GC_enable();
}

/* The first thread's is the variable too. */
static void *say_for_the_first(void *handle)
{
    struct GC_stack_base base = {(char *)GC_stackbottom - 16};
    char *expected = base.mem_base;
    GC_alloc_lock();
    GC_set_stackbottom(handle, &base);
    GC_alloc_unlock();
    CHECK_EQUAL(GC_stackbottom, expected);
    return NULL;
}

int main(void)
{
    struct GC_stack_base base, now;
    CHECK_EQUAL(GC_get_stack_base(&base), GC_SUCCESS);
    base.mem_base = (char *)__builtin_frame_address(0) + 256;
    GC_set_stackbottom(NULL, &base);
    CHECK_EQUAL(GC_is_init_called(), 0);
    CHECK_EQUAL(GC_stackbottom, base.mem_base);
    GC_INIT();
    CHECK_EQUAL(GC_stackbottom, base.mem_base);
    void *handle = GC_get_my_stackbottom(&now);
    CHECK_EQUAL(now.mem_base, base.mem_base);
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, say_for_the_first, handle), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    GC_get_my_stackbottom(&now);
    CHECK_EQUAL(now.mem_base, (char *)base.mem_base - 16);
    GC_stackbottom = base.mem_base;
    GC_get_my_stackbottom(&now);
    CHECK_EQUAL(now.mem_base, base.mem_base);

    sem_init(&waiting, 0, 0);
    sem_init(&go_on, 0, 0);
    char *memory = mmap(NULL, 2 * THREADS * (STACK + GUARD), PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int index = 0; index < 2 * THREADS; index++) {
        char *low = memory + index * (STACK + GUARD) + GUARD;
        CHECK_EQUAL(mprotect(low, STACK, PROT_READ | PROT_WRITE), 0);
        struct runner *runner = &runners[index % THREADS];
        *(index < THREADS ? &runner->second : &runner->first) =
            (struct stack){low, low + STACK};
    }
    former = GC_get_push_other_roots();
    GC_set_push_other_roots(push);
    round_of_all(0);
    round_of_all(1);
    CHECK(called > 0);
    return finish();
}
