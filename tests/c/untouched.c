/* A program that never touches most of what it allocates has fewer cycles, and no more memory than
   the heap has room for; one that touches it has as many as ever. */
#include "check.h"
#include <sys/sysinfo.h>

enum { OBJECTS = 10000, BYTES = 60000, ROOM = 64 << 20 };
/* Cycles that so many objects take at least, where all of their bytes count. */
enum { LEAST_CYCLES = OBJECTS / 4 * 3 / (ROOM / BYTES) };

static uint64_t cycles(void)
{
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    return statistics.cycles;
}

static long resident(void)
{
    long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &pages) == 2);
    fclose(file);
    return pages * 4096;
}

/* Cycles while so many objects are allocated and dropped; the first `touched` bytes of each are
   written. */
static APART uint64_t cycles_of(size_t touched, long *most)
{
    uint64_t before;
    neap_collect();
    before = cycles();
    for (int i = 0; i < OBJECTS; i++) {
        char *object = neap_alloc_leaf(BYTES);
        CHECK(object != NULL);
        memset(object, i, touched);
        if (i % 100 == 0 && resident() > *most)
            *most = resident();
    }
    return cycles() - before;
}

int main(void)
{
    struct sysinfo machine;
    long most = 0, base;
    uint64_t untouched, touched;
    CHECK(neap_option_set("min_trigger", "64MiB") == NULL);
    CHECK(neap_option_set("minor_cycles", "never") == NULL);
    CHECK(neap_option_set("huge_pages", "never") == NULL);
    neap_init();
    base = resident();
    untouched = cycles_of(0, &most);
    printf("%llu cycles, %ld bytes more\n", (unsigned long long)untouched, most - base);
    CHECK(most - base < ROOM / 2);
    touched = cycles_of(BYTES, &most);
    printf("%llu cycles, %ld bytes more\n", (unsigned long long)touched, most - base);
    /* What was not touched before is as good as what is not swept yet. */
    CHECK(most - base < 4L * ROOM);
    CHECK(touched >= LEAST_CYCLES);
    /* What a machine has swapped out is not in memory either, so there cycles come as ever. */
    if (sysinfo(&machine) == 0 && machine.freeswap == machine.totalswap)
        CHECK(untouched * 3 <= touched);
    /* In a limited heap what is untouched counts: nothing is refused for it. */
    CHECK(neap_option_set("max_heap", "100MiB") == NULL);
    CHECK(cycles_of(0, &most) >= LEAST_CYCLES);
    return finish();
}
