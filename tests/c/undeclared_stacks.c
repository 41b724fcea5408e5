/* A thread on a stack that nobody declared is read from where it stands to the end of the object or
   the mapping that the stack lies in, past pages there that nobody can read: guard pages within a
   mapping, as newer libcs put below stacks and the hardened heap between objects; and not through
   all of a mapping that is larger than any stack. */
#include "check.h"
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

static APART void collect_beside(void *(*start)(void *), void *argument, pthread_attr_t *attributes)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, attributes, start, argument), 0);
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

/* With an argument there are no file descriptors left: what the mappings are cannot be read. */
int main(int argc, char **argv)
{
    struct rlimit few = {64, 64};
    (void)argv;
    neap_init();
    if (argc > 1) {
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
        while (dup(0) >= 0)
            ;
    }
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
    return finish();
}
