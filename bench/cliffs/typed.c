/* typed HOW [DEPTH [RATE [SECONDS]]]: a binary tree of DEPTH levels (21: 2 million nodes) of
 * objects that say themselves where their pointers are: `gcj`, by a bitmap or a length, in turn,
 * in the type that an object of GC_gcj_malloc names; `object`, by a bitmap in each object, where
 * its kind says it is; `procedure`, by a mark procedure of the program; or `incremental`, the same
 * in a program that has asked for incremental collection.
 *
 * An operation goes down a random way, checks it, and makes the last three levels anew. The check:
 * the keys on every way, and the count and keys of the whole tree at the end. */
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>

#include "operations.h"

enum { RENEWED = 3 };

/* The layout of a gcj object's type, as far as the collector knows it. */
struct type {
    void *unused;
    GC_word descriptor;
};

struct node {
    const struct type *type; /* gcj: the collector reads it */
    struct node *left, *right;
    uint64_t key;            /* the root has 1, its children 2 and 3, and so on */
    GC_word descriptor;      /* object: the collector reads it */
};

static const struct type types[] = {
    {NULL, (GC_word)3 << (8 * sizeof(GC_word) - 3) | GC_DS_BITMAP}, /* the second and third word */
    {NULL, sizeof(struct node) | GC_DS_LENGTH},
};
enum { TYPES = sizeof types / sizeof *types };

static struct node *root;
static unsigned kind; /* of `object` and `procedure`; 0 = gcj */

/* A GC_mark_proc. */
static struct GC_ms_entry *mark(GC_word *object, struct GC_ms_entry *top,
    struct GC_ms_entry *limit, GC_word environment)
{
    struct node *node = (struct node *)object;
    (void)environment;
    top = GC_MARK_AND_PUSH(node->left, top, limit, (void **)&node->left);
    return GC_MARK_AND_PUSH(node->right, top, limit, (void **)&node->right);
}

static struct node *make(uint64_t key, unsigned levels)
{
    /* The new node is kept by this frame while its children are made. */
    struct node *node = kind != 0 ? GC_generic_malloc(sizeof *node, (int)kind)
        : GC_gcj_malloc(sizeof *node, (void *)(uintptr_t)&types[key % TYPES]);
    if (node == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    node->descriptor = types[0].descriptor;
    node->key = key;
    if (levels > 1) {
        node->left = make(2 * key, levels - 1);
        node->right = make(2 * key + 1, levels - 1);
    }
    return node;
}

static uint64_t count_right(const struct node *node, uint64_t key)
{
    return node == NULL ? 0 : (node->key == key) + count_right(node->left, 2 * key)
        + count_right(node->right, 2 * key + 1);
}

/* One way down, and three new levels at its end; whether all on it was right. */
static bool replace(unsigned depth, uint64_t random)
{
    struct node *node = root;
    uint64_t key = 1;
    bool right = true;
    for (unsigned level = 1; level < depth - RENEWED; level++, random >>= 1) {
        right &= node->key == key;
        key = 2 * key + (random & 1);
        node = random & 1 ? node->right : node->left;
    }
    right &= node->key == key && node->right->left->key == 4 * key + 2;
    node->left = make(2 * key, RENEWED);
    node->right = make(2 * key + 1, RENEWED);
    return right;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    bool gcj = strcmp(how, "gcj") == 0, incremental = strcmp(how, "incremental") == 0;
    bool procedure = incremental || strcmp(how, "procedure") == 0;
    if (!gcj && !procedure && strcmp(how, "object") != 0) {
        fprintf(stderr, "usage: %s gcj|object|procedure|incremental [DEPTH [RATE [SECONDS]]]\n",
            argv[0]);
        return 2;
    }
    unsigned depth = (unsigned)bench_argument(argc, argv, 2, "DEPTH", 21, 8, 28);
    long rate = bench_argument(argc, argv, 3, "RATE", 100000, 0, 10000000);
    long seconds = bench_argument(argc, argv, 4, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    if (incremental)
        GC_enable_incremental();
    if (gcj) {
        GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, NULL);
    } else {
        GC_word descriptor = procedure ? GC_MAKE_PROC(GC_new_proc(mark), 0)
            : offsetof(struct node, descriptor) | GC_DS_PER_OBJECT;
        kind = GC_new_kind(GC_new_free_list(), descriptor, 0, 1);
    }
    root = make(1, depth);
    uint64_t random = 0x5eed, wrong = 0;
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        wrong += !replace(depth, bench_random(&random) >> 11);
        bench_gc_garbage(8, 64);
        operations_done(operations);
    }
    uint64_t nodes = ((uint64_t)1 << depth) - 1, right = count_right(root, 1);
    printf("{\"program\": \"typed %s\", \"nodes\": %" PRIu64 ", \"right\": %" PRIu64 ", \"wrong\": %" PRIu64,
        how, nodes, right, wrong);
    operations_print(operations, 1);
    bench_print_measured_stops();
    return bench_gc_finish(wrong == 0 && right == nodes);
}
