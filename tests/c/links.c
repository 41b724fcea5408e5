/* Links: null when their object dies, short ones before finalizers and long ones after; reading,
   moving, unregistering; in static data and in objects. */
#include "check.h"
#include <pthread.h>

static void *links[2][MANY], *moved[MANY];
static void *kept[MANY];
static int found_short, found_long, ran;

/* On the library's threads and on this one at the same time. */
static void look(void *object, void *data)
{
    int number = *(int *)object;
    (void)data;
    __atomic_add_fetch(&found_short, neap_link_read(&links[0][number]) != NULL, __ATOMIC_RELAXED);
    __atomic_add_fetch(&found_long, neap_link_read(&links[1][number]) == object, __ATOMIC_RELAXED);
    __atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
}

static APART void make(int with_finalizers)
{
    for (int i = 0; i < MANY; i++) {
        int *object = neap_alloc_leaf_zeroed(40);
        *object = i;
        for (int length = NEAP_LINK_SHORT; length <= NEAP_LINK_LONG; length++) {
            links[length][i] = neap_hide(object);
            CHECK_EQUAL(neap_link_register(&links[length][i], object, length), NEAP_OK);
            CHECK(neap_link_read(&links[length][i]) == object);
        }
        if (with_finalizers)
            CHECK_EQUAL(neap_finalizer_set(object, look, NULL, NEAP_ORDER_NONE), NEAP_OK);
        else
            kept[i] = object;
    }
}

static APART int count(void **words)
{
    int set = 0;
    for (int i = 0; i < MANY; i++)
        set += words[i] != NULL;
    return set;
}

static void *reads(void *argument)
{
    for (int turn = 0; turn < 20000; turn++) {
        int *object = neap_link_read(&links[0][turn % MANY]);
        if (object != NULL && *object != turn % MANY)
            CHECK(!"the object is what the link was made for");
    }
    clear_stack();
    return argument;
}

int main(void)
{
    make(0);
    collect();
    CHECK_EQUAL(count(links[0]), MANY);
    CHECK_EQUAL(count(links[1]), MANY);
    for (int i = 0; i < MANY; i++) {
        moved[i] = links[0][i];
        CHECK_EQUAL(neap_link_move(&links[0][i], &moved[i], NEAP_LINK_SHORT), NEAP_OK);
        CHECK_EQUAL(neap_link_move(&links[0][i], &moved[i], NEAP_LINK_SHORT), NEAP_NOT_FOUND);
        if (i > 0)
            CHECK_EQUAL(neap_link_move(&moved[i - 1], &moved[i], NEAP_LINK_SHORT), NEAP_OCCUPIED);
        CHECK_EQUAL(neap_link_unregister(&links[0][i], NEAP_LINK_SHORT), NEAP_NOT_FOUND);
        CHECK_EQUAL(neap_link_unregister(&links[1][i], NEAP_LINK_LONG), NEAP_OK);
    }
    memset(kept, 0, sizeof kept);
    collect();
    CHECK(count(moved) <= STRAY);
    CHECK_EQUAL(count(links[0]), MANY);
    CHECK_EQUAL(count(links[1]), MANY);

    neap_finalizers_set_automatic(0);
    by_hand = 1;
    make(1);
    clear_stack();
    CHECK(neap_collect());
    CHECK(count(links[0]) <= STRAY);
    CHECK_EQUAL(count(links[1]), MANY);
    neap_finalizers_run();
    CHECK(ran >= MANY - STRAY);
    CHECK_EQUAL(found_short, 0);
    CHECK_EQUAL(found_long, ran);
    collect();
    CHECK(count(links[1]) <= STRAY);

    /* A link in an object goes with it: its word is not written when somebody else has it. */
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 1000; i++) {
            void **holder = neap_alloc(16), *object = neap_alloc(16);
            *holder = neap_hide(object);
            CHECK_EQUAL(neap_link_register(holder, object, i % 2), NEAP_OK);
        }
        neap_collect();
        uintptr_t **full = neap_alloc(1000 * sizeof *full);
        for (int i = 0; i < 1000; i++) {
            full[i] = neap_alloc(16);
            full[i][0] = full[i][1] = 0x1234567;
        }
        neap_collect();
        for (int i = 0; i < 1000; i++)
            CHECK(full[i][0] == 0x1234567 && full[i][1] == 0x1234567);
    }

    /* Also where the program ends the object. */
    for (int i = 0; i < 1000; i++) {
        void **holder = neap_alloc(32), **object = neap_alloc(16);
        holder[1] = neap_hide(object);
        CHECK_EQUAL(neap_link_register(&holder[1], object, i % 2), NEAP_OK);
        if (i % 4 < 2)
            CHECK_EQUAL(neap_free(holder), NEAP_OK);
        else
            CHECK(neap_realloc(holder, 0) == NULL);
        CHECK_EQUAL(neap_link_unregister(&holder[1], i % 2), NEAP_NOT_FOUND);
        CHECK_EQUAL(neap_link_register(&links[0][0], object, NEAP_LINK_SHORT), NEAP_OK);
    }
    CHECK_EQUAL(neap_link_unregister(&links[0][0], NEAP_LINK_SHORT), NEAP_OK);

    pthread_t thread;
    make(0);
    CHECK_EQUAL(pthread_create(&thread, NULL, reads, NULL), 0);
    for (int i = 0; i < MANY; i++) {
        kept[i] = NULL;
        neap_collect();
        churn(40, 200);
    }
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    collect();
    CHECK(count(links[0]) <= STRAY);
    return finish();
}
