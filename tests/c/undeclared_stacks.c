/* A thread on a stack that nobody declared is read from where it stands to the end of the object or
   the mapping that the stack lies in, past pages there that nobody can read: guard pages within a
   mapping, as newer libcs put below stacks and the hardened heap between objects; and not through
   all of a mapping that is larger than any stack. What lies there may be unmapped meanwhile. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum { PAGE = 4096, BYTES = 256 << 10 };
/* As a program reserves for all the stacks that it may ever want. */
static const size_t ARENA_BYTES = (size_t)256 << 30;

static sem_t ready, go;
static ucontext_t outside, inside;

static APART void hold_while_collected(void)
{
    void *volatile object = neap_alloc(5000);
    watch(0, object);
    clear_stack();
    sem_post(&ready);
    while (sem_wait(&go) != 0)
        ;
    CHECK(neap_base(object) == object);
}

static void on_context(void)
{
    hold_while_collected();
    swapcontext(&inside, &outside);
}

static void switch_to(void (*start)(void), void *stack)
{
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = BYTES;
    makecontext(&inside, start, 0);
    CHECK_EQUAL(swapcontext(&outside, &inside), 0);
}

static void *run_on(void *stack)
{
    switch_to(on_context, stack);
    return NULL;
}

static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
    pthread_create;

static APART void collect_beside(void *(*start)(void *), void *argument, pthread_attr_t *attributes)
{
    pthread_t thread;
    CHECK_EQUAL(create(&thread, attributes, start, argument), 0);
    while (sem_wait(&ready) != 0)
        ;
    collect();
    CHECK(watched[0] != NULL);
    sem_post(&go);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

/* Two stacks in one mapping, each with a guard page below it. */
static char *guarded_stacks(void)
{
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = mmap(NULL, 2 * BYTES, protection, flags, -1, 0);
    CHECK(memory != MAP_FAILED);
    if (madvise(memory, PAGE, MADV_GUARD_INSTALL) != 0 ||
        madvise(memory + BYTES, PAGE, MADV_GUARD_INSTALL) != 0)
        printf("# the kernel has no guard pages within a mapping\n");
    return memory;
}

static void in_handler(int signal)
{
    (void)signal;
    hold_while_collected();
}

static void waits(int signal)
{
    (void)signal;
    sem_post(&ready);
    while (sem_wait(&go) != 0)
        ;
}

static void on_interrupted_context(void)
{
    void *volatile object = neap_alloc(5000);
    watch(0, object);
    clear_stack();
    raise(SIGUSR2);
    CHECK(neap_base(object) == object);
    swapcontext(&inside, &outside);
}

/* The handler runs on a third stack, which no mapping has in common with the others. */
static void *handles_elsewhere(void *stacks)
{
    static char third[BYTES];
    stack_t stack = { .ss_sp = third, .ss_size = BYTES };
    CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
    switch_to(on_interrupted_context, stacks);
    stack.ss_flags = SS_DISABLE;
    CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
    return NULL;
}

/* Its own stack is read as a whole then. */
static void *handles(void *other)
{
    stack_t stack = { .ss_sp = other, .ss_size = BYTES };
    CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
    raise(SIGUSR1);
    stack.ss_flags = SS_DISABLE;
    CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
    return NULL;
}

/* What lies above a stack in the same mapping is another thread's. */
enum { MEMORY_BYTES = 16 << 20 };
static int over;

static void on_context_meanwhile(void)
{
    void *volatile object = neap_alloc(5000);
    watch(0, object);
    clear_stack();
    sem_post(&ready);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        CHECK(neap_alloc(64) != NULL);
    CHECK(watched[0] != NULL && neap_base(object) == object);
    swapcontext(&inside, &outside);
}

static void *runs_meanwhile(void *stack)
{
    switch_to(on_context_meanwhile, stack);
    return NULL;
}

/* As munmap does, but that nobody else's memory comes to lie there. */
static void *unmaps(void *memory)
{
    char *upper = (char *)memory + MEMORY_BYTES / 2;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        CHECK_EQUAL(mprotect(upper, MEMORY_BYTES / 2, PROT_NONE), 0);
        CHECK_EQUAL(mprotect(upper, MEMORY_BYTES / 2, PROT_READ | PROT_WRITE), 0);
    }
    return NULL;
}

/* Not stopped meanwhile. */
static void *unmaps_blocked(void *memory)
{
    return neap_blocked(unmaps, memory);
}

static void collect_while_unmapped(void)
{
    pthread_t running, unmapping;
    void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK_EQUAL(pthread_create(&running, NULL, runs_meanwhile, memory), 0);
    while (sem_wait(&ready) != 0)
        ;
    CHECK_EQUAL(pthread_create(&unmapping, NULL, unmaps_blocked, memory), 0);
    for (int round = 0; round < 10; round++)
        collect();
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(running, NULL), 0);
    CHECK_EQUAL(pthread_join(unmapping, NULL), 0);
    munmap(memory, MEMORY_BYTES);
}

static void *all(void *first_thread)
{
    if (first_thread != NULL)
        CHECK_EQUAL(pthread_join(*(pthread_t *)first_thread, NULL), 0);
    sem_init(&ready, 0, 0);
    sem_init(&go, 0, 0);
    void *volatile in_heap = neap_alloc(BYTES);
    void *volatile behind = neap_alloc(BYTES);
    collect_beside(run_on, in_heap, NULL);

    char *stacks = guarded_stacks();
    collect_beside(run_on, stacks, NULL);

    void *arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) {
        printf("# no 256 GB of addresses\n");
    } else {
        /* To look at all its pages takes some minutes, and half a gigabyte for tables. */
        alarm(30);
        collect_beside(run_on, arena, NULL);
        /* As who looks libc's own function up, whose threads are known from their first call on. */
        void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
        *(void **)&create = dlsym(libc, "pthread_create");
        collect_beside(run_on, arena, NULL);
        create = pthread_create;
        alarm(0);
        munmap(arena, ARENA_BYTES);
    }

    struct sigaction action = { .sa_handler = waits, .sa_flags = SA_ONSTACK };
    CHECK_EQUAL(sigaction(SIGUSR2, &action, NULL), 0);
    collect_beside(handles_elsewhere, stacks, NULL);

    action.sa_handler = in_handler;
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK_EQUAL(pthread_attr_setstack(&attributes, stacks, BYTES), 0);
    collect_beside(handles, in_heap, &attributes);
    CHECK(behind != in_heap);
    collect_while_unmapped();
    exit(finish());
}

/* none: there are no file descriptors left, so what the mappings are cannot be read. ended: the
   first thread has ended, and what the kernel says of the process through it. */
int main(int argc, char **argv)
{
    static pthread_t first, thread;
    struct rlimit few = {64, 64};
    neap_init();
    if (argc > 1 && strcmp(argv[1], "none") == 0) {
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
        while (dup(0) >= 0)
            ;
    }
    if (argc > 1 && strcmp(argv[1], "ended") == 0) {
        first = pthread_self();
        CHECK_EQUAL(pthread_create(&thread, NULL, all, &first), 0);
        pthread_exit(NULL);
    }
    all(NULL);
}
