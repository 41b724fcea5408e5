/* Finalizers: run once after their object died, in the order asked for, by the library or by the
   program; resurrection, replacement, removal; data are kept. */
#include "check.h"
#include <pthread.h>

struct node {
    struct node *next;
    long number;
};

/* Written by the library's threads. */
static int ran, wrong_data;
static long order[4 * MANY];
static char *datum;
static struct node *volatile resurrected;

static void note(void *object, void *data)
{
    struct node *node = object;
    if (data != datum || (data != NULL && strcmp(data, "data of finalizers") != 0))
        __atomic_add_fetch(&wrong_data, 1, __ATOMIC_RELAXED);
    int place = __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
    if (place < 4 * MANY)
        order[place] = node->number;
}

/* MANY pairs, each first pointing to its second. */
static APART void make_pairs(int how, int cyclic)
{
    for (int i = 0; i < MANY; i++) {
        struct node *second = neap_alloc(sizeof *second), *first = neap_alloc(sizeof *first);
        first->next = second;
        first->number = 2 * i;
        second->number = 2 * i + 1;
        second->next = cyclic ? first : NULL;
        CHECK_EQUAL(neap_finalizer_set(second, note, datum, how), NEAP_OK);
        CHECK_EQUAL(neap_finalizer_set(first, note, datum, how), NEAP_OK);
    }
}

static APART void make_selfish(int how)
{
    for (int i = 0; i < MANY; i++) {
        struct node *node = neap_alloc(sizeof *node);
        node->next = node;
        CHECK_EQUAL(neap_finalizer_set(node, note, datum, how), NEAP_OK);
    }
}

#define RAN_NEARLY(count)                                                                          \
    do {                                                                                           \
        if (ran < (count) - 2 * STRAY || ran > (count))                                            \
            fprintf(stderr, "%d of %d ran\n", ran, (int)(count));                                  \
        CHECK(ran >= (count) - 2 * STRAY && ran <= (count));                                       \
        ran = 0;                                                                                   \
    } while (0)

static APART void orders(void)
{
    make_pairs(NEAP_ORDER_TOPOLOGICAL, 0);
    CHECK(neap_collect());
    neap_finalizers_run();
    clear_stack();
    CHECK(neap_collect());
    neap_finalizers_run();
    /* The second of a pair runs after the first, if that ran at all. */
    static int place[2 * MANY];
    for (int i = 0; i < 2 * MANY; i++)
        place[i] = -1;
    collect();
    for (int i = 0; i < ran && i < 2 * MANY; i++)
        place[order[i]] = i;
    for (int i = 0; i < MANY; i++)
        CHECK(place[2 * i + 1] < 0 || (place[2 * i] >= 0 && place[2 * i] < place[2 * i + 1]));
    RAN_NEARLY(2 * MANY);
    make_pairs(NEAP_ORDER_TOPOLOGICAL, 1);
    collect();
    CHECK_EQUAL(ran, 0);
    make_pairs(NEAP_ORDER_NONE, 1);
    collect();
    RAN_NEARLY(2 * MANY);
    make_pairs(NEAP_ORDER_UNREACHABLE, 0);
    collect();
    RAN_NEARLY(2 * MANY);
    make_selfish(NEAP_ORDER_TOPOLOGICAL);
    collect();
    CHECK_EQUAL(ran, 0);
    make_selfish(NEAP_ORDER_IGNORE_SELF);
    collect();
    RAN_NEARLY(MANY);
}

static void resurrect(void *object, void *data)
{
    resurrected = object;
    CHECK_EQUAL(neap_finalizer_set(object, note, data, NEAP_ORDER_NONE), NEAP_OK);
    /* It may allocate and collect; finalizers that become ready meanwhile do not run within this
       one. */
    churn(32, 20000);
    neap_collect();
}

static APART void one(neap_finalizer *function, neap_finalizer *then)
{
    struct node *node = neap_alloc(sizeof *node);
    node->number = 77;
    CHECK_EQUAL(neap_finalizer_set(node, function, datum, NEAP_ORDER_NONE), NEAP_OK);
    if (then != function)
        CHECK_EQUAL(neap_finalizer_set(node, then, datum, NEAP_ORDER_NONE), NEAP_OK);
}

enum { CHAIN = 1000 };
static int links;

static APART void drop(neap_finalizer *function)
{
    CHECK_EQUAL(neap_finalizer_set(neap_alloc(64), function, NULL, NEAP_ORDER_NONE), NEAP_OK);
}

/* Leads to the next one of its sort. */
static void chain(void *object, void *data)
{
    (void)object, (void)data;
    if (++links < CHAIN) {
        drop(chain);
        neap_collect();
    }
}

