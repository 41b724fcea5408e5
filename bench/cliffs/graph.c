/* graph NODES [RATE [SECONDS]]: a torus of NODES objects of 48 bytes that point to their four
 * neighbours; each of RATE operations a second (0: one after the other) replaces one, anywhere.
 *
 * A thread that writes a word here and there all over the heap, so that pages full of pointers are
 * written faster than they can be looked at again. The check: neighbours point to each other and
 * are as they were made, so that a write that a cycle missed would show. */
#include "operations.h"

enum { SIDES = 4 };

struct node {
    struct node *sides[SIDES]; /* left, right, up, down: the opposite of a side is side ^ 1 */
    uint64_t number, check;
};

static size_t width, height;

static size_t neighbour(size_t index, unsigned side)
{
    size_t row = index / width, column = index % width;
    switch (side) {
    case 0: return row * width + (column + width - 1) % width;
    case 1: return row * width + (column + 1) % width;
    case 2: return (row + height - 1) % height * width + column;
    default: return (row + 1) % height * width + column;
    }
}

static struct node *make_node(uint64_t number)
{
    struct node *node = bench_gc_allocate(sizeof *node);
    node->number = number;
    node->check = bench_mix(number);
    return node;
}

/* Puts a node in its place, and links it with those around. */
static void put(struct node **table, size_t index, struct node *node)
{
    for (unsigned side = 0; side < SIDES; side++) {
        struct node *other = table[neighbour(index, side)];
        node->sides[side] = other;
        if (other)
            other->sides[side ^ 1] = node;
    }
    table[index] = node;
}

int main(int argc, char **argv)
{
    size_t nodes = (size_t)bench_argument(argc, argv, 1, "NODES", 1000000, 9, 1000000000);
    long rate = bench_argument(argc, argv, 2, "RATE", 0, 0, 10000000);
    long seconds = bench_argument(argc, argv, 3, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    for (width = 3; (width + 1) * (width + 1) <= nodes; width++)
        ;
    height = nodes / width;
    nodes = width * height;
    struct node **table = bench_gc_allocate(nodes * sizeof *table);
    for (size_t i = 0; i < nodes; i++)
        put(table, i, make_node(i));
    uint64_t random = 1;
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        random = bench_mix(random + 1);
        put(table, random % nodes, make_node(nodes + operations->count));
        operations_done(operations);
    }
    printf("{\"program\": \"graph\", \"nodes\": %zu", nodes);
    operations_print(operations, 1);
    bench_print_measured_stops();
    uint64_t wrong = 0;
    for (size_t i = 0; i < nodes; i++) {
        wrong += table[i]->check != bench_mix(table[i]->number);
        for (unsigned side = 0; side < SIDES; side++)
            wrong += table[i]->sides[side] != table[neighbour(i, side)];
    }
    printf(", \"wrong\": %" PRIu64, wrong);
    return bench_gc_finish(wrong == 0);
}
