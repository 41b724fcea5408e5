/* finalizers: how many objects with a finalizer or cleaner are constructed and finalized in a
 * second; how many are in flight.
 *
 * Usage: finalizers finalizer|cleaner THREADS SECONDS [MAX_HEAP_BYTES]. Each thread makes objects
 * of 32 bytes, registers, and drops them; the library runs what it finds.
 * bench/peers/Finalizers.java is the same program on Java. Built with BENCH_NEAP only: it calls
 * neap.h. In flight: constructed and not finalized, looked at every 10 ms by the main thread.
 * Prints one line of JSON. */
#include <neap.h>

#include "bench.h"

#include <pthread.h>
#include <string.h>

enum { MOST_THREADS = 64 };

/* Each on a cache line of its own; written by its thread, read by the main one. */
static struct count {
    uint64_t made;
    char padding[56];
} counts[MOST_THREADS];
static uint64_t finalized;
static int stop, cleaners;
static __thread uint64_t own_finalized;

static void finalize(void *object, void *data)
{
    (void)object;
    (void)data;
    /* One contended addition for sixteen: Java's program counts the same way. */
    if (++own_finalized % 16 == 0)
        __atomic_add_fetch(&finalized, 16, __ATOMIC_RELAXED);
}

static void clean(void *argument)
{
    finalize(NULL, argument);
}

static void *construct(void *argument)
{
    struct count *count = argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int turn = 0; turn < 1000; turn++) {
            void *object = neap_alloc(32);
            if (object == NULL ||
                (cleaners ? neap_cleaner_add(object, clean, NULL)
                    : neap_finalizer_set(object, finalize, NULL, NEAP_ORDER_NONE)) != NEAP_OK) {
                fprintf(stderr, "out of memory\n");
                exit(1);
            }
        }
        __atomic_store_n(&count->made, count->made + 1000, __ATOMIC_RELAXED);
    }
    return NULL;
}

static uint64_t made(void)
{
    uint64_t sum = 0;
    for (int thread = 0; thread < MOST_THREADS; thread++)
        sum += __atomic_load_n(&counts[thread].made, __ATOMIC_RELAXED);
    return sum;
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    double seconds = argc > 3 ? atof(argv[3]) : 20;
    if (argc < 3 || threads < 1 || threads > MOST_THREADS ||
        (strcmp(argv[1], "finalizer") != 0 && strcmp(argv[1], "cleaner") != 0)) {
        fprintf(stderr, "usage: finalizers finalizer|cleaner THREADS SECONDS [MAX_HEAP_BYTES]\n");
        return 2;
    }
    cleaners = strcmp(argv[1], "cleaner") == 0;
    neap_option_set("max_heap", argc > 4 ? argv[4] : "2GiB");
    pthread_t ids[MOST_THREADS];
    uint64_t began = bench_nanoseconds(), most = 0;
    for (int thread = 0; thread < threads; thread++)
        pthread_create(&ids[thread], NULL, construct, &counts[thread]);
    while (bench_nanoseconds() - began < (uint64_t)(seconds * 1e9)) {
        struct timespec pause = {0, 10000000};
        nanosleep(&pause, NULL);
        uint64_t done = __atomic_load_n(&finalized, __ATOMIC_RELAXED), now = made();
        if (now > done && now - done > most)
            most = now - done;
    }
    uint64_t done = __atomic_load_n(&finalized, __ATOMIC_RELAXED), all = made();
    double lasted = (double)(bench_nanoseconds() - began) * 1e-9;
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int thread = 0; thread < threads; thread++)
        pthread_join(ids[thread], NULL);
    printf("{\"program\": \"finalizers\", \"what\": \"%s\", \"threads\": %d, \"seconds\": %.2f, \"constructed_per_ms\": %.0f, \"finalized_per_ms\": %.0f, "
           "\"in_flight_millions\": %.3f, \"most_in_flight_millions\": %.3f, \"library_version\": \"%s\", \"ok\": %s}\n",
           argv[1], threads, lasted, all / lasted * 1e-3, done / lasted * 1e-3,
               (double)(all - done) * 1e-6, most * 1e-6, neap_version(), done > 0 ? "true"
               : "false");
    return done > 0 ? 0 : 1;
}
