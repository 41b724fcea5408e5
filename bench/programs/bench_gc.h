/* bench_gc.h: what the programs on the libgc ABI share: start-up, counting of collections and
 * stops, the fields about the library.
 *
 * The same binary runs on Debian's libgc and on Neap's drop-in, so only functions that both have
 * are linked; what one of them may lack (the event callback) is looked up at run time. A stop lasts
 * from GC_EVENT_PRE_STOP_WORLD to GC_EVENT_POST_START_WORLD, that is, from the moment the collector
 * begins to stop threads until all run again. Invariant: the counters are written only by the event
 * callback, which the library calls with its own lock held, so one thread at a time. */
#ifndef NEAP_BENCH_GC_H
#define NEAP_BENCH_GC_H

#define GC_THREADS 1
#include <dlfcn.h>
#include <gc.h>

#include "bench.h"

static uint64_t bench_stop_began;   /* nanoseconds; 0 = the world runs */
static uint64_t bench_stop_longest; /* nanoseconds */
static uint64_t bench_stop_total;   /* nanoseconds */
static uint64_t bench_stop_count;
static uint64_t bench_stops_begun;
static uint64_t bench_measured_count, bench_measured_longest; /* since bench_measure_stops */
static bool bench_stops_known;      /* the library reports events */

static void GC_CALLBACK bench_on_event(GC_EventType event)
{
    if (event == GC_EVENT_PRE_STOP_WORLD) {
        bench_stop_began = bench_nanoseconds();
        bench_stops_begun++;
    } else if (event == GC_EVENT_POST_START_WORLD && bench_stop_began != 0) {
        uint64_t lasted = bench_nanoseconds() - bench_stop_began;
        bench_stop_began = 0;
        bench_stop_count++;
        bench_stop_total += lasted;
        if (lasted > bench_stop_longest)
            bench_stop_longest = lasted;
        bench_measured_count++;
        if (lasted > bench_measured_longest)
            bench_measured_longest = lasted;
    }
}

/* Stops are measured from here on, those before are not; the fields that all programs print count
   from the start. */
static inline void bench_measure_stops(void)
{
    bench_measured_count = bench_measured_longest = 0;
}

/* The stops since, fields of the program's line. Called before anything else collects. */
static inline void bench_print_measured_stops(void)
{
    if (bench_stops_known)
        printf(", \"measured_stops\": %" PRIu64 ", \"measured_longest_stop_ms\": %.3f",
            bench_measured_count, (double)bench_measured_longest * 1e-6);
}

/* Starts the collector and, where the library has the call, the counting of stops. Main thread,
   first thing. */
static inline void bench_gc_start(void)
{
    GC_INIT();
    void (*set_on_event)(GC_on_collection_event_proc);
    *(void **)&set_on_event = dlsym(RTLD_DEFAULT, "GC_set_on_collection_event");
    if (set_on_event != NULL) {
        set_on_event(bench_on_event);
        bench_stops_known = true;
    }
}

/* GC_malloc that ends the program when memory runs out: a benchmark with a hole in it would measure
   nothing. */
static inline void *bench_gc_allocate(size_t bytes)
{
    void *object = GC_malloc(bytes);
    if (__builtin_expect(object == NULL, 0)) {
        fprintf(stderr, "out of memory: GC_malloc(%zu) returned NULL\n", bytes);
        exit(1);
    }
    return object;
}

/* The same for objects without pointers. */
static inline void *bench_gc_allocate_leaf(size_t bytes)
{
    void *object = GC_malloc_atomic(bytes);
    if (__builtin_expect(object == NULL, 0)) {
        fprintf(stderr, "out of memory: GC_malloc_atomic(%zu) returned NULL\n", bytes);
        exit(1);
    }
    return object;
}

/* Garbage: so many objects in a chain, dropped at once. */
static inline void bench_gc_garbage(int objects, size_t bytes)
{
    void **chain = NULL;
    for (; objects > 0; objects--) {
        void **link = bench_gc_allocate(bytes);
        *link = chain;
        chain = link;
    }
    bench_keep(chain);
}

/* Prints the last fields of the JSON line, which say what the collector did and which library it
   was; returns the exit status. */
static inline int bench_gc_finish(bool ok)
{
    Dl_info info = {0};
    void *allocate = dlsym(RTLD_DEFAULT, "GC_malloc");
    char *path = NULL;
    if (allocate != NULL && dladdr(allocate, &info) != 0 && info.dli_fname != NULL)
        path = realpath(info.dli_fname, NULL);
    unsigned version = GC_get_version();
    printf(", \"collections\": %lu", (unsigned long)GC_get_gc_no());
    if (bench_stops_known)
        printf(", \"stops\": %" PRIu64 ", \"longest_stop_ms\": %.3f, \"stopped_ms\": %.3f",
            bench_stop_count,
               (double)bench_stop_longest * 1e-6, (double)bench_stop_total * 1e-6);
    printf(", \"library\": \"%s\", \"library_version\": \"%u.%u.%u\", \"ok\": %s}\n", path != NULL
        ? path : "", version >> 16,
           (version >> 8) & 0xff, version & 0xff, ok ? "true" : "false");
    free(path);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}

#endif
