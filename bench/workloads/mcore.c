/* mcore THREADS STEPS: every thread appends numbers to an array of its own, which grows STEPS times
 * beyond a page; arrays hold no pointers.
 *
 * With 4 threads and 79 steps these are the requests of the pattern of this name: per thread one
 * request for each power of two up to 4096 bytes, then pages that grow by 9.93 %, about 80 MB in
 * all; each with a byte more, as arrays had there. The check: every array holds what was
 * appended. */
#include "workload.h"

enum { MAXIMUM_THREADS = 64, FIRST_BYTES = 4, PAGE_BYTES = 4096 };

struct share {
    pthread_t thread;
    long number;
    bool ok;
};

static long steps;

static size_t grown(size_t bytes)
{
    if (bytes < PAGE_BYTES)
        return bytes == FIRST_BYTES ? 16 : 2 * bytes;
    return (size_t)((double)bytes * 1.0993) & ~(size_t)3;
}

static void *work(void *argument)
{
    struct share *share = argument;
    size_t bytes = FIRST_BYTES, used = 0;
    uint32_t *array = workload_leaf(bytes + 1);
    long beyond = 0;
    for (;;) {
        for (; used < bytes / sizeof *array; used++)
            array[used] = (uint32_t)bench_mix(used + (uint64_t)share->number);
        if (bytes >= PAGE_BYTES && beyond++ == steps)
            break;
        size_t larger = grown(bytes);
        uint32_t *copy = workload_leaf(larger + 1);
        memcpy(copy, array, bytes);
        array = copy;
        bytes = larger;
    }
    share->ok = true;
    for (size_t i = 0; i < used; i++)
        share->ok &= array[i] == (uint32_t)bench_mix(i + (uint64_t)share->number);
    workload_merge();
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = bench_argument(argc, argv, 1, "THREADS", 4, 1, MAXIMUM_THREADS);
    steps = bench_argument(argc, argv, 2, "STEPS", 79, 1, 120);
    workload_start(false);
    static struct share shares[MAXIMUM_THREADS];
    for (long i = 0; i < threads; i++) {
        shares[i].number = i;
        if (pthread_create(&shares[i].thread, NULL, work, &shares[i]) != 0) {
            fprintf(stderr, "mcore: cannot start thread %ld of %ld\n", i + 1, threads);
            return 1;
        }
    }
    bool ok = true;
    for (long i = 0; i < threads; i++) {
        pthread_join(shares[i].thread, NULL);
        ok &= shares[i].ok;
    }
    printf("{\"program\": \"mcore\", \"threads\": %ld, \"steps\": %ld", threads, steps);
    workload_print_heap();
    return workload_finish(ok);
}
