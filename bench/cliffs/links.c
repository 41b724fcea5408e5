/* links KIND [COUNT [RATE [SECONDS]]]: COUNT disappearing links to as many objects, `short` or
 * `long` ones that stay, or short ones that are made and dropped all the time (`churning`); or a
 * thousand of the latter beside COUNT nodes that only an object with a finalizer leads to, which
 * dies meanwhile (`finalized`).
 *
 * An operation looks at a link and makes garbage; a churning one also drops the object, or gives
 * the link another. The check: the link of an object that is kept leads to it at each turn and at
 * the end, and after two collections at the end all but a few of those whose object was dropped
 * are null: exactly the dead ones, but for what a conservative collector takes for pointers. The
 * finalizer finds all its nodes. */
#include "operations.h"

struct object {
    uint64_t number;
    struct object *itself;
    uint64_t made;
};

static struct object **kept; /* in the heap; NULL = dropped */
static void **links;         /* pointer-free memory of the heap */
static bool longs;
static uint64_t made;

static void link_make(size_t number)
{
    struct object *object = bench_gc_allocate(sizeof *object);
    object->number = number;
    object->itself = object;
    object->made = ++made;
    kept[number] = object;
    links[number] = object;
    int status = longs ? GC_register_long_link(&links[number], object)
        : GC_general_register_disappearing_link(&links[number], object);
    if (status != GC_SUCCESS) {
        fprintf(stderr, "a link was not registered: %d\n", status);
        exit(1);
    }
}

static void link_forget(size_t number)
{
    if (longs)
        GC_unregister_long_link(&links[number]);
    else
        GC_unregister_disappearing_link(&links[number]);
}

/* Of an object that is kept: that its link leads to it. */
static bool link_right(size_t number)
{
    const struct object *object = kept[number];
    return object == NULL || (links[number] == object && object->number == number &&
        object->itself == object);
}

/* The object goes, and its link is left to the collector; or both are made anew. */
static void link_churn(size_t number, bool drop)
{
    if (kept[number] != NULL && drop) {
        kept[number] = NULL;
        return;
    }
    link_forget(number);
    link_make(number);
}

/* A node of a tree. */
struct node {
    struct node *left, *right;
    uint64_t more[4];
};

static struct node *revived; /* by its finalizer */

static struct node *tree(size_t nodes)
{
    if (nodes == 0)
        return NULL;
    struct node *node = bench_gc_allocate(sizeof *node);
    node->left = tree((nodes - 1) / 2);
    node->right = tree(nodes - 1 - (nodes - 1) / 2);
    return node;
}

static size_t nodes_of(const struct node *node)
{
    return node == NULL ? 0 : 1 + nodes_of(node->left) + nodes_of(node->right);
}

static void finalize(void *object, void *data)
{
    (void)data;
    revived = object;
}

/* An object with a finalizer that nothing leads to, and that leads to so many nodes. */
static __attribute__((noinline)) void finalizable_make(size_t nodes)
{
    GC_register_finalizer_no_order(tree(nodes), finalize, NULL, NULL, NULL);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    bool finalized = strcmp(kind, "finalized") == 0;
    bool churning = finalized || strcmp(kind, "churning") == 0;
    longs = strcmp(kind, "long") == 0;
    if (!churning && !longs && strcmp(kind, "short") != 0) {
        fprintf(stderr, "usage: %s short|long|churning|finalized [COUNT [RATE [SECONDS]]]\n", argv[0]);
        return 2;
    }
    size_t count = (size_t)bench_argument(argc, argv, 2, "COUNT", 1000000, 1, 100000000);
    long rate = bench_argument(argc, argv, 3, "RATE", 100000, 0, 10000000);
    long seconds = bench_argument(argc, argv, 4, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    size_t nodes = finalized ? count : 0;
    if (finalized)
        count = 1000;
    kept = bench_gc_allocate(count * sizeof *kept);
    links = bench_gc_allocate_leaf(count * sizeof *links);
    for (size_t number = 0; number < count; number++)
        link_make(number);
    if (finalized)
        finalizable_make(nodes);
    else
        GC_gcollect();
    uint64_t random = 0x5eed, wrong = 0, dropped = 0, left = 0;
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        uint64_t number = bench_random(&random);
        bool drop = number >> 63;
        number = (number >> 11) % count;
        wrong += !link_right(number);
        if (churning)
            link_churn(number, drop);
        bench_gc_garbage(16, 64);
        operations_done(operations);
    }
    printf("{\"program\": \"links %s\", \"links\": %zu", kind, count);
    operations_print(operations, 1);
    bench_print_measured_stops();
    GC_gcollect();
    GC_gcollect();
    GC_invoke_finalizers();
    for (size_t number = 0; number < count; number++) {
        wrong += !link_right(number);
        dropped += kept[number] == NULL;
        left += kept[number] == NULL && links[number] != NULL;
    }
    wrong += nodes_of(revived) != nodes;
    printf(", \"made\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"dropped_and_not_null\": %" PRIu64 ", \"wrong\": %" PRIu64,
        made, dropped, left, wrong);
    return bench_gc_finish(wrong == 0 && left <= dropped / 100 + 64 && churning == (dropped != 0));
}
