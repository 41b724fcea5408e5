/* GC_set_await_finalize_proc: the procedure runs on a thread of the program that is not in the
   middle of a stop, so it may take libc's locks, and it hears of each object before the object's
   finalizer runs, also where threads run finalizers by themselves. Leaving it by a jump loses no
   finalizer. */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>

enum { CELLS = 20000 };

static FILE *sink;
static pthread_t known[2];
static volatile int is_over;
static int awaited, ran, foreign, early;

/* In libc's locks nearly all of the time. */
static void *print_and_allocate(void *nothing)
{
    known[1] = pthread_self();
    while (!is_over) {
        void *memory = malloc(3000);
        fprintf(sink, "%p\n", memory);
        free(memory);
    }
    return nothing;
}

static void await(void *object)
{
    pthread_t own = pthread_self();
    if (!pthread_equal(own, known[0]) && !pthread_equal(own, known[1]))
        foreign++;
    void *memory = malloc(3000);
    fprintf(sink, "%p %p\n", object, memory);
    free(memory);
    awaited++;
}

static void finalize(void *object, void *data)
{
    (void)object, (void)data;
    ran++;
    if (ran > awaited)
        early++;
}

static APART void make(int count)
{
    for (int index = 0; index < count; index++)
        GC_register_finalizer_no_order(GC_malloc(40), finalize, NULL, NULL, NULL);
}

static void beside_a_thread_in_locks(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, print_and_allocate, NULL), 0);
    for (int turn = 0; turn < 60; turn++) {
        make(200);
        clear_stack();
        GC_gcollect();
    }
    /* Collections that nobody asks for. */
    for (int turn = 0; turn < 30; turn++) {
        make(CELLS / 30);
        for (int index = 0; index < CELLS; index++)
            *(void *volatile *)GC_malloc(200) = NULL;
    }
    collect();
    is_over = 1;
    pthread_join(thread, NULL);
    CHECK(ran >= 12000 && awaited >= ran);
    CHECK_EQUAL(foreign, 0);
    CHECK_EQUAL(early, 0);
}

/* Where the program runs them they were told of. */
static void on_demand(void)
{
    GC_set_finalize_on_demand(1);
    collect();
    awaited = ran = 0;
    make(MANY);
    clear_stack();
    GC_gcollect();
    CHECK_NEARLY_ALL(awaited);
    CHECK_EQUAL(ran, 0);
    GC_invoke_finalizers();
    CHECK_EQUAL(ran, awaited);
    /* What was found before there was a procedure, it does not hear of. */
    GC_set_await_finalize_proc(0);
    make(MANY);
    clear_stack();
    GC_gcollect();
    GC_set_await_finalize_proc(await);
    awaited = 0;
    CHECK_NEARLY_ALL(GC_invoke_finalizers());
    CHECK_EQUAL(awaited, 0);
    GC_set_finalize_on_demand(0);
}

/* From deeper on the stack than where it was left. */
static APART void finish_deeper(int levels)
{
    char volatile room[4000];
    room[0] = room[sizeof room - 1] = 0;
    if (levels > 0)
        finish_deeper(levels - 1);
    else
        GC_finalize_all();
    room[0] = 1;
}

static jmp_buf out;
static int jumps;
static void leave(void *object)
{
    (void)object;
    jumps++;
    longjmp(out, 1);
}

static void left_by_a_jump(void)
{
    ran = 0;
    awaited = MANY;
    GC_set_await_finalize_proc(leave);
    if (!setjmp(out)) {
        make(MANY);
        clear_stack();
        GC_gcollect();
    }
    CHECK(jumps == 1);
    GC_set_await_finalize_proc(await);
    finish_deeper(16);
    CHECK_NEARLY_ALL(ran);
    GC_set_await_finalize_proc(0);
}

static int depth, deepest;
static void collect_meanwhile(void *object)
{
    (void)object;
    deepest = ++depth > deepest ? depth : deepest;
    awaited++;
    GC_gcollect();
    depth--;
}

/* The others' finalizers run within it, told of before. */
static void finalize_meanwhile(void *object)
{
    (void)object;
    awaited++;
    while (GC_should_invoke_finalizers())
        GC_invoke_finalizers();
}

static void finalizing(void)
{
    collect();
    GC_set_await_finalize_proc(finalize_meanwhile);
    ran = awaited = 0;
    make(MANY);
    clear_stack();
    GC_gcollect();
    CHECK_NEARLY_ALL(awaited);
    CHECK_EQUAL(ran, awaited);
}

/* What that finds, and what was found before, is not told of within the call. */
static void collecting(void)
{
    collect();
    GC_set_await_finalize_proc(collect_meanwhile);
    ran = awaited = 0;
    make(MANY);
    clear_stack();
    GC_gcollect();
    CHECK_NEARLY_ALL(awaited);
    CHECK(deepest <= 1 + MANY / 8);
    GC_set_await_finalize_proc(0);
    collect();
    CHECK_NEARLY_ALL(ran);
}

int main(void)
{
    GC_INIT();
    sink = fopen("/dev/null", "w");
    known[0] = pthread_self();
    GC_set_await_finalize_proc(await);
    beside_a_thread_in_locks();
    on_demand();
    if (on_neap()) { /* libgc calls it with its lock held */
        collecting();
        finalizing();
        left_by_a_jump();
    }
    return finish();
}
