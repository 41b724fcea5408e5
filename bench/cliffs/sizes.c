/* sizes [SIZE [OPERATIONS [RATE]]]: objects of 16 bytes to 64 KiB, SIZE bytes of them alive, of
 * which OPERATIONS are replaced at random, as fast as it goes or RATE a second.
 *
 * Each power of two is as likely as the next, and within one every size of 16 bytes' steps: nearly
 * log-uniform, without needing a logarithm. The check: an object says in its first and last words
 * where it stands and how long it is, when it is replaced and at the end. */
#include "operations.h"

enum { LEAST = 16, POWERS = 12 };
/* Of the sizes that size_of makes. */
enum { MEAN = ((LEAST << POWERS) - LEAST) * 3 / 2 / POWERS };

struct object {
    uint64_t place, bytes;
};

static size_t size_of(uint64_t random)
{
    size_t low = (size_t)LEAST << random % POWERS;
    return low + (random >> 32) % (low / LEAST) * LEAST;
}

static uint64_t *last_word(struct object *object)
{
    return (uint64_t *)((char *)object + object->bytes) - 1;
}

static struct object *make(uint64_t place, uint64_t random)
{
    size_t bytes = size_of(random);
    struct object *object = bench_gc_allocate(bytes);
    object->place = place;
    object->bytes = bytes;
    if (bytes > sizeof *object)
        *last_word(object) = bench_mix(place ^ bytes);
    return object;
}

static bool right(struct object *object, uint64_t place)
{
    return object->place == place && (object->bytes == sizeof *object ||
        *last_word(object) == bench_mix(place ^ object->bytes));
}

int main(int argc, char **argv)
{
    size_t bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 200u << 20);
    long wanted = bench_argument(argc, argv, 2, "OPERATIONS", 1000000, 1, 1000000000);
    long rate = bench_argument(argc, argv, 3, "RATE", 0, 0, 10000000);
    bench_gc_start();
    size_t count = bytes / MEAN + 1;
    struct object **table = bench_gc_allocate(count * sizeof *table);
    uint64_t random = 0x5eed, wrong = 0;
    for (size_t place = 0; place < count; place++)
        table[place] = make(place, bench_random(&random));
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, 0, (uint64_t)wanted);
    while (operations_next(operations)) {
        size_t place = (size_t)(bench_random(&random) >> 11) % count;
        wrong += !right(table[place], place);
        table[place] = make(place, bench_random(&random));
        operations_done(operations);
    }
    printf("{\"program\": \"sizes\", \"objects\": %zu", count);
    operations_print(operations, 1);
    bench_print_measured_stops();
    for (size_t place = 0; place < count; place++)
        wrong += !right(table[place], place);
    printf(", \"wrong\": %" PRIu64, wrong);
    return bench_gc_finish(wrong == 0);
}
