/* alloc BYTES THREADS THOUSANDS: every thread allocates THOUSANDS thousand zeroed objects of BYTES
 * bytes and drops each at once.
 *
 * Prints nanoseconds per object and thread, and the rate of all threads together. Every object is
 * read (its last word must be zero) and written (its first and last word; from 64 KiB on all of
 * it), as a program would; that costs the same in each variant. Variants: GC_malloc on the libgc
 * ABI (default); -DBENCH_NEAP, the inline fast path of neap.h; -DBENCH_MIMALLOC, mi_calloc and
 * mi_free. The check: all objects were zero, and as many were made as asked for. */
#if defined(BENCH_MIMALLOC)
#include "bench.h"
#include <mimalloc.h>
#elif defined(BENCH_NEAP)
#include "bench.h"
#include <neap.h>
#else
#include "bench_gc.h"
#endif
#include <pthread.h>

enum { MAXIMUM_THREADS = 256, WRITTEN_WHOLLY = 64 << 10 };

struct share {
    pthread_t thread;
    uint64_t made, dirty;      /* objects made; of these, not zero */
    double began, ended;       /* seconds */
};

static size_t object_bytes;
static uint64_t objects;       /* per thread */
static pthread_barrier_t start;

static inline uint64_t *allocate(void)
{
#if defined(BENCH_MIMALLOC)
    return mi_calloc(1, object_bytes);
#elif defined(BENCH_NEAP)
    return neap_alloc(object_bytes);
#else
    return GC_malloc(object_bytes);
#endif
}

static inline void drop(uint64_t *object)
{
#if defined(BENCH_MIMALLOC)
    mi_free(object);
#else
    (void)object;
#endif
}

static void *work(void *argument)
{
    struct share *share = argument;
    size_t last = object_bytes / sizeof(uint64_t) - 1;
    uint64_t dirty = 0, made = 0;
    pthread_barrier_wait(&start);
    share->began = bench_seconds();
    for (uint64_t i = 0; i < objects; i++) {
        uint64_t *object = allocate();
        if (__builtin_expect(object == NULL, 0))
            break;
        dirty += object[last] != 0;
        if (object_bytes >= WRITTEN_WHOLLY)
            memset(object, (int)i | 1, object_bytes);
        object[0] = ~i;
        object[last] = ~i;
        bench_keep(object);
        drop(object);
        made++;
    }
    share->ended = bench_seconds();
    share->dirty = dirty;
    share->made = made;
    return NULL;
}

int main(int argc, char **argv)
{
    object_bytes = (size_t)bench_argument(argc, argv, 1, "BYTES", 16, 8,
        1 << 20) & ~(sizeof(uint64_t) - 1);
    long threads = bench_argument(argc, argv, 2, "THREADS", 1, 1, MAXIMUM_THREADS);
    objects = (uint64_t)bench_argument(argc, argv, 3, "THOUSANDS", 50000, 1, 100000000) * 1000u;
#if !defined(BENCH_MIMALLOC) && !defined(BENCH_NEAP)
    bench_gc_start();
#endif
    static struct share shares[MAXIMUM_THREADS];
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (long i = 1; i < threads; i++) {
        if (pthread_create(&shares[i].thread, NULL, work, &shares[i]) != 0) {
            fprintf(stderr, "alloc: cannot start thread %ld of %ld\n", i + 1, threads);
            return 1;
        }
    }
    work(&shares[0]);
    double began = shares[0].began, ended = shares[0].ended, busy = 0;
    uint64_t made = 0, dirty = 0;
    for (long i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(shares[i].thread, NULL);
        began = shares[i].began < began ? shares[i].began : began;
        ended = shares[i].ended > ended ? shares[i].ended : ended;
        busy += shares[i].ended - shares[i].began;
        made += shares[i].made;
        dirty += shares[i].dirty;
    }
    bool ok = dirty == 0 && made == objects * (uint64_t)threads;
    printf("{\"program\": \"alloc\", \"bytes\": %zu, \"threads\": %ld, \"objects\": %" PRIu64 ", \"dirty\": %" PRIu64
           ", \"ns_per_object\": %.3f, \"millions_per_second\": %.3f",
           object_bytes, threads, made, dirty, busy * 1e9 / (double)made,
               (double)made / (ended - began) * 1e-6);
#if defined(BENCH_MIMALLOC)
    printf(", \"library_version\": \"%d\", \"ok\": %s}\n", mi_version(), ok ? "true" : "false");
    return ok ? 0 : 1;
#elif defined(BENCH_NEAP)
    printf(", \"ok\": %s}\n", ok ? "true" : "false");
    return ok ? 0 : 1;
#else
    return bench_gc_finish(ok);
#endif
}
