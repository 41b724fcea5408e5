/* utilisation.h: how much of any short while was the program's: minimum mutator utilisation (MMU),
 * as the program itself can see it.
 *
 * What counts as lost: (1) while the thread waits for its next operation it reads the clock in a
 * loop; a step of that loop that takes longer than LEAST_GAP_NS is lost. (2) An operation that
 * takes more than twice the usual time and LEAST_GAP_NS besides lost what is beyond the usual, at
 * its end; the usual time is the median of the operations so far. The MMU of a window is one less
 * the largest part of any window of that length that was lost.
 *
 * What it cannot see: who took the time. Stops, assists, page faults and locks count as well as
 * neighbours and the host of a virtual machine, so compare with a run that does not collect
 * (GC_DONT_GC=1). Nor an operation that is slowed down to less than twice the usual, as by a cold
 * cache; that shows in response times. Nor where within an operation the time went. Nor what comes
 * before the first median, or in a thread that makes no operations.
 *
 * Invariant: gaps do not overlap and are in order, each at least LEAST_GAP_NS long, so a ring of
 * RING of them always reaches back further than the longest window. One thread; memory that no
 * collector reads. Called by operations.h. */
#ifndef NEAP_BENCH_UTILISATION_H
#define NEAP_BENCH_UTILISATION_H

#include "bench.h"

enum { WINDOWS = 7, RING = 1 << 17, LEAST_GAP_NS = 1000 };

static const unsigned window_ms[WINDOWS] = {1, 2, 5, 10, 20, 50, 100};

struct gap {
    uint64_t start, end;
    uint64_t before; /* what was lost in all gaps before it */
};

struct utilisation {
    struct gap gaps[RING];
    uint64_t count, lost;
    uint64_t first[WINDOWS]; /* the oldest gap in the window that ends with the last */
    uint64_t most[WINDOWS];  /* most that any window lost */
};

/* A gap has ended. Most is lost in a window that ends with a gap: moved on from there it wins
   nothing. */
static inline void utilisation_gap(struct utilisation *all, uint64_t start, uint64_t end)
{
    all->gaps[all->count++ % RING] = (struct gap){start, end, all->lost};
    all->lost += end - start;
    for (unsigned window = 0; window < WINDOWS; window++) {
        uint64_t length = window_ms[window] * 1000000u, from = end > length ? end - length : 0;
        while (all->gaps[all->first[window] % RING].end <= from)
            all->first[window]++;
        const struct gap *oldest = &all->gaps[all->first[window] % RING];
        uint64_t outside = oldest->start < from ? from - oldest->start : 0;
        uint64_t lost = all->lost - oldest->before - outside;
        if (lost > all->most[window])
            all->most[window] = lost;
    }
}

/* A window's utilisation, in [0, 1]. */
static inline double utilisation_of(const struct utilisation *all, unsigned window)
{
    return 1.0 - (double)all->most[window] / (window_ms[window] * 1e6);
}

#endif
