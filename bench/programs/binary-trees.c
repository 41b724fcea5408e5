/* binary-trees DEPTH THREADS: builds, counts and drops complete binary trees of 16-byte nodes while
 * one big tree stays alive.
 *
 * The work is the well-known one: a stretch tree of DEPTH+1, a long-lived tree of DEPTH, then for
 * each depth 4, 6, … DEPTH so many trees that every depth makes about the same number of nodes. The
 * trees of a depth are divided among THREADS threads. Variants: libgc ABI (default);
 * -DBENCH_MIMALLOC, where each tree is freed as a C program would. The check is the number of nodes
 * seen. */
#ifdef BENCH_MIMALLOC
#include "bench.h"
#include <mimalloc.h>
#else
#include "bench_gc.h"
#endif
#include <pthread.h>

enum { MINIMUM_DEPTH = 4, MAXIMUM_THREADS = 256 };

struct node {
    struct node *left, *right;
};

struct share {
    pthread_t thread;
    long number;      /* which of the threads, from 0 */
    uint64_t nodes;   /* counted by this thread; read after it was joined */
};

static long depth_limit, threads;

static struct node *make_node(void)
{
#ifdef BENCH_MIMALLOC
    struct node *node = mi_malloc(sizeof *node);
    if (node == NULL)
        abort();
    return node;
#else
    return bench_gc_allocate(sizeof(struct node));
#endif
}

static struct node *make_tree(long depth)
{
    struct node *node = make_node();
    node->left = depth > 0 ? make_tree(depth - 1) : NULL;
    node->right = depth > 0 ? make_tree(depth - 1) : NULL;
    return node;
}

static uint64_t count_nodes(const struct node *node)
{
    return node->left == NULL ? 1 : 1 + count_nodes(node->left) + count_nodes(node->right);
}

static void drop_tree(struct node *node)
{
#ifdef BENCH_MIMALLOC
    if (node->left != NULL) {
        drop_tree(node->left);
        drop_tree(node->right);
    }
    mi_free(node);
#else
    (void)node;
#endif
}

static long trees_of(long depth)
{
    return 1L << (depth_limit - depth + MINIMUM_DEPTH);
}

static void *work(void *argument)
{
    struct share *share = argument;
    uint64_t nodes = 0;
    for (long depth = MINIMUM_DEPTH; depth <= depth_limit; depth += 2) {
        long first = trees_of(depth) * share->number / threads,
            end = trees_of(depth) * (share->number + 1) / threads;
        for (long tree = first; tree < end; tree++) {
            struct node *root = make_tree(depth);
            nodes += count_nodes(root);
            drop_tree(root);
        }
    }
    share->nodes = nodes;
    return NULL;
}

int main(int argc, char **argv)
{
    depth_limit = bench_argument(argc, argv, 1, "DEPTH", 20, MINIMUM_DEPTH, 30);
    threads = bench_argument(argc, argv, 2, "THREADS", 1, 1, MAXIMUM_THREADS);
#ifndef BENCH_MIMALLOC
    bench_gc_start();
#endif
    struct node *stretch = make_tree(depth_limit + 1);
    uint64_t seen = count_nodes(stretch);
    drop_tree(stretch);
    stretch = NULL;
    struct node *long_lived = make_tree(depth_limit);

    static struct share shares[MAXIMUM_THREADS];
    for (long i = 0; i < threads; i++) {
        shares[i].number = i;
        /* The first share is done here, so that one thread means one thread. */
        if (i > 0 && pthread_create(&shares[i].thread, NULL, work, &shares[i]) != 0) {
            fprintf(stderr, "binary-trees: cannot start thread %ld of %ld\n", i + 1, threads);
            return 1;
        }
    }
    work(&shares[0]);
    for (long i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(shares[i].thread, NULL);
        seen += shares[i].nodes;
    }
    seen += count_nodes(long_lived);

    uint64_t expected = (2ull << (depth_limit + 1)) - 1 + (2ull << depth_limit) - 1;
    for (long depth = MINIMUM_DEPTH; depth <= depth_limit; depth += 2)
        expected += (uint64_t)trees_of(depth) * ((2ull << depth) - 1);
    bool ok = seen == expected;
    printf("{\"program\": \"binary-trees\", \"depth\": %ld, \"threads\": %ld, \"nodes\": %" PRIu64,
        depth_limit, threads, seen);
#ifdef BENCH_MIMALLOC
    printf(", \"library_version\": \"%d\", \"ok\": %s}\n", mi_version(), ok ? "true" : "false");
    return ok ? 0 : 1;
#else
    return bench_gc_finish(ok);
#endif
}
