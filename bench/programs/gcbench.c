/* gcbench SCALE: the garbage collection benchmark of Ellis, Kovac and Boehm, written anew from its
 * published parameters.
 *
 * With SCALE 16 these are the published ones: a stretch tree of depth 18 that is dropped at once, a
 * long-lived tree of depth 16, an array of 500,000 doubles that stays too, and trees of depths 4,
 * 6, … 16, built top-down and bottom-up, so many of each depth that twice the nodes of the stretch
 * tree are made. A larger SCALE moves all depths up and keeps the array. The check: every tree has
 * its number of nodes (also the long-lived one, at the end), and the array holds what was
 * stored. */
#include "bench_gc.h"

enum { MINIMUM_DEPTH = 4, STRETCH_ABOVE = 2, ARRAY_LENGTH = 500000 };

struct node {
    struct node *left, *right;
    int32_t first, second;
};

static bool ok = true;

static uint64_t tree_size(long depth)
{
    return (2ull << depth) - 1;
}

static uint64_t count_nodes(const struct node *node)
{
    return node == NULL ? 0 : 1 + count_nodes(node->left) + count_nodes(node->right);
}

/* Gives `node` children down to `depth`: parents are older than their children. */
static void populate(struct node *node, long depth)
{
    if (depth <= 0)
        return;
    node->left = bench_gc_allocate(sizeof *node);
    node->right = bench_gc_allocate(sizeof *node);
    populate(node->left, depth - 1);
    populate(node->right, depth - 1);
}

/* Makes a tree whose children are older than their parents. */
static struct node *make_bottom_up(long depth)
{
    struct node *left = NULL, *right = NULL;
    if (depth > 0) {
        left = make_bottom_up(depth - 1);
        right = make_bottom_up(depth - 1);
    }
    struct node *node = bench_gc_allocate(sizeof *node);
    node->left = left;
    node->right = right;
    return node;
}

static void build_and_drop(long depth, long stretch_depth)
{
    uint64_t trees = 2 * tree_size(stretch_depth) / tree_size(depth);
    for (uint64_t i = 0; i < trees; i++) {
        struct node *root = bench_gc_allocate(sizeof *root);
        populate(root, depth);
        /* Counting each tree would be another benchmark: the last one of each depth stands for
           them. */
        if (i + 1 == trees)
            ok &= count_nodes(root) == tree_size(depth);
        bench_keep(root);
    }
    for (uint64_t i = 0; i < trees; i++) {
        struct node *root = make_bottom_up(depth);
        if (i + 1 == trees)
            ok &= count_nodes(root) == tree_size(depth);
        bench_keep(root);
    }
}

int main(int argc, char **argv)
{
    long scale = bench_argument(argc, argv, 1, "SCALE", 16, MINIMUM_DEPTH, 26);
    bench_gc_start();

    bench_keep(make_bottom_up(scale + STRETCH_ABOVE));

    struct node *long_lived = bench_gc_allocate(sizeof *long_lived);
    populate(long_lived, scale);
    double *array = bench_gc_allocate_leaf(ARRAY_LENGTH * sizeof *array);
    for (long i = 0; i < ARRAY_LENGTH; i++)
        array[i] = 1.0 / (double)(i + 1);

    for (long depth = MINIMUM_DEPTH; depth <= scale; depth += 2)
        build_and_drop(depth, scale + STRETCH_ABOVE);

    uint64_t nodes = count_nodes(long_lived);
    ok &= nodes == tree_size(scale);
    for (long i = 0; i < ARRAY_LENGTH; i++)
        ok &= array[i] == 1.0 / (double)(i + 1);
    printf("{\"program\": \"gcbench\", \"scale\": %ld, \"long_lived_nodes\": %" PRIu64, scale,
        nodes);
    return bench_gc_finish(ok);
}
