/* cache [ENTRIES [OPERATIONS]]: the ENTRIES keys of four times as many that were asked for last,
 * each with 100 to 4,000 bytes, and OPERATIONS requests for one of them, one after the other.
 *
 * What dies is old and what is young stays, so cycles that look at young objects alone find
 * nothing; and each request moves an entry to the front of a list, which writes to four entries
 * anywhere. The check: an entry is that of its key when it is found and when it goes. */
#include "operations.h"

enum { LEAST_BYTES = 100, MORE_BYTES = 3900, KEYS_OF_AN_ENTRY = 4 };

struct entry {
    struct entry *newer, *older;
    size_t key;
    uint64_t *data; /* holds no pointers; its first word is of the key */
};

static struct entry **table;
static struct entry ends; /* older: the newest; newer: the oldest */

static void take_out(struct entry *entry)
{
    entry->newer->older = entry->older;
    entry->older->newer = entry->newer;
}

static void put_first(struct entry *entry)
{
    entry->older = ends.older;
    entry->newer = &ends;
    ends.older->newer = entry;
    ends.older = entry;
}

static struct entry *make(size_t key, size_t bytes)
{
    struct entry *entry = bench_gc_allocate(sizeof *entry);
    entry->key = key;
    entry->data = bench_gc_allocate_leaf(bytes);
    memset(entry->data, 1, bytes);
    *entry->data = bench_mix(key);
    return entry;
}

int main(int argc, char **argv)
{
    size_t entries = (size_t)bench_argument(argc, argv, 1, "ENTRIES", 50000, 1, 100000000);
    long wanted = bench_argument(argc, argv, 2, "OPERATIONS", 1500000, 1, 1000000000);
    bench_gc_start();
    size_t keys = entries * KEYS_OF_AN_ENTRY, held = 0;
    uint64_t random = 0x5eed, wrong = 0;
    table = bench_gc_allocate(keys * sizeof *table);
    ends.newer = ends.older = &ends;
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, 0, 0, (uint64_t)wanted);
    while (operations_next(operations)) {
        size_t key = (size_t)(bench_random(&random) >> 11) % keys;
        struct entry *entry = table[key];
        if (entry != NULL) {
            wrong += entry->key != key || *entry->data != bench_mix(key);
            take_out(entry);
        } else {
            size_t more = (size_t)(bench_random(&random) >> 11) % MORE_BYTES;
            table[key] = entry = make(key, LEAST_BYTES + more);
            held++;
        }
        put_first(entry);
        if (held > entries) {
            struct entry *oldest = ends.newer;
            wrong += *oldest->data != bench_mix(oldest->key);
            take_out(oldest);
            table[oldest->key] = NULL;
            held--;
        }
        operations_done(operations);
    }
    printf("{\"program\": \"cache\", \"entries\": %zu", held);
    operations_print(operations, 1);
    bench_print_measured_stops();
    printf(", \"wrong\": %" PRIu64, wrong);
    return bench_gc_finish(wrong == 0);
}