static void *in_thread(void *argument)
{
    for (int i = 0; i < 10; i++)
        make_pairs(NEAP_ORDER_NONE, i % 2);
    clear_stack();
    return argument;
}

/* Whether an object has one, which one that is ready does not count as. */
static APART void asked(void)
{
    struct node *node = neap_alloc(sizeof *node);
    CHECK(!neap_finalizer_is_set(node) && !neap_finalizer_is_set(NULL));
    CHECK_EQUAL(neap_finalizer_set(node, note, datum, NEAP_ORDER_NONE), NEAP_OK);
    CHECK(neap_finalizer_is_set(node) && !neap_finalizer_is_set((char *)node + 8));
    CHECK_EQUAL(neap_finalizer_set(node, NULL, NULL, NEAP_ORDER_NONE), NEAP_OK);
    CHECK(!neap_finalizer_is_set(node));
}

static void look(void *object, void *data)
{
    (void)data;
    CHECK(!neap_finalizer_is_set(object));
    ran++;
}

int main(void)
{
    datum = neap_alloc_leaf(32);
    strcpy(datum, "data of finalizers");
    orders();

    /* The data are kept by the finalizer alone, hidden here. */
    one(resurrect, resurrect);
    for (int i = 0; i < 20 && resurrected == NULL; i++) {
        churn(64, 100);
        collect();
    }
    CHECK(resurrected != NULL && resurrected->number == 77);
    collect();
    CHECK_EQUAL(ran, 0);
    resurrected = NULL;
    for (int i = 0; i < 20 && ran == 0; i++)
        collect();
    CHECK_EQUAL(ran, 1);
    ran = 0;

    for (int i = 0; i < MANY; i++)
        one(note, NULL);
    collect();
    CHECK_EQUAL(ran, 0);
    /* Freed by hand: not finalized. */
    for (int i = 0; i < MANY; i++) {
        void *object = neap_alloc(24);
        neap_finalizer_set(object, note, datum, NEAP_ORDER_NONE);
        CHECK_EQUAL(neap_free(object), NEAP_OK);
    }
    churn(24, 10000);
    collect();
    CHECK_EQUAL(ran, 0);
    /* A finalizer goes where realloc moves its object. */
    static void *grown[MANY];
    for (int i = 0; i < MANY; i++) {
        grown[i] = neap_alloc(24);
        neap_finalizer_set(grown[i], note, datum, NEAP_ORDER_NONE);
        grown[i] = neap_realloc(grown[i], 5000);
    }
    collect();
    CHECK_EQUAL(ran, 0);
    memset(grown, 0, sizeof grown);
    collect();
    RAN_NEARLY(MANY);

    /* On demand. */
    neap_finalizers_set_automatic(0);
    by_hand = 1;
    make_pairs(NEAP_ORDER_NONE, 0);
    collect();
    CHECK_EQUAL(ran, 0);
    CHECK(neap_finalizers_ready() >= 2 * (MANY - STRAY));
    size_t ready = neap_finalizers_ready();
    CHECK_EQUAL(neap_finalizers_run(), ready);
    CHECK_EQUAL(neap_finalizers_ready(), 0);
    CHECK_EQUAL(neap_finalizers_run(), 0);
    RAN_NEARLY(2 * MANY);
    asked();
    for (int i = 0; i < MANY; i++)
        drop(look);
    collect();
    neap_finalizers_run();
    RAN_NEARLY(MANY);

    /* What becomes ready meanwhile is left. */
    for (int i = 0; i < MANY; i++)
        drop(chain);
    neap_collect();
    neap_finalizers_run();
    CHECK(links >= MANY - STRAY && links <= MANY);
    links = CHAIN;
    neap_finalizers_run();

    pthread_t threads[3];
    neap_finalizers_set_automatic(1);
    by_hand = 0;
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, in_thread, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    collect();
    CHECK(ran >= 3 * 10 * 2 * MANY - 20 * STRAY && ran <= 3 * 10 * 2 * MANY + 4 * STRAY);
    ran = 0;

    /* Every one, dead or not. */
    struct node *live[MANY];
    collect();
    ran = 0;
    for (int i = 0; i < MANY; i++) {
        live[i] = neap_alloc(sizeof **live);
        neap_finalizer_set(live[i], note, datum, NEAP_ORDER_TOPOLOGICAL);
    }
    neap_finalizers_run_all();
    CHECK(ran >= MANY && live[MANY / 2]->number == 0);
    CHECK_EQUAL(wrong_data, 0);
    return finish();
}
