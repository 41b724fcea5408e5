/* writer SIZE PART [RATE [SECONDS]]: SIZE bytes of live objects of 2 KB, of which PART of 100 are
 * written over and over, 32 in each of RATE operations a second.
 *
 * A thread that writes to pages faster than they can be asked for. A write is a count and a
 * pointer to an object that was just made, so that a write that a cycle missed would lose one. The
 * check: each such object is as it was made, and the counts add up to all writes. */
#include "operations.h"

enum { OBJECT_BYTES = 2048, WRITES = 32 };

struct object {
    uint64_t writes;
    struct note *note;
    char rest[OBJECT_BYTES - 16];
};

struct note {
    uint64_t number, check;
};

static struct note *make_note(uint64_t number)
{
    struct note *note = bench_gc_allocate(sizeof *note);
    note->number = number;
    note->check = bench_mix(number);
    return note;
}

static bool right(const struct object *object)
{
    return object->note->check == bench_mix(object->note->number);
}

int main(int argc, char **argv)
{
    size_t bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 200u << 20);
    long part = bench_argument(argc, argv, 2, "PART", 100, 1, 100);
    long rate = bench_argument(argc, argv, 3, "RATE", 50000, 0, 10000000);
    long seconds = bench_argument(argc, argv, 4, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    size_t count = bytes / sizeof(struct object), lively = count * (size_t)part / 100;
    struct object **table = bench_gc_allocate(count * sizeof *table);
    for (size_t i = 0; i < count; i++) {
        table[i] = bench_gc_allocate(sizeof **table);
        table[i]->note = make_note(i);
    }
    uint64_t wrong = 0, writes = 0, counted = 0;
    size_t next = 0;
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        struct note *note = make_note(operations->count);
        for (int i = 0; i < WRITES; i++) {
            struct object *object = table[next];
            next = next + 1 < lively ? next + 1 : 0;
            wrong += !right(object);
            object->writes++;
            object->note = note;
        }
        writes += WRITES;
        bench_gc_garbage(32, 64);
        operations_done(operations);
    }
    printf("{\"program\": \"writer\", \"objects\": %zu, \"written\": %zu", count, lively);
    operations_print(operations, 1);
    bench_print_measured_stops();
    for (size_t i = 0; i < count; i++) {
        wrong += !right(table[i]);
        counted += table[i]->writes;
    }
    printf(", \"writes\": %" PRIu64 ", \"wrong\": %" PRIu64, writes, wrong);
    return bench_gc_finish(wrong == 0 && counted == writes);
}
