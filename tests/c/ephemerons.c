/* Chains of ephemerons, each pair's key reached from the value of another: followed to their ends
   within seconds, in whatever order the pairs were made, directly or by way of other objects, with
   the world running or stopped. An argument is how many pairs. */
#include "check.h"
#include <time.h>

static int pairs = 200000;
/* A loaded machine, internal checks and watches included; passes over all pairs take minutes. */
enum { MOST_SECONDS = 20 };

/* The next key is a pair's value, or `by_way` of an object that holds it. Malloc's memory is no
   root. */
typedef struct {
    uintptr_t *keys;
    neap_ephemeron *pairs;
    int *order;
} chain;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void shuffle(int *order)
{
    uint64_t random = 42;
    for (int i = pairs - 1; i > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int other = (int)((random >> 33) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* Gives the first key. */
static APART int *make(chain *made, int shuffled, int by_way)
{
    void **all = neap_alloc(sizeof(void *) * (size_t)(pairs + 1));
    made->keys = malloc(sizeof *made->keys * (size_t)(pairs + 1));
    made->pairs = malloc(sizeof *made->pairs * (size_t)pairs);
    made->order = malloc(sizeof *made->order * (size_t)pairs);
    for (int i = 0; i <= pairs; i++) {
        int *key = all[i] = neap_alloc_leaf(16);
        *key = i;
        made->keys[i] = ~(uintptr_t)key;
        if (i < pairs)
            made->order[i] = i;
    }
    if (shuffled)
        shuffle(made->order);
    for (int i = 0; i < pairs; i++) {
        int from = made->order[i];
        void **value = all[from + 1];
        if (by_way) {
            value = neap_alloc(16);
            value[0] = all[from + 1];
        }
        made->pairs[from] = neap_ephemeron_alloc(all[from], value);
    }
    int *first = all[0];
    memset(all, 0, sizeof(void *) * (size_t)(pairs + 1));
    return first;
}

/* Checks that the pairs from `first` on are there, and frees all. */
static APART void check_and_free(chain *made, int by_way)
{
    int right = 0;
    for (int i = 0; i < pairs; i++) {
        void *key = NULL;
        int **value = neap_ephemeron_get(made->pairs[i], &key);
        int *next = by_way && value != NULL ? *value : (int *)value;
        right += key != NULL && ~(uintptr_t)key == made->keys[i] && *(int *)key == i &&
                 next != NULL && *next == i + 1;
    }
    CHECK_EQUAL(right, pairs);
    /* Now: a cycle that runs meanwhile may end what a freed pair led to. */
    for (int i = 0; i < pairs; i++)
        CHECK_EQUAL(neap_ephemeron_free(made->pairs[i]), NEAP_OK);
    free(made->keys);
    free(made->pairs);
    free(made->order);
}

/* With a short link to what is dead the pairs are followed in the stop. Some links, since a stale
   word may keep an object. */
enum { DEAD = 16 };
static void *dead[DEAD];

static APART void link_dead(void)
{
    for (int i = 0; i < DEAD; i++) {
        dead[i] = neap_hide(neap_alloc(16));
        CHECK_EQUAL(neap_link_register(&dead[i], neap_reveal(dead[i]), NEAP_LINK_SHORT), NEAP_OK);
    }
}

static void unlink_dead(void)
{
    int cleared = 0;
    for (int i = 0; i < DEAD; i++) {
        cleared += dead[i] == NULL;
        neap_link_unregister(&dead[i], NEAP_LINK_SHORT);
    }
    CHECK(cleared > 0);
}

static void test(int shuffled, int by_way, int stopped)
{
    chain made;
    int *volatile first = make(&made, shuffled, by_way);
    if (stopped)
        link_dead();
    clear_stack();
    double began = seconds();
    CHECK(neap_collect());
    double took = seconds() - began;
    printf("%s, %s, %s: %.3f s\n", shuffled ? "shuffled" : "in order",
           by_way ? "by way of others" : "direct", stopped ? "stopped" : "running", took);
    CHECK(took < MOST_SECONDS);
    check_and_free(&made, by_way);
    CHECK_EQUAL(*first, 0);
    if (stopped)
        unlink_dead();
}

/* Many values of one key, among them the keys of others. */
static APART void test_one_key(void)
{
    static neap_ephemeron hub[20000];
    int *volatile key = neap_alloc_leaf(16);
    for (int i = 0; i < 20000; i += 2) {
        int *value = neap_alloc_leaf(16);
        *value = i;
        hub[i] = neap_ephemeron_alloc(key, value);
        hub[i + 1] = neap_ephemeron_alloc(value, key);
    }
    clear_stack();
    CHECK(neap_collect());
    int right = 0;
    for (int i = 0; i < 20000; i += 2) {
        int *value = neap_ephemeron_get(hub[i], NULL);
        right += value != NULL && *value == i && neap_ephemeron_get(hub[i + 1], NULL) == key;
    }
    CHECK_EQUAL(right, 10000);
}

int main(int count, char **arguments)
{
    if (count > 1)
        pairs = atoi(arguments[1]);
    for (int which = 0; which < 8; which++)
        test(which & 1, which >> 1 & 1, which >> 2);
    test_one_key();
    return finish();
}
