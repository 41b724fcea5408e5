/* large-roots.h: what programs do whose pointers are in large roots: a table of them is filled,
 * then entries are replaced and garbage is made for some seconds, at a steady rate.
 *
 * Invariant: an entry that is not null points to an object that says in which entry it stands. Used
 * by static-data.c and deep-stack.c, by one thread. */
#ifndef NEAP_BENCH_LARGE_ROOTS_H
#define NEAP_BENCH_LARGE_ROOTS_H

#include "bench_gc.h"

/* An eighth of the entries have an object of their own, the others stand for it too. */
enum { SHARED = 8 };

struct entry {
    size_t number;
    struct entry *itself;
    void *garbage[2];
};

static struct entry *large_roots_entry(size_t number)
{
    struct entry *entry = bench_gc_allocate(sizeof *entry);
    entry->number = number / SHARED;
    entry->itself = entry;
    return entry;
}

/* Replaces `rate` entries a second, of the first `lively`, for `seconds`, prints what came of it,
   and returns the exit status. */
static int large_roots_run(const char *name, struct entry **table, size_t entries, size_t lively,
    long seconds, long rate)
{
    for (size_t number = 0; number < entries; number++)
        table[number] = number % SHARED == 0 ? large_roots_entry(number) : table[number - 1];
    GC_gcollect();
    bench_stop_longest = 0;
    uint64_t stops_before = bench_stop_count, random = 0x5eed, wrong = 0, operations = 0,
        longest = 0;
    uint64_t began = bench_nanoseconds(), end = began + (uint64_t)seconds * 1000000000u,
        now = began;
    while (now < end) {
        uint64_t due = began + operations * 1000000000u / (uint64_t)rate;
        while (now < due && now < end)
            now = bench_nanoseconds();
        uint64_t started = now;
        size_t number = (size_t)(bench_random(&random) % lively);
        wrong += table[number]->itself != table[number] || table[number]->number != number / SHARED;
        table[number] = large_roots_entry(number);
        for (int garbage = 0; garbage < 16; garbage++)
            bench_keep(bench_gc_allocate(64));
        now = bench_nanoseconds();
        operations++;
        if (now - started > longest)
            longest = now - started;
    }
    for (size_t number = 0; number < entries; number++)
        wrong += table[number]->itself != table[number] || table[number]->number != number / SHARED;
    printf("{\"program\": \"%s\", \"bytes\": %zu, \"wrong\": %" PRIu64 ", \"operations_per_second\": %.0f, \"operation_us\": {\"max\": %.2f}", name,
           entries * sizeof *table, wrong, (double)operations / (double)seconds,
               (double)longest * 1e-3);
    if (bench_stops_known)
        printf(", \"measured_stops\": %" PRIu64 ", \"measured_longest_stop_ms\": %.3f",
            bench_stop_count - stops_before,
               (double)bench_stop_longest * 1e-6);
    return bench_gc_finish(wrong == 0);
}

#endif
