/* workload.h: what the workloads share: objects on either interface, typed or not, and the count of
 * what was asked for and what it cost.
 *
 * The same source runs on the libgc ABI (default: Debian's libgc or Neap's drop-in) and on neap.h
 * (-DBENCH_NEAP). Each thread counts for itself and hands its counts over at its end
 * (workload_merge), so the counts are exact and cost no atomic operation. Invariant: `requested` is
 * what the program asked for, `allocated` the cells it got for that, as the library says (GC_size,
 * neap_usable_size). */
#ifndef NEAP_WORKLOAD_H
#define NEAP_WORKLOAD_H

#ifdef BENCH_NEAP
#include "../programs/bench.h"
#include <neap.h>
#define workload_usable(object) neap_usable_size(object)
#define workload_plain(bytes) neap_alloc(bytes)
#define workload_leaf_object(bytes) neap_alloc_leaf(bytes)
#define workload_collect() neap_collect()
typedef neap_layout workload_descriptor;
#else
#include "../programs/bench_gc.h"
#include <gc/gc_typed.h>
#define workload_usable(object) GC_size(object)
#define workload_plain(bytes) GC_malloc(bytes)
#define workload_leaf_object(bytes) GC_malloc_atomic(bytes)
#define workload_collect() GC_gcollect()
typedef GC_descr workload_descriptor;
#endif
#include <pthread.h>

/* Sizes whose cells are remembered instead of asked for each time. */
enum { WORKLOAD_REMEMBERED = 4096 };

enum workload_use { WORKLOAD_LEAF, WORKLOAD_SCANNED, WORKLOAD_USES };

/* One type of object: its size and which of its words hold pointers. */
struct workload_type {
    size_t bytes;
    uint64_t pointers; /* bit i: word i */
    workload_descriptor descriptor;
    bool described;
};

struct workload_count {
    uint64_t objects, requested, allocated; /* the last two in bytes */
};

static struct workload_count workload_total[WORKLOAD_USES];
static pthread_mutex_t workload_total_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct workload_count workload_own[WORKLOAD_USES];
static _Thread_local uint16_t workload_cells[WORKLOAD_USES][WORKLOAD_REMEMBERED + 1];
static bool workload_typed; /* scanned objects of a known type are allocated with its layout */

/* Main thread, first thing. */
static inline void workload_start(bool typed)
{
#ifdef BENCH_NEAP
    neap_init();
#else
    bench_gc_start();
#endif
    workload_typed = typed;
}

/* Which way objects are allocated: argument `index`, `conservative` (the default) or `typed`. */
static inline bool workload_typed_argument(int argc, char **argv, int index)
{
    if (index >= argc || strcmp(argv[index], "conservative") == 0)
        return false;
    if (strcmp(argv[index], "typed") == 0)
        return true;
    fprintf(stderr, "%s: want conservative or typed, not '%s'\n", argv[0], argv[index]);
    exit(2);
}

static inline void *workload_counted(void *object, size_t bytes, enum workload_use use)
{
    if (__builtin_expect(object == NULL, 0)) {
        fprintf(stderr, "out of memory: %zu bytes were refused\n", bytes);
        exit(1);
    }
    size_t cell = bytes <= WORKLOAD_REMEMBERED ? workload_cells[use][bytes] : 0;
    if (cell == 0) {
        cell = workload_usable(object);
        if (bytes <= WORKLOAD_REMEMBERED && cell <= UINT16_MAX)
            workload_cells[use][bytes] = (uint16_t)cell;
    }
    workload_own[use].objects++;
    workload_own[use].requested += bytes;
    workload_own[use].allocated += cell;
    return object;
}

/* An object without pointers; its contents are undefined. */
static inline void *workload_leaf(size_t bytes)
{
    return workload_counted(workload_leaf_object(bytes), bytes, WORKLOAD_LEAF);
}

/* A zeroed object that may hold pointers anywhere. */
static inline void *workload_scanned(size_t bytes)
{
    return workload_counted(workload_plain(bytes), bytes, WORKLOAD_SCANNED);
}

