/* processor.h: whether the calling thread was kept from a processor, by what the kernel counts for
 * it.
 *
 * Invariant: counts only grow; they are those of the thread that asks. A kernel that does not count
 * the time spent waiting (no /proc/thread-self/schedstat) gives 0 for it, and the switches alone
 * count. Used by pauses.c, by its one thread. */
#ifndef NEAP_BENCH_PROCESSOR_H
#define NEAP_BENCH_PROCESSOR_H

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

struct processor_counts {
    long switches;    /* involuntary ones */
    uint64_t waiting; /* nanoseconds ready to run, and not running */
};

/* A wait this long is no wake-up's. */
enum { PROCESSOR_WAIT_NS = 50000 };

static struct processor_counts processor_counts(void)
{
    static int file = -2;
    struct processor_counts counts = {0, 0};
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0)
        counts.switches = usage.ru_nivcsw;
    if (file == -2)
        file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    char line[128] = "";
    uint64_t running;
    if (file < 0 || pread(file, line, sizeof line - 1, 0) <= 0 ||
        sscanf(line, "%" SCNu64 " %" SCNu64, &running, &counts.waiting) != 2)
        counts.waiting = 0;
    return counts;
}

static bool processor_was_taken(const struct processor_counts *before,
    const struct processor_counts *after)
{
    return after->switches != before->switches ||
        after->waiting - before->waiting > PROCESSOR_WAIT_NS;
}

#endif
