/* churn WORK THREADS SCALE: what benchmarks of malloc and free do, on malloc and free, and on
 * collectors, where nothing is freed. The subjects are those of mimalloc's collection of
 * benchmarks, the programs our own.
 *
 * WORK is one of
 *   larson    each thread replaces objects of 8 to 1,000 bytes in a table at random; now and then
 *             it ends, and a new thread goes on with its table
 *   mstress   each thread keeps nodes that point to each other, and exchanges some with the others
 *   sh6       batches of small objects, freed in the order of their allocation and against it
 *   scratch   small objects of which each is written many times, next to those of other threads
 *   xmalloc   half of the threads, two at least, allocate, the other half frees
 *   espresso  sets of words that are made from sets, for a moment each; tables that grow
 *   barnes    a tree of space over bodies that move, made anew for each step
 * Objects without pointers are not zeroed where that can be had; nodes are. Each object carries a
 * word that is compared before it is dropped, and the check is that no word was another one.
 * Variants: the libgc ABI (default); -DBENCH_NEAP, neap.h; -DBENCH_MALLOC, malloc and free of
 * whatever library is linked. Prints nanoseconds per object of a thread. */
#if defined(BENCH_MALLOC)
#include "bench.h"
#elif defined(BENCH_NEAP)
#include "bench.h"
#include <neap.h>
#else
#include "bench_gc.h"
#endif
#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 64 };

/* What is allocated, counted and compared on one thread: on cache lines of its own. */
struct share {
    _Alignas(128) pthread_t thread;
    long index;
    uint64_t random, made, wrong;
    void *kept; /* its table, from one thread to the next */
};

static struct share shares[MOST_THREADS];
static long threads, scale;

static inline void *allocated(struct share *own, void *object)
{
    if (__builtin_expect(object == NULL, 0)) {
        fprintf(stderr, "churn: out of memory\n");
        exit(1);
    }
    own->made++;
    return object;
}

/* Memory without pointers, as it comes. */
static inline uint64_t *new_leaf(struct share *own, size_t bytes)
{
#if defined(BENCH_MALLOC)
    return allocated(own, malloc(bytes));
#elif defined(BENCH_NEAP)
    return allocated(own, neap_alloc_leaf(bytes));
#else
    return allocated(own, GC_malloc_atomic(bytes));
#endif
}

/* Zeroed memory that may hold pointers. */
static inline void *new_node(struct share *own, size_t bytes)
{
#if defined(BENCH_MALLOC)
    return allocated(own, calloc(1, bytes));
#elif defined(BENCH_NEAP)
    return allocated(own, neap_alloc(bytes));
#else
    return allocated(own, GC_malloc(bytes));
#endif
}

static inline void drop(void *object)
{
#if defined(BENCH_MALLOC)
    free(object);
#else
    (void)object;
#endif
}

static inline size_t between(struct share *own, size_t low, size_t high)
{
    return low + bench_random(&own->random) % (high - low + 1);
}

/* A leaf that knows its size. */
static inline uint64_t *new_marked(struct share *own, size_t bytes)
{
    uint64_t *leaf = new_leaf(own, bytes);
    leaf[0] = bench_mix(bytes) ^ (uintptr_t)leaf;
    return leaf;
}

static inline void drop_marked(struct share *own, uint64_t *leaf, size_t bytes)
{
    own->wrong += leaf[0] != (bench_mix(bytes) ^ (uintptr_t)leaf);
    drop(leaf);
}

/* larson: SCALE thousand replacements before a thread ends, ten generations of threads. */
enum { LARSON_SLOTS = 1000 };
struct larson_table {
    uint64_t *leaves[LARSON_SLOTS];
    size_t bytes[LARSON_SLOTS];
};

static void larson(struct share *own)
{
    if (own->kept == NULL)
        own->kept = new_node(own, sizeof(struct larson_table));
    struct larson_table *table = own->kept;
    for (long i = 0; i < scale * 1000; i++) {
        size_t slot = between(own, 0, LARSON_SLOTS - 1), bytes = between(own, 8, 1000);
        if (table->leaves[slot] != NULL)
            drop_marked(own, table->leaves[slot], table->bytes[slot]);
        table->leaves[slot] = new_marked(own, bytes);
        table->bytes[slot] = bytes;
    }
}

/* mstress: nodes of four words and more, in chains of up to eight; a tenth of them pass through
   places that all threads share. */
