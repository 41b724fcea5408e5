/* asked.c: a program on libgc's interface that `neap heap PID` is asked of: keeps a list of 1,000
 * cells of 48 bytes in the static variable `list`, collects, prints "ready" and its number, and
 * waits for the end of its input. With an argument it allocates so many kilobytes instead of
 * collecting; with another one in one object, and it has a function that a collection calls. */
#include <gc.h>
#include <gc/gc_mark.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cell {
    struct cell *next;
    char rest[40];
};
static struct cell *list;

static __attribute__((noinline)) void make(void)
{
    for (int i = 0; i < 1000; i++) {
        struct cell *cell = GC_MALLOC(sizeof *cell);
        cell->next = list;
        list = cell;
    }
}

static void nothing(void)
{
}

/* What calls left on the stack is not to point into the list. */
static __attribute__((noinline)) void wipe(void)
{
    char stack[64 << 10];
    memset(stack, 0, sizeof stack);
    __asm__ volatile("" : : "r"(stack) : "memory");
}

int main(int count, char **arguments)
{
    GC_INIT();
    if (count > 2)
        GC_set_push_other_roots(nothing);
    make();
    wipe();
    if (count == 1)
        GC_gcollect();
    else if (count > 2)
        GC_MALLOC_ATOMIC((size_t)atoi(arguments[1]) << 10);
    else
        for (int left = atoi(arguments[1]); left > 0; left--)
            GC_MALLOC_ATOMIC(1000);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    char end;
    return read(0, &end, 1) != 0 || list == NULL;
}
