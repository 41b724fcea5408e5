/* stripped: as a library, an exported function and behind it one that has no name once the library
   is stripped, which allocates; as a program (-DPROGRAM), what calls it. tests/stats/run.sh asks
   whose the allocations are. */
#include <neap.h>

void *allocate_a_lot(int times);

#ifdef PROGRAM
int main(void)
{
    return allocate_a_lot(100000) == NULL;
}
#else
__attribute__((noinline)) static void *nameless(int times)
{
    void *volatile made = NULL;
    for (int i = 0; i < times; i++)
        made = neap_alloc_leaf(1000);
    return made;
}

static void *(*volatile hidden)(int) = nameless;

/* Lies before the other one: the linker keeps their order. */
__attribute__((noinline, section(".text.unlikely"))) void *allocate_a_lot(int times)
{
    void *made = hidden(times);
    __asm__ volatile("" ::: "memory");
    return made;
}
#endif
