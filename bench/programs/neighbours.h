/* neighbours.h: busy neighbours: processes that spin and share the processors with the program.
 *
 * Invariant: they are started before the program has other threads or a collector, hold none of
 * its memory alive, and end with it, also where it is killed. Called by cliffs/heap.c and
 * still.c from the main thread, first thing. */
#ifndef NEAP_BENCH_NEIGHBOURS_H
#define NEAP_BENCH_NEIGHBOURS_H

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bench.h"

enum { MOST_NEIGHBOURS = 64 };

static inline void neighbours_start(long count)
{
    pid_t parent = getpid();
    for (long i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            exit(1);
        }
        if (child == 0) {
            /* The parent may have gone before this. */
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
                _exit(1);
            for (volatile uint64_t turns = 0;; turns++)
                ;
        }
    }
}

#endif
