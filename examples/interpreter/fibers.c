/* fibers.c: (fiber f) makes a fiber, (resume fiber x) runs it until it ends or calls (yield y),
 * which is what resume gives; x is what yield gives there. Invariant: a fiber is run by one thread
 * at a time; a thread runs one, not a fiber inside a fiber. */
#define _GNU_SOURCE
#include "value.h"

#include <neap.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 256 << 10 };

struct fiber {
    uintptr_t type;
    value function, passed; /* to it, or from it */
    int done;
    neap_stack *stack; /* as the collector knows it */
    void *memory;
    ucontext_t there, back;
};

/* The fiber that the thread runs. Thread-local storage is scanned. */
static __thread struct fiber *running;

static void body(void)
{
    struct fiber *fiber = running;
    fiber->passed = apply(fiber->function, cons(fiber->passed, NOTHING));
    fiber->done = 1;
    neap_stack_switch(NULL);
    setcontext(&fiber->back);
}

static value make_fiber(value arguments)
{
    struct fiber *fiber = neap_alloc(sizeof *fiber);
    fiber->type = FIBER;
    fiber->function = first(arguments);
    fiber->memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (fiber->memory == MAP_FAILED)
        fail("no memory for a stack");
    fiber->stack = neap_stack_create(fiber->memory, STACK);
    getcontext(&fiber->there);
    fiber->there.uc_stack.ss_sp = fiber->memory;
    fiber->there.uc_stack.ss_size = STACK;
    makecontext(&fiber->there, body, 0);
    return (value)fiber;
}

static value resume(value arguments)
{
    struct fiber *fiber = (struct fiber *)first(arguments);
    if (!is((value)fiber, FIBER) || fiber->done || running)
        fail("that cannot be resumed");
    fiber->passed = first(rest(arguments));
    running = fiber;
    neap_stack_switch(fiber->stack); /* right before the switch: where we go */
    swapcontext(&fiber->back, &fiber->there);
    running = NULL;
    if (fiber->done) { /* nobody runs on it any more */
        neap_stack_retire(fiber->stack);
        munmap(fiber->memory, STACK);
    }
    return fiber->passed;
}

static value yield(value arguments)
{
    struct fiber *fiber = running;
    if (!fiber)
        fail("yield outside of a fiber");
    fiber->passed = first(arguments);
    neap_stack_switch(NULL); /* back to the thread's own stack */
    swapcontext(&fiber->there, &fiber->back);
    return fiber->passed;
}

void fibers_begin(void)
{
    primitive("fiber", make_fiber);
    primitive("resume", resume);
    primitive("yield", yield);
}
