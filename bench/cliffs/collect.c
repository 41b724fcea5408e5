/* collect SIZE [RATE [TIMES]]: how long GC_gcollect takes with SIZE bytes of small live objects:
 * TIMES times (3) with nothing beside it, then as often while another thread makes RATE operations
 * a second (50,000) on a small tree of its own.
 *
 * Medians; the other thread's times say whether only the caller waits. The check: all values of
 * both trees are right, and the count of collections went up with each call. */
#include <pthread.h>

#include "../programs/tree_of_maps.h"
#include "operations.h"

enum { MOST_TIMES = 100, SMALL_BYTES = 4 << 20 };

static struct tree large, small;
static struct operations *operations;
static long rate;
static uint64_t wrong;

static void *beside(void *unused)
{
    (void)unused;
    uint64_t random = 0x5eed;
    operations_begin(operations, rate, 0, 0);
    while (operations_next(operations)) {
        wrong += !tree_replace_one(&small, &random);
        bench_gc_garbage(4, 64);
        operations_done(operations);
    }
    return NULL;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The median in milliseconds. */
static double collect(long times)
{
    double all[MOST_TIMES];
    for (long i = 0; i < times; i++) {
        GC_word before = GC_get_gc_no();
        double began = bench_seconds();
        GC_gcollect();
        all[i] = (bench_seconds() - began) * 1e3;
        wrong += GC_get_gc_no() == before;
    }
    qsort(all, (size_t)times, sizeof *all, by_value);
    return all[times / 2];
}

int main(int argc, char **argv)
{
    size_t bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 1u << 30);
    rate = bench_argument(argc, argv, 2, "RATE", 50000, 0, 100000000);
    long times = bench_argument(argc, argv, 3, "TIMES", 3, 1, MOST_TIMES);
    bench_gc_start();
    tree_build(&large, bytes);
    tree_build(&small, SMALL_BYTES);
    double alone = collect(times);
    operations = operations_make(1);
    pthread_t thread;
    bench_measure_stops();
    if (pthread_create(&thread, NULL, beside, NULL) != 0) {
        fprintf(stderr, "%s: no thread\n", argv[0]);
        return 1;
    }
    struct timespec moment = {0, 100000000};
    nanosleep(&moment, NULL);
    double both = collect(times);
    operations_stop(operations);
    pthread_join(thread, NULL);
    printf("{\"program\": \"collect\", \"live_bytes\": %zu, \"collect_ms\": %.3f, \"collect_beside_ms\": %.3f",
        large.bytes, alone, both);
    operations_print(operations, 1);
    bench_print_measured_stops();
    wrong += tree_count_right(&large) != large.keys || tree_count_right(&small) != small.keys;
    printf(", \"wrong\": %" PRIu64, wrong);
    return bench_gc_finish(wrong == 0);
}
