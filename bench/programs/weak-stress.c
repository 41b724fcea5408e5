/* weak-stress THREADS THOUSANDS: threads make objects with weak handles, keep the last hundred
 * objects, and drop the rest; every handle is read again and freed a while later.
 *
 * The same loop as peers/WeakStress.cs. Only on neap.h. Invariant: a kept object's handle gives it,
 * a dropped one's gives it or null, or the program says that it is not ok. */
#include "bench.h"
#include <neap.h>
#include <pthread.h>

enum { KEPT = 100, LATER = 10000 };
static long turns;
static long wrong, died;

struct item { long number; struct item *other; };

static void *run(void *argument)
{
    struct item **kept = neap_alloc(KEPT * sizeof *kept);
    neap_handle *handles = neap_alloc_leaf_zeroed(LATER * sizeof *handles);
    long bad = 0, gone = 0;
    (void)argument;
    for (long turn = 0; turn < turns + LATER; turn++) {
        neap_handle old = handles[turn % LATER];
        if (old != 0) {
            struct item *item = neap_handle_get(old);
            gone += item == NULL;
            bad += item != NULL && item->number != turn - LATER;
            neap_handle_free(old);
            handles[turn % LATER] = 0;
        }
        if (turn < turns) {
            struct item *item = neap_alloc(sizeof *item);
            item->number = turn;
            handles[turn % LATER] = neap_handle_alloc(item, NEAP_HANDLE_WEAK);
            kept[turn % KEPT] = item;
            bad += turn >= KEPT && neap_handle_get(handles[(turn - KEPT + 1) % LATER]) != kept[(turn
                + 1) % KEPT];
        }
    }
    __atomic_add_fetch(&wrong, bad, __ATOMIC_RELAXED);
    __atomic_add_fetch(&died, gone, __ATOMIC_RELAXED);
    bench_keep(kept);
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = bench_argument(argc, argv, 1, "THREADS", 4, 1, 64);
    turns = bench_argument(argc, argv, 2, "THOUSANDS", 1000, 1, 10000000) * 1000;
    pthread_t thread[64];
    double began = bench_seconds();
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, run, NULL) != 0)
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    double seconds = bench_seconds() - began;
    bool ok = wrong == 0 && died > 0;
    printf("{\"program\":\"weak-stress\",\"threads\":%ld,\"died\":%ld,\"loop_seconds\":%.3f,\"library_version\":\"%s\",\"ok\":%s}\n", threads, died, seconds,
           neap_version(), ok ? "true" : "false");
    return !ok;
}
