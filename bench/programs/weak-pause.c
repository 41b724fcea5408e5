/* weak-pause THOUSANDS CYCLES: what THOUSANDS thousand weak handles, half of which lose their
 * object in each cycle, add to the stops of a cycle: medians of the sum of its stops, with and
 * without.
 *
 * Only on neap.h. Invariant: before each cycle all handles have an object, after it about half of
 * them, or the program says that it is not ok. The objects are there in both parts, so that marking
 * costs the same. */
#include "cycle_stops.h"

static void **kept;
static neap_handle *handles;
static long count;

/* Objects for all, of which every second one is kept by nothing but the stack that is left with
   this call. */
__attribute__((noinline)) static void fill(int with_handles)
{
    for (long i = 0; i < count; i++) {
        if (with_handles && i % 2 == 0 && neap_handle_get(handles[i]) != NULL)
            continue;
        void *object = neap_alloc(24);
        if (i % 2 != 0 && kept[i / 2] == NULL)
            kept[i / 2] = object;
        if (with_handles)
            neap_handle_set(handles[i], i % 2 != 0 ? kept[i / 2] : object);
    }
}

int main(int argc, char **argv)
{
    count = bench_argument(argc, argv, 1, "THOUSANDS", 1000, 1, 100000) * 1000;
    long cycles = bench_argument(argc, argv, 2, "CYCLES", 15, 1, MOST_CYCLES);
    neap_set_automatic(0);
    kept = neap_alloc((size_t)(count / 2 + 1) * sizeof *kept);
    handles = neap_alloc_leaf_zeroed((size_t)count * sizeof *handles);
    double without = cycle_stops_median(fill, 0, cycles);
    for (long i = 0; i < count; i++)
        handles[i] = neap_handle_alloc(NULL, NEAP_HANDLE_WEAK);
    double with = cycle_stops_median(fill, 1, cycles);
    long alive = 0;
    for (long i = 0; i < count; i++)
        alive += neap_handle_get(handles[i]) != NULL;
    bool ok = alive >= count / 2 && alive < count / 2 + count / 50 + 64;
    printf("{\"program\":\"weak-pause\",\"handles\":%ld,\"alive\":%ld,\"stops_ms_without\":%.4f,\"stops_ms_with\":%.4f,\"added_stops_ms\":%.4f,\"library_version\":\"%s\",\"ok\":%s}\n",
           count, alive, without, with, with - without, neap_version(), ok ? "true" : "false");
    return !ok;
}
