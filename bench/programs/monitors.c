/* monitors THREADS MILLIONS: all threads enter and leave the monitor of one object, MILLIONS
 * million times each, and count in it; enters per second.
 *
 * The same loop as peers/Monitors.cs. Only on neap.h. Invariant: nothing is counted twice or lost,
 * or the program says that it is not ok. */
#include "bench.h"
#include <neap.h>
#include <pthread.h>

static struct counter { long count; } *counter;
static long turns;

static void *run(void *argument)
{
    struct counter *own = counter;
    (void)argument;
    for (long turn = 0; turn < turns; turn++) {
        neap_monitor_enter(own);
        own->count++;
        neap_monitor_exit(own);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = bench_argument(argc, argv, 1, "THREADS", 1, 1, 64);
    turns = bench_argument(argc, argv, 2, "MILLIONS", 10, 1, 100000) * 1000000;
    counter = neap_alloc(sizeof *counter);
    pthread_t thread[64];
    double began = bench_seconds();
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, run, NULL) != 0)
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    double seconds = bench_seconds() - began;
    bool ok = counter->count == threads * turns;
    printf("{\"program\":\"monitors\",\"threads\":%ld,\"millions_per_second\":%.3f,\"seconds\":%.3f,\"library_version\":\"%s\",\"ok\":%s}\n", threads,
           (double)threads * turns / seconds * 1e-6, seconds, neap_version(), ok ? "true"
               : "false");
    return !ok;
}
