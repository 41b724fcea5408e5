/* times.h: how long many operations took: longest and percentiles.
 *
 * Times in nanoseconds are counted in 32 buckets for each power of two, so percentiles are at most
 * 3 % too high, and the longest is exact. Invariant: the counts of all buckets add up to `total`.
 * One thread fills a `struct times`; merging and printing come after it has ended. Called by
 * cliffs/operations.h. */
#ifndef NEAP_BENCH_TIMES_H
#define NEAP_BENCH_TIMES_H

#include "bench.h"

enum { STEPS_LOG2 = 5, STEPS = 1 << STEPS_LOG2, BUCKETS = STEPS * 60 };

struct times {
    uint64_t counts[BUCKETS];
    uint64_t total, longest;
};

static inline void times_add(struct times *times, uint64_t nanoseconds)
{
    /* Shifted right by `power` a large time lies in [STEPS, 2 * STEPS): below 2 * STEPS each
       nanosecond has a bucket of its own. */
    unsigned power = nanoseconds < 2 * STEPS ? 0
        : 63 - STEPS_LOG2 - (unsigned)__builtin_clzll(nanoseconds);
    unsigned bucket = power * STEPS + (unsigned)(nanoseconds >> power);
    times->counts[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    times->total++;
    if (nanoseconds > times->longest)
        times->longest = nanoseconds;
}

/* Adds all that `from` holds to `times`. */
static inline void times_merge(struct times *times, const struct times *from)
{
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
        times->counts[bucket] += from->counts[bucket];
    times->total += from->total;
    if (from->longest > times->longest)
        times->longest = from->longest;
}

/* The time in nanoseconds that a share of `fraction` of all operations did not exceed (the upper
   edge of its bucket). */
static inline uint64_t times_quantile(const struct times *times, double fraction)
{
    uint64_t wanted = (uint64_t)((double)times->total * fraction), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += times->counts[bucket];
        if (seen > wanted) {
            unsigned power = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
            uint64_t edge = (((uint64_t)(bucket - power * STEPS) + 1) << power) - 1;
            return edge < times->longest ? edge : times->longest;
        }
    }
    return times->longest;
}

/* A field of the program's line. */
static inline void times_print(const struct times *times, const char *name)
{
    static const struct {
        const char *name;
        double fraction;
    } shares[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};
    printf(", \"%s_us\": {", name);
    for (size_t share = 0; share < sizeof shares / sizeof *shares; share++)
        printf("\"%s\": %.2f, ", shares[share].name,
            (double)times_quantile(times, shares[share].fraction) * 1e-3);
    printf("\"max\": %.2f}", (double)times->longest * 1e-3);
}

#endif
