/* Allocates known amounts in functions of known names, keeps some of it and frees some:
   tests/stats/run.sh compares the sampled sites. Built without frame pointers: stacks are found by
   unwind tables. */
#include <neap.h>
#include <stdio.h>
#include <string.h>

enum { KEPT = 1 << 15, LOST = 1 << 17, FREED = 1 << 14, LARGE = 200, BYTES = 1000,
    LARGE_BYTES = 200000 };

static void *kept[KEPT];
static void *volatile sink;

__attribute__((noinline)) static void *make(size_t bytes)
{
    void *made = neap_alloc_leaf(bytes);
    __asm__ volatile("" ::: "memory"); /* no tail call: the caller is to be on the stack */
    return made;
}

__attribute__((noinline)) static void keep(void)
{
    for (int i = 0; i < KEPT; i++)
        kept[i] = make(BYTES);
}

__attribute__((noinline)) static void lose(void)
{
    for (int i = 0; i < LOST; i++)
        sink = make(BYTES);
}

__attribute__((noinline)) static void free_again(void)
{
    for (int i = 0; i < FREED; i++)
        neap_free(make(BYTES));
}

__attribute__((noinline)) static void lose_large(void)
{
    for (int i = 0; i < LARGE; i++)
        sink = make(LARGE_BYTES);
}

int main(void)
{
    keep();
    lose();
    free_again();
    lose_large();
    sink = NULL;
    neap_collect();
    return kept[KEPT - 1] == NULL;
}