enum { MSTRESS_KEPT = 5000, MSTRESS_SHARED = 1000 };
struct stress_node {
    struct stress_node *next;
    uint64_t words, first, rest[];
};
static _Atomic(struct stress_node *) shared_nodes[MSTRESS_SHARED];

static void drop_chain(struct share *own, struct stress_node *node)
{
    while (node != NULL) {
        struct stress_node *next = node->next;
        own->wrong += node->first != bench_mix(node->words)
            || node->rest[node->words - 1] != node->words;
        drop(node);
        node = next;
    }
}

static void mstress(struct share *own)
{
    if (own->kept == NULL)
        own->kept = new_node(own, MSTRESS_KEPT * sizeof(struct stress_node *));
    struct stress_node **kept = own->kept;
    for (long i = 0; i < scale * 200; i++) {
        struct stress_node *chain = NULL;
        for (size_t left = between(own, 1, 8); left > 0; left--) {
            size_t words = between(own, 0, 99) == 0 ? between(own, 200, 1500) : between(own, 1, 24);
            struct stress_node *node = new_node(own, sizeof *node + words * sizeof(uint64_t));
            own->wrong += node->first != 0 || node->rest[words - 1] != 0;
            *node = (struct stress_node){ chain, words, bench_mix(words) };
            node->rest[words - 1] = words;
            chain = node;
        }
        if (between(own, 0, 9) == 0) {
            chain = atomic_exchange(&shared_nodes[between(own, 0, MSTRESS_SHARED - 1)], chain);
        } else {
            size_t slot = between(own, 0, MSTRESS_KEPT - 1);
            struct stress_node *before = kept[slot];
            kept[slot] = chain;
            chain = before;
        }
        drop_chain(own, chain);
    }
}

/* sh6: batches of a thousand, mostly below 100 bytes; half of each goes against the order. */
enum { SH6_BATCH = 1000 };

static void sh6(struct share *own)
{
    uint64_t **batch = own->kept = new_node(own, SH6_BATCH * sizeof *batch);
    static const size_t sizes[] = { 8, 16, 24, 24, 32, 48, 64, 96, 200, 1000 };
    size_t from = between(own, 0, 9);
    for (long round = 0; round < scale * 10; round++) {
        for (size_t i = 0; i < SH6_BATCH; i++)
            batch[i] = new_marked(own, sizes[(from + i * 7) % 10]);
        for (size_t i = 0; i < SH6_BATCH / 2; i++)
            drop_marked(own, batch[i], sizes[(from + i * 7) % 10]);
        for (size_t i = SH6_BATCH; i-- > SH6_BATCH / 2;)
            drop_marked(own, batch[i], sizes[(from + i * 7) % 10]);
        memset(batch, 0, SH6_BATCH * sizeof *batch);
    }
}

/* scratch: as often as objects are made, each is written a hundred times. */
static void scratch(struct share *own)
{
    for (long i = 0; i < scale * 1000; i++) {
        volatile uint64_t *leaf = new_marked(own, 8);
        uint64_t mark = leaf[0];
        for (int turn = 0; turn < 100; turn++)
            leaf[0] = mark;
        drop_marked(own, (uint64_t *)leaf, 8);
    }
}

/* xmalloc: batches of 256 go through a stack; who finds none, or too many there, waits. */
enum { XMALLOC_BATCH = 256, XMALLOC_MOST = 64 };
struct batch {
    struct batch *next;
    uint64_t *leaves[XMALLOC_BATCH];
};
static struct batch *handed_over;
static long waiting_batches, producers_left;
static pthread_mutex_t hand_over = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed = PTHREAD_COND_INITIALIZER;

static size_t xmalloc_bytes(size_t place)
{
    return 16 + place * 8 % 240;
}

static void xmalloc_produce(struct share *own)
{
    for (long round = 0; round < scale * 10; round++) {
        struct batch *batch = new_node(own, sizeof *batch);
        for (size_t i = 0; i < XMALLOC_BATCH; i++)
            batch->leaves[i] = new_marked(own, xmalloc_bytes(i));
        pthread_mutex_lock(&hand_over);
        while (waiting_batches >= XMALLOC_MOST)
            pthread_cond_wait(&handed, &hand_over);
        batch->next = handed_over;
        handed_over = batch;
        waiting_batches++;
        pthread_cond_broadcast(&handed);
        pthread_mutex_unlock(&hand_over);
    }
    pthread_mutex_lock(&hand_over);
    producers_left--;
    pthread_cond_broadcast(&handed);
    pthread_mutex_unlock(&hand_over);
}

