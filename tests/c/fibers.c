/* Fibers by makecontext on declared stacks: what only a fiber that is not running holds stays
   alive, also for fibers that move between threads, and that have not begun; retired ones hold
   nothing. */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FIBERS = 20, STACK = 128 << 10, EACH = MANY / FIBERS };

struct fiber {
    ucontext_t context;
    neap_stack *stack;
    char *memory;
    int number, turns, done;
};

static struct fiber fibers[FIBERS];
static __thread ucontext_t scheduler;
static __thread struct fiber *running;

static APART void yield(void)
{
    struct fiber *own = running;
    neap_stack_switch(NULL);
    swapcontext(&own->context, &scheduler);
}

static APART void resume(struct fiber *fiber)
{
    running = fiber;
    neap_stack_switch(fiber->stack);
    swapcontext(&scheduler, &fiber->context);
}

/* Holds objects on its stack over every switch. */
static APART void work(struct fiber *own)
{
    long *held[EACH];
    for (int i = 0; i < EACH; i++) {
        held[i] = neap_alloc(48);
        *held[i] = own->number * EACH + i;
        watch(own->number * EACH + i, held[i]);
    }
    while (own->turns-- > 0) {
        yield();
        churn(48, 50);
        for (int i = 0; i < EACH; i++)
            CHECK_EQUAL(*held[i], own->number * EACH + i);
    }
}

static void fiber_main(int number)
{
    work(&fibers[number]);
    clear_stack();
    fibers[number].done = 1;
    yield();
}

static APART void create(int number, int turns)
{
    struct fiber *fiber = &fibers[number];
    fiber->memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(fiber->memory != MAP_FAILED);
    fiber->stack = neap_stack_create(fiber->memory, STACK);
    CHECK(fiber->stack != NULL);
    fiber->number = number;
    fiber->turns = turns;
    fiber->done = 0;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->memory;
    fiber->context.uc_stack.ss_size = STACK;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, (void (*)(void))fiber_main, 1, number);
}

static APART void *run_once(void *argument)
{
    (void)argument;
    for (int i = 0; i < FIBERS; i++)
        if (!fibers[i].done)
            resume(&fibers[i]);
    return NULL;
}

int main(void)
{
    for (int i = 0; i < FIBERS; i++)
        create(i, 6);
    collect(); /* fresh stacks are scanned, too */
    run_once(NULL);
    collect();
    CHECK_ALL_ALIVE(0);
    run_once(NULL);
    collect();
    CHECK_ALL_ALIVE(0);
    /* On other threads, while this one collects. */
    for (int turn = 0; turn < 3; turn++) {
        pthread_t thread;
        CHECK_EQUAL(pthread_create(&thread, NULL, run_once, NULL), 0);
        collect();
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        collect();
        CHECK_ALL_ALIVE(0);
    }
    run_once(NULL);
    CHECK_ALL_ALIVE(0);
    /* Some end, some are given up where they stand. */
    for (int i = 0; i < FIBERS / 2; i++)
        while (!fibers[i].done)
            resume(&fibers[i]);
    for (int i = 0; i < FIBERS; i++) {
        neap_stack_retire(fibers[i].stack);
        CHECK_EQUAL(munmap(fibers[i].memory, STACK), 0);
    }
    memset(fibers, 0, sizeof fibers);
    memset(&scheduler, 0, sizeof scheduler);
    neap_stack_retire(NULL);
    collect();
    CHECK_DEAD(0);
    return finish();
}