static inline workload_descriptor workload_describe(size_t bytes, uint64_t pointers)
{
    (void)bytes;
#ifdef BENCH_NEAP
    size_t words = (bytes + sizeof(void *) - 1) / sizeof(void *);
    return neap_layout_bitmap(words > 64 ? 64 : words, &pointers);
#else
    GC_word bitmap = pointers;
    return GC_make_descriptor(&bitmap, 64);
#endif
}

/* A zeroed object of a descriptor. */
static inline void *workload_described(size_t bytes, workload_descriptor descriptor)
{
#ifdef BENCH_NEAP
    void *object = neap_alloc_typed(bytes, descriptor);
#else
    void *object = GC_malloc_explicitly_typed(bytes, descriptor);
#endif
    return workload_counted(object, bytes, WORKLOAD_SCANNED);
}

/* A zeroed object of a type. */
static inline void *workload_new(struct workload_type *type)
{
    if (!workload_typed)
        return workload_scanned(type->bytes);
    if (!type->described) {
        type->descriptor = workload_describe(type->bytes, type->pointers);
        type->described = true;
    }
    return workload_described(type->bytes, type->descriptor);
}

/* Hands the thread's counts over: every thread at its end, the main thread by workload_finish. */
static inline void workload_merge(void)
{
    pthread_mutex_lock(&workload_total_lock);
    for (int use = 0; use < WORKLOAD_USES; use++) {
        workload_total[use].objects += workload_own[use].objects;
        workload_total[use].requested += workload_own[use].requested;
        workload_total[use].allocated += workload_own[use].allocated;
        workload_own[use] = (struct workload_count){0};
    }
    pthread_mutex_unlock(&workload_total_lock);
}

static inline void workload_print_count(const char *name, struct workload_count count)
{
    printf(", \"%s\": {\"objects\": %" PRIu64 ", \"requested_bytes\": %" PRIu64 ", \"allocated_bytes\": %" PRIu64 ", \"wasted_bytes\": %" PRId64 "}",
           name, count.objects, count.requested, count.allocated,
               (int64_t)(count.allocated - count.requested));
}

/* Collects, so that nothing but live objects counts, and prints what the heap then takes:
 * `committed_bytes` with the room for growth that it had, `block_bytes` without it, when every
 * block that holds nothing was given back. */
static inline void workload_print_heap(void)
{
#ifdef BENCH_NEAP
    neap_statistics with_room, now;
    neap_collect();
    neap_statistics_read(&with_room, sizeof with_room);
    neap_release_memory();
    neap_statistics_read(&now, sizeof now);
    printf(", \"live_bytes\": %" PRIu64 ", \"committed_bytes\": %" PRIu64 ", \"block_bytes\": %" PRIu64, now.live_bytes, with_room.committed_bytes,
           now.committed_bytes);
#else
    GC_gcollect();
    size_t with_room = GC_get_heap_size();
    GC_gcollect_and_unmap();
    GC_word heap, free_bytes, unmapped, since, total;
    GC_get_heap_usage_safe(&heap, &free_bytes, &unmapped, &since, &total);
    printf(", \"committed_bytes\": %zu, \"block_bytes\": %zu", with_room,
        (size_t)(heap - free_bytes));
#endif
}

/* Prints the rest of the line that began with the program's own fields; returns the exit status.
   Main thread, the other threads joined. */
static inline int workload_finish(bool ok)
{
    workload_merge();
    workload_print_count("scanned", workload_total[WORKLOAD_SCANNED]);
    workload_print_count("not_scanned", workload_total[WORKLOAD_LEAF]);
    printf(", \"typed\": %s, \"wasted_mb\": %.3f", workload_typed ? "true" : "false",
           (double)(workload_total[0].allocated - workload_total[0].requested
               + workload_total[1].allocated - workload_total[1].requested) / 1e6);
#ifdef BENCH_NEAP
    printf(", \"library_version\": \"%s\", \"ok\": %s}\n", neap_version(), ok ? "true" : "false");
    return ok && fflush(stdout) == 0 ? 0 : 1;
#else
    return bench_gc_finish(ok);
#endif
}

#endif