static void xmalloc_consume(struct share *own)
{
    for (;;) {
        pthread_mutex_lock(&hand_over);
        while (handed_over == NULL && producers_left > 0)
            pthread_cond_wait(&handed, &hand_over);
        struct batch *batch = handed_over;
        if (batch != NULL) {
            handed_over = batch->next;
            waiting_batches--;
            pthread_cond_broadcast(&handed);
        }
        pthread_mutex_unlock(&hand_over);
        if (batch == NULL)
            return;
        for (size_t i = 0; i < XMALLOC_BATCH; i++)
            drop_marked(own, batch->leaves[i], xmalloc_bytes(i));
        drop(batch);
    }
}

static void xmalloc(struct share *own)
{
    if (own->index % 2 == 0)
        xmalloc_produce(own);
    else
        xmalloc_consume(own);
}

/* espresso: from a cover of cubes a new one, by pairs, until it is used up; the table of cubes
   doubles as it fills. */
struct cover {
    size_t count, room;
    uint64_t **cubes;
};

static void add_cube(struct share *own, struct cover *cover, uint64_t *cube)
{
    if (cover->count == cover->room) {
        size_t room = cover->room == 0 ? 4 : cover->room * 2;
        uint64_t **cubes = new_node(own, room * sizeof *cubes);
        if (cover->count > 0)
            memcpy(cubes, cover->cubes, cover->count * sizeof *cubes);
        drop(cover->cubes);
        cover->cubes = cubes;
        cover->room = room;
    }
    cover->cubes[cover->count++] = cube;
}

static uint64_t *new_cube(struct share *own, size_t words)
{
    uint64_t *cube = new_leaf(own, (words + 1) * sizeof(uint64_t));
    cube[0] = words;
    return cube;
}

static void espresso(struct share *own)
{
    for (long round = 0; round < scale; round++) {
        size_t words = between(own, 1, 12);
        struct cover *cover = new_node(own, sizeof *cover);
        own->kept = cover;
        for (size_t i = 0; i < 200; i++) {
            uint64_t *cube = new_cube(own, words);
            for (size_t word = 1; word <= words; word++)
                cube[word] = bench_random(&own->random);
            add_cube(own, cover, cube);
        }
        while (cover->count > 1) {
            struct cover *next = new_node(own, sizeof *next);
            for (size_t i = 0; i + 1 < cover->count; i += 2) {
                uint64_t *one = cover->cubes[i], *other = cover->cubes[i + 1];
                own->wrong += one[0] != words || other[0] != words;
                /* Three that are looked at, of which one stays. */
                uint64_t *both = new_cube(own, words), *either = new_cube(own, words),
                         *apart = new_cube(own, words);
                for (size_t word = 1; word <= words; word++) {
                    both[word] = one[word] & other[word];
                    either[word] = one[word] | other[word];
                    apart[word] = one[word] ^ other[word];
                    own->wrong += (both[word] ^ either[word]) != apart[word];
                }
                drop(one);
                drop(other);
                drop(both);
                drop(apart);
                add_cube(own, next, either);
            }
            if (cover->count % 2 == 1)
                add_cube(own, next, cover->cubes[cover->count - 1]);
            drop(cover->cubes);
            drop(cover);
            cover = next;
            own->kept = cover;
        }
        drop(cover->cubes[0]);
        drop(cover->cubes);
        drop(cover);
    }
}

/* barnes: SCALE steps of 4,000 bodies in a tree of eighths. */
enum { BARNES_BODIES = 4000, BARNES_DEPTH = 20 };
struct body {
    double place[3];
    uint64_t number;
};
struct eighths {
    struct eighths *parts[8];
    struct body *body; /* of a leaf */
    double mass, center[3];
};

