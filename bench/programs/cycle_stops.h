/* cycle_stops.h: how long the program stands in a cycle, for weak-pause.c and finalizer-pause.c:
 * the median over many cycles of the sum of a cycle's stops.
 *
 * Invariant: the program's own work between two cycles is not measured. Called by the main thread,
 * with automatic cycles off. */
#ifndef NEAP_CYCLE_STOPS_H
#define NEAP_CYCLE_STOPS_H

#include "bench.h"
#include <neap.h>

enum { MOST_CYCLES = 1000 };

static inline int cycle_stops_by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Milliseconds of stops in one cycle. */
static inline double cycle_stops_ms(void)
{
    neap_statistics before, after;
    neap_statistics_read(&before, sizeof before);
    neap_collect();
    neap_statistics_read(&after, sizeof after);
    return (double)(after.pause_total_ns - before.pause_total_ns) /
           (double)(after.cycles - before.cycles) * 1e-6;
}

/* The median of `cycles` cycles, before each of which `prepare` is called with `with`; finalizers
   are run after each. */
static inline double cycle_stops_median(void (*prepare)(int with), int with, long cycles)
{
    static double all[MOST_CYCLES];
    for (long cycle = 0; cycle < cycles; cycle++) {
        prepare(with);
        all[cycle] = cycle_stops_ms();
        neap_finalizers_run();
    }
    qsort(all, (size_t)cycles, sizeof *all, cycle_stops_by_value);
    return all[cycles / 2];
}

#endif
