/* large-roots.h: what programs do whose pointers are in large roots: a table of them is filled,
 * then entries are replaced and garbage is made for some seconds, at a steady rate.
 *
 * Invariant: an entry that is not null points to an object that says in which entry it stands. Used
 * by static-data.c, deep-stack.c and cliffs/roots.c, by one thread. */
#ifndef NEAP_BENCH_LARGE_ROOTS_H
#define NEAP_BENCH_LARGE_ROOTS_H

#include "../cliffs/operations.h"

struct large_roots {
    struct entry **table;
    size_t entries;
    size_t lively; /* so many of the first are replaced */
    size_t shared; /* so many entries in a row have an object together, until they are replaced */
    void (*besides)(void); /* what each operation does besides; NULL = nothing */
};

struct entry {
    size_t number;
    struct entry *itself;
    void *garbage[2];
};

static struct entry *large_roots_entry(const struct large_roots *roots, size_t number)
{
    struct entry *entry = bench_gc_allocate(sizeof *entry);
    entry->number = number / roots->shared;
    entry->itself = entry;
    return entry;
}

static bool large_roots_right(const struct large_roots *roots, size_t number)
{
    const struct entry *entry = roots->table[number];
    return entry->itself == entry && entry->number == number / roots->shared;
}

/* Replaces `rate` entries a second for `seconds`, prints what came of it, and returns the exit
   status. */
static int large_roots_run(const char *name, const struct large_roots *roots, long seconds,
    long rate)
{
    struct entry **table = roots->table;
    for (size_t number = 0; number < roots->entries; number++)
        table[number] = number % roots->shared == 0 ? large_roots_entry(roots, number)
            : table[number - 1];
    GC_gcollect();
    uint64_t random = 0x5eed, wrong = 0;
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        size_t number = (size_t)(bench_random(&random) % roots->lively);
        wrong += !large_roots_right(roots, number);
        table[number] = large_roots_entry(roots, number);
        bench_gc_garbage(16, 64);
        if (roots->besides != NULL)
            roots->besides();
        operations_done(operations);
    }
    for (size_t number = 0; number < roots->entries; number++)
        wrong += !large_roots_right(roots, number);
    printf("{\"program\": \"%s\", \"bytes\": %zu, \"wrong\": %" PRIu64, name,
        roots->entries * sizeof *table, wrong);
    operations_print(operations, 1);
    bench_print_measured_stops();
    return bench_gc_finish(wrong == 0 && operations->count > 0);
}

#endif