static void add_body(struct share *own, struct eighths *cell, struct body *body, double *low,
    double size, int depth)
{
    cell->mass += 1;
    if (cell->mass == 1 || depth == BARNES_DEPTH) {
        cell->body = body;
        return;
    }
    struct body *both[2] = { cell->body, body };
    cell->body = NULL;
    for (int i = 0; i < 2; i++) {
        if (both[i] == NULL)
            continue;
        double corner[3], half = size / 2;
        int part = 0;
        for (int axis = 0; axis < 3; axis++) {
            bool upper = both[i]->place[axis] >= low[axis] + half;
            part |= upper << axis;
            corner[axis] = low[axis] + (upper ? half : 0);
            cell->center[axis] += both[i]->place[axis];
        }
        if (cell->parts[part] == NULL)
            cell->parts[part] = new_node(own, sizeof *cell);
        add_body(own, cell->parts[part], both[i], corner, half, depth + 1);
    }
}

static uint64_t drop_eighths(struct eighths *cell)
{
    uint64_t sum = cell->body != NULL ? cell->body->number : 0;
    for (int part = 0; part < 8; part++)
        if (cell->parts[part] != NULL)
            sum += drop_eighths(cell->parts[part]);
    drop(cell);
    return sum;
}

static void barnes(struct share *own)
{
    struct body **bodies = own->kept = new_node(own, BARNES_BODIES * sizeof *bodies);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < BARNES_BODIES; i++) {
        bodies[i] = new_node(own, sizeof *bodies[i]);
        bodies[i]->number = i + 1;
        sum += i + 1;
    }
    for (long step = 0; step < scale; step++) {
        struct eighths *root = new_node(own, sizeof *root);
        for (size_t i = 0; i < BARNES_BODIES; i++) {
            for (int axis = 0; axis < 3; axis++)
                bodies[i]->place[axis] = (double)(bench_random(&own->random) >> 11) * 0x1p-53;
            add_body(own, root, bodies[i], (double[3]){ 0, 0, 0 }, 1, 0);
        }
        own->wrong += drop_eighths(root) != sum;
    }
    for (size_t i = 0; i < BARNES_BODIES; i++)
        drop(bodies[i]);
}

struct work {
    const char *name;
    void (*run)(struct share *own);
    int generations; /* of threads, one after the other */
};
static const struct work works[] = {
    { "larson", larson, 10 },    { "mstress", mstress, 4 },   { "sh6", sh6, 1 },
    { "scratch", scratch, 1 },   { "xmalloc", xmalloc, 1 },   { "espresso", espresso, 1 },
    { "barnes", barnes, 1 },
};
static const struct work *chosen;

static void *run(void *share)
{
    chosen->run(share);
    return NULL;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof works / sizeof works[0]; i++)
        if (strcmp(argv[1], works[i].name) == 0)
            chosen = &works[i];
    if (chosen == NULL) {
        fprintf(stderr, "churn: there is no such WORK; the source names them\n");
        return 2;
    }
    threads = bench_argument(argc, argv, 2, "THREADS", 1, 1, MOST_THREADS);
    scale = bench_argument(argc, argv, 3, "SCALE", 100, 1, 1000000);
#if !defined(BENCH_MALLOC) && !defined(BENCH_NEAP)
    bench_gc_start();
#endif
    if (chosen->run == xmalloc && threads == 1)
        threads = 2;
    double began = bench_seconds();
    producers_left = (threads + 1) / 2;
    for (int generation = 0; generation < chosen->generations; generation++) {
        for (long i = 0; i < threads; i++) {
            shares[i].index = i;
            shares[i].random = bench_mix((uint64_t)(generation * MOST_THREADS + i + 1));
            if (pthread_create(&shares[i].thread, NULL, run, &shares[i]) != 0) {
                fprintf(stderr, "churn: cannot start thread %ld of %ld\n", i + 1, threads);
                return 1;
            }
        }
        for (long i = 0; i < threads; i++)
            pthread_join(shares[i].thread, NULL);
    }
    double seconds = bench_seconds() - began;
    uint64_t made = 0, wrong = 0;
    for (long i = 0; i < threads; i++) {
        made += shares[i].made;
        wrong += shares[i].wrong;
    }
    bool ok = wrong == 0 && made > 0;
    printf("{\"program\": \"churn\", \"work\": \"%s\", \"threads\": %ld, \"objects\": %" PRIu64
           ", \"wrong\": %" PRIu64 ", \"ns_per_object\": %.3f",
        chosen->name, threads, made, wrong, seconds * 1e9 * (double)threads / (double)made);
#if defined(BENCH_MALLOC) || defined(BENCH_NEAP)
    printf(", \"ok\": %s}\n", ok ? "true" : "false");
    return ok ? 0 : 1;
#else
    return bench_gc_finish(ok);
#endif
}
