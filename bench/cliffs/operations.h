/* operations.h: what every program of this folder does: operations at a steady rate, each timed.
 *
 *     struct operations *operations = operations_make(threads);
 *     operations_begin(operations, rate, seconds, count);
 *     while (operations_next(operations)) {
 *         …one operation…
 *         operations_done(operations);
 *     }
 *     operations_print(operations, threads);
 *
 * Two times are kept of each operation: `operation`, from its start to its end, and `response`,
 * from when it was due: after a stop of 100 ms all operations that were due meanwhile are late
 * too. The thread spins until the next one is due and never sleeps. Without a rate (0) operations
 * follow one another and both times are the same. This header's own work is some 50 ns an
 * operation. `longest_in_stop_ms` is the longest step from one reading of the clock to the next
 * that a stop touched, by the library's events: at least how long the stop was for this thread,
 * and at most that and the rest of the operation.
 *
 * Invariant: every operation that began is counted once, also the last, which may end after the
 * time is up. A thread has its own `struct operations`, in memory that no collector reads; only
 * the flag that ends it may be set by another. */
#ifndef NEAP_BENCH_OPERATIONS_H
#define NEAP_BENCH_OPERATIONS_H

#include <sys/mman.h>

#include "../programs/bench_gc.h"
#include "../programs/times.h"
#include "../programs/utilisation.h"

struct operations {
    struct times service, response;
    struct utilisation utilisation;
    uint64_t began, end, count, most;
    uint64_t due, started, now, usual;
    uint64_t stops_begun, longest_in_stop;
    double interval; /* nanoseconds; 0 = at once */
    bool stopped;    /* a stop was under way at the last reading of the clock */
};

/* The median is asked for first after so many operations, then whenever that many more came. */
enum { USUAL_FIRST = 1 << 10, USUAL_EVERY = 1 << 14 };

/* `count` of them, one beside the other. */
static inline struct operations *operations_make(size_t count)
{
    void *memory = mmap(NULL, count * sizeof(struct operations), PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

/* A step from one reading of the clock to the next; whether a stop touched it. */
static inline void operations_step(struct operations *all, uint64_t now)
{
    uint64_t begun = __atomic_load_n(&bench_stops_begun, __ATOMIC_RELAXED);
    bool touched = all->stopped || begun != all->stops_begun;
    if (__builtin_expect(touched && now - all->now > all->longest_in_stop, 0))
        all->longest_in_stop = now - all->now;
    all->stops_begun = begun;
    all->stopped = __atomic_load_n(&bench_stop_began, __ATOMIC_RELAXED) != 0;
    all->now = now;
}

/* From now on for `seconds`, or until `count` operations were made; 0 = no such bound. */
static inline void operations_begin(struct operations *all, long rate, long seconds, uint64_t count)
{
    all->interval = rate == 0 ? 0 : 1e9 / (double)rate;
    all->most = count == 0 ? UINT64_MAX : count;
    all->stops_begun = __atomic_load_n(&bench_stops_begun, __ATOMIC_RELAXED);
    all->began = all->now = bench_nanoseconds();
    all->end = seconds == 0 ? UINT64_MAX : all->began + (uint64_t)seconds * 1000000000u;
}

/* Another thread lets it make its last operation. */
static inline void operations_stop(struct operations *all)
{
    __atomic_store_n(&all->end, 0, __ATOMIC_RELAXED);
}

/* Waits until the next operation is due; false when there is none. */
static inline bool operations_next(struct operations *all)
{
    if (all->count == all->most)
        return false;
    all->due = all->interval == 0 ? 0
        : all->began + (uint64_t)((double)all->count * all->interval);
    uint64_t now, end;
    do {
        now = bench_nanoseconds();
        if (now - all->now > LEAST_GAP_NS && all->usual != 0)
            utilisation_gap(&all->utilisation, all->now, now);
        operations_step(all, now);
        end = __atomic_load_n(&all->end, __ATOMIC_RELAXED);
    } while (now < all->due && now < end);
    if (all->due == 0)
        all->due = now;
    all->started = now;
    return now < end;
}

/* The operation that operations_next let begin has ended. */
static inline void operations_done(struct operations *all)
{
    uint64_t now = bench_nanoseconds(), took = now - all->started;
    operations_step(all, now);
    times_add(&all->service, took);
    times_add(&all->response, now - all->due);
    all->count++;
    if (all->usual != 0 && took > 2 * all->usual + LEAST_GAP_NS)
        utilisation_gap(&all->utilisation, all->started + all->usual, now);
    if (all->count % USUAL_EVERY == 0 || all->count == USUAL_FIRST)
        all->usual = times_quantile(&all->service, 0.5);
}

/* How long the last operation took, in nanoseconds. */
static inline uint64_t operations_last(const struct operations *all)
{
    return all->now - all->started;
}

/* Fields of the program's line: times of all threads together, of utilisation and stops the worst
   of any. The threads have ended. */
static inline void operations_print(const struct operations *threads, size_t count)
{
    static struct times service, response;
    double per_second = 0, worst[WINDOWS];
    uint64_t in_stop = 0, made = 0;
    for (size_t thread = 0; thread < count; thread++) {
        const struct operations *one = &threads[thread];
        times_merge(&service, &one->service);
        times_merge(&response, &one->response);
        made += one->count;
        per_second += (double)one->count / ((double)(one->now - one->began) * 1e-9);
        if (one->longest_in_stop > in_stop)
            in_stop = one->longest_in_stop;
        for (unsigned window = 0; window < WINDOWS; window++) {
            double part = utilisation_of(&one->utilisation, window);
            if (thread == 0 || part < worst[window])
                worst[window] = part;
        }
    }
    printf(", \"operations\": %" PRIu64 ", \"operations_per_second\": %.0f", made, per_second);
    times_print(&service, "operation");
    times_print(&response, "response");
    printf(", \"mmu\": {");
    for (unsigned window = 0; window < WINDOWS; window++)
        printf("%s\"%u\": %.4f", window == 0 ? "" : ", ", window_ms[window], worst[window]);
    printf("}");
    if (bench_stops_known)
        printf(", \"longest_in_stop_ms\": %.3f", (double)in_stop * 1e-6);
}

#endif
