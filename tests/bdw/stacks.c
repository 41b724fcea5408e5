/* Stacks of the program's own (makecontext), in the way of a runtime with one thread and fibers: it
   tells where the current stack begins by writing GC_stackbottom, and pushes those of the sleeping
   fibers itself. */
#include "check.h"
#include <gc/gc_mark.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FIBERS = 8, STACK = 256 << 10, ROUNDS = 200 };

struct cell { struct cell *next; long value; };
struct fiber { ucontext_t context; char *stack, *bottom; int finished; };

static struct fiber fibers[FIBERS], mine;
static struct fiber *running = &mine;
static GC_push_other_roots_proc former;

static void *base_of(struct fiber *fiber)
{
    return fiber->bottom;
}

static void push_sleeping(void)
{
    if (former)
        former();
    for (int index = -1; index < FIBERS; index++) {
        struct fiber *fiber = index < 0 ? &mine : &fibers[index];
        if (fiber == running || fiber->finished || !fiber->bottom)
            continue;
        /* The saved registers are in static memory, a root. */
        char *top = (char *)fiber->context.uc_mcontext.gregs[REG_RSP] - 128;
        GC_push_all_eager(top, fiber->bottom);
    }
}

static void switch_to(struct fiber *to)
{
    struct fiber *from = running;
    running = to;
    GC_stackbottom = base_of(to);
    swapcontext(&from->context, &to->context);
}

static void life(int number)
{
    struct cell *kept = NULL;
    long length = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int index = 0; index < 100; index++) {
            struct cell *cell = GC_malloc(sizeof *cell);
            cell->value = length++;
            cell->next = kept;
            kept = cell;
        }
        switch_to(round % 3 ? &fibers[(number + 1) % FIBERS] : &mine);
        for (int index = 0; index < 200; index++)
            ((struct cell *)GC_malloc(sizeof *kept))->value = -1;
        if (round % 40 == number)
            GC_gcollect();
    }
    long expected = length;
    for (struct cell *cell = kept; cell; cell = cell->next)
        if (cell->value != --expected)
            break;
    CHECK_EQUAL(expected, 0);
    running->finished = 1;
    for (;;)
        switch_to(&mine);
}

int main(void)
{
    GC_INIT();
    char local;
    CHECK(GC_stackbottom > &local);
    mine.bottom = GC_stackbottom;
    former = GC_get_push_other_roots();
    GC_set_push_other_roots(push_sleeping);
    for (int index = 0; index < FIBERS; index++) {
        struct fiber *fiber = &fibers[index];
        fiber->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
            0);
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK;
        makecontext(&fiber->context, (void (*)(void))life, 1, index);
        fiber->bottom = fiber->stack + STACK;
    }
    for (int finished = 0; finished < FIBERS;) {
        finished = 0;
        for (int index = 0; index < FIBERS; index++) {
            if (!fibers[index].finished)
                switch_to(&fibers[index]);
            finished += fibers[index].finished;
        }
        GC_gcollect();
    }
    return finish();
}
