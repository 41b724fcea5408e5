/* heap SIZE [THREADS [RATE [SECONDS [NEIGHBOURS]]]]: THREADS threads fill trees of maps with SIZE
 * bytes together, then each makes RATE operations a second for SECONDS seconds (1, 200,000 and 10
 * unless told), beside NEIGHBOURS processes that spin.
 *
 * An operation is that of pauses.c: look a key up, check and replace its value, and 1 KB of
 * garbage in 16 objects. The fill is measured for itself: 16 keys added are an operation of it; its
 * processor time is that of all threads, the collector's too. It gives up when the machine's memory
 * runs short. The check: every value found is right, and so are all of them at the end. */
#include <pthread.h>

#include "../programs/neighbours.h"
#include "../programs/tree_of_maps.h"
#include "operations.h"

enum { MOST_THREADS = 64, KEYS_AT_ONCE = 16, KEYS_TO_LOOK = 1 << 17 };

static struct worker {
    struct tree tree;
    pthread_t thread;
    struct operations *fill, *operations;
    uint64_t wrong, right;
} workers[MOST_THREADS];

static size_t bytes;
static long threads, rate, seconds;
static pthread_barrier_t filled, told;

/* Ends the program while there is still memory for everybody else. */
static void look_at_memory(void)
{
    size_t free = (size_t)bench_kib_of("/proc/meminfo", "MemAvailable:") << 10;
    if (free < (bytes >> 2) + ((size_t)1 << 30)) {
        fprintf(stderr, "heap: only %zu MB of memory are free\n", free >> 20);
        exit(1);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    tree_start(&worker->tree, bytes / (size_t)threads);
    operations_begin(worker->fill, 0, 0, 0);
    while (worker->tree.bytes < bytes / (size_t)threads && operations_next(worker->fill)) {
        for (int i = 0; i < KEYS_AT_ONCE; i++)
            tree_add(&worker->tree);
        operations_done(worker->fill);
        if (worker->tree.keys % KEYS_TO_LOOK == 0)
            look_at_memory();
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&told);
    uint64_t random = 0x5eed + (uint64_t)(worker - workers);
    operations_begin(worker->operations, rate, seconds, 0);
    while (operations_next(worker->operations)) {
        worker->wrong += !tree_replace_one(&worker->tree, &random);
        bench_gc_garbage(16, 64);
        operations_done(worker->operations);
    }
    worker->right = tree_count_right(&worker->tree);
    return NULL;
}

int main(int argc, char **argv)
{
    bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 1u << 30);
    threads = bench_argument(argc, argv, 2, "THREADS", 1, 1, MOST_THREADS);
    rate = bench_argument(argc, argv, 3, "RATE", 200000, 0, 100000000);
    seconds = bench_argument(argc, argv, 4, "SECONDS", 10, 1, 3600);
    long neighbours = bench_argument(argc, argv, 5, "NEIGHBOURS", 0, 0, MOST_NEIGHBOURS);
    neighbours_start(neighbours);
    bench_gc_start();
    struct operations *fills = operations_make((size_t)threads),
        *operations = operations_make((size_t)threads);
    pthread_barrier_init(&filled, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&told, NULL, (unsigned)threads + 1);
    double began = bench_seconds(), processor = bench_processor_seconds();
    for (long i = 0; i < threads; i++) {
        workers[i].fill = &fills[i];
        workers[i].operations = &operations[i];
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "%s: no thread\n", argv[0]);
            return 1;
        }
    }
    pthread_barrier_wait(&filled);
    static struct times fill;
    for (long i = 0; i < threads; i++)
        times_merge(&fill, &fills[i].service);
    printf("{\"program\": \"heap\", \"threads\": %ld, \"neighbours\": %ld, \"fill_seconds\": %.3f, \"fill_processor_seconds\": %.3f, \"fill_longest_stop_ms\": %.3f",
        threads, neighbours, bench_seconds() - began, bench_processor_seconds() - processor,
        (double)bench_stop_longest * 1e-6);
    times_print(&fill, "fill");
    bench_measure_stops();
    pthread_barrier_wait(&told);
    uint64_t keys = 0, right = 0, wrong = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        keys += workers[i].tree.keys;
        right += workers[i].right;
        wrong += workers[i].wrong;
    }
    operations_print(operations, (size_t)threads);
    bench_print_measured_stops();
    printf(", \"live_bytes\": %zu, \"keys\": %" PRIu64 ", \"right\": %" PRIu64 ", \"wrong\": %" PRIu64,
        bytes, keys, right, wrong);
    return bench_gc_finish(wrong == 0 && right == keys);
}
