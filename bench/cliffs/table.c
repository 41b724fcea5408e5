/* table [ENTRIES [RATE]]: a hash table that grows to ENTRIES entries, one in each of RATE
 * operations a second (0: one after the other).
 *
 * When it is full, one operation puts all entries into a new table twice as large: it writes all
 * over the heap, for as long as a cycle takes, and allocates nothing meanwhile. The check: each
 * key is found with the value that it was put there with. */
#include "operations.h"

enum { FIRST_SLOTS = 1024 };

struct entry {
    struct entry *next;
    uint64_t key;
    uint64_t *value; /* holds no pointers */
};

static struct entry **table;
static size_t slots = FIRST_SLOTS;

static void put(struct entry *entry)
{
    struct entry **slot = &table[bench_mix(entry->key) & (slots - 1)];
    entry->next = *slot;
    *slot = entry;
}

static void grow(void)
{
    struct entry **full = table;
    size_t count = slots;
    table = bench_gc_allocate(2 * count * sizeof *table);
    slots = 2 * count;
    for (size_t slot = 0; slot < count; slot++)
        for (struct entry *entry = full[slot], *next; entry != NULL; entry = next) {
            next = entry->next;
            put(entry);
        }
}

static bool right(uint64_t key)
{
    struct entry *entry = table[bench_mix(key) & (slots - 1)];
    while (entry != NULL && entry->key != key)
        entry = entry->next;
    return entry != NULL && *entry->value == bench_mix(~key);
}

int main(int argc, char **argv)
{
    uint64_t entries = (uint64_t)bench_argument(argc, argv, 1, "ENTRIES", 3000000, 1, 1000000000);
    long rate = bench_argument(argc, argv, 2, "RATE", 0, 0, 100000000);
    bench_gc_start();
    table = bench_gc_allocate(slots * sizeof *table);
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, 0, entries);
    for (uint64_t key = 0; operations_next(operations); key++) {
        if (key > slots)
            grow();
        struct entry *entry = bench_gc_allocate(sizeof *entry);
        entry->key = key;
        entry->value = bench_gc_allocate_leaf(sizeof *entry->value);
        *entry->value = bench_mix(~key);
        put(entry);
        operations_done(operations);
    }
    uint64_t wrong = 0;
    for (uint64_t key = 0; key < entries; key++)
        wrong += !right(key);
    printf("{\"program\": \"table\", \"entries\": %" PRIu64, entries);
    operations_print(operations, 1);
    bench_print_measured_stops();
    printf(", \"wrong\": %" PRIu64, wrong);
    return bench_gc_finish(wrong == 0);
}
