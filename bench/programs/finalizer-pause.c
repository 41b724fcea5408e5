/* finalizer-pause THOUSANDS CYCLES: what THOUSANDS thousand finalizers, half of which find their
 * object dead in each cycle, add to the stops of a cycle: medians of the sum of its stops, with and
 * without.
 *
 * Only on neap.h. Invariant: before each cycle all objects of the second part have a finalizer,
 * after it about half of them, and that many ran, or the program says that it is not ok. The
 * objects are there in both parts, so that marking costs the same. */
#include "cycle_stops.h"

static void **kept;
static long count;
static uint64_t finalized;

static void finalize(void *object, void *data)
{
    (void)object;
    (void)data;
    __atomic_add_fetch(&finalized, 1, __ATOMIC_RELAXED);
}

static void finalizer(void *object)
{
    if (neap_finalizer_set(object, finalize, NULL, NEAP_ORDER_NONE) != NEAP_OK) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
}

/* Half of the objects, kept by nothing but the stack that is left with this call. */
__attribute__((noinline)) static void fill(int with_finalizers)
{
    for (long i = 0; i < count / 2; i++) {
        void *object = neap_alloc(24);
        if (with_finalizers)
            finalizer(object);
    }
}

int main(int argc, char **argv)
{
    count = bench_argument(argc, argv, 1, "THOUSANDS", 1000, 1, 100000) * 1000;
    long cycles = bench_argument(argc, argv, 2, "CYCLES", 15, 1, MOST_CYCLES);
    neap_set_automatic(0);
    kept = neap_alloc((size_t)(count / 2) * sizeof *kept);
    for (long i = 0; i < count / 2; i++)
        kept[i] = neap_alloc(24);
    double without = cycle_stops_median(fill, 0, cycles);
    for (long i = 0; i < count / 2; i++)
        finalizer(kept[i]);
    double with = cycle_stops_median(fill, 1, cycles);
    uint64_t died = __atomic_load_n(&finalized, __ATOMIC_RELAXED),
        made = (uint64_t)(count / 2) * (uint64_t)cycles;
    bool ok = died <= made && died + made / 50 + 64 > made;
    printf("{\"program\":\"finalizer-pause\",\"finalizers\":%ld,\"died\":%llu,\"stops_ms_without\":%.4f,\"stops_ms_with\":%.4f,\"added_stops_ms\":%.4f,\"library_version\":\"%s\",\"ok\":%s}\n",
           count, (unsigned long long)died, without, with, with - without, neap_version(), ok
               ? "true" : "false");
    return !ok;
}
