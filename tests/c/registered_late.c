/* What is registered while a cycle marks keeps what its data lead to: lists made before, of which
   only the stack knows until their heads become data of finalizers, one after the other. Under each
   watch; a cycle on a snapshot reads no roots again. */
#include "check.h"
#include <pthread.h>

enum { LISTS = 3000, LENGTH = 12, ROUNDS = 12 };

struct list {
    struct list *next;
    long number;
};

static APART struct list *make_list(long first)
{
    struct list *list = NULL;
    for (long i = 0; i < LENGTH; i++) {
        struct list *node = neap_alloc(sizeof *node);
        node->next = list;
        node->number = first + i;
        list = node;
    }
    return list;
}

static APART int is_whole(struct list *list)
{
    long first = list->number - (LENGTH - 1), number = list->number;
    for (; list != NULL && list->number == number && number >= first; list = list->next)
        number--;
    return list == NULL && number == first - 1;
}

static int broken, ran, stop;

static void finalize(void *object, void *data)
{
    (void)object;
    broken += !is_whole(data);
    ran++;
}

/* What it drops has cycles run beside the program. */
static void *dropping(void *argument)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        churn(100, 1000);
    return argument;
}

/* The lists are on the stack alone, and no more there once they are data. */
static APART void register_slowly(void)
{
    struct list *volatile lists[LISTS];
    for (int i = 0; i < LISTS; i++)
        lists[i] = make_list(i * 100L);
    for (int i = 0; i < LISTS; i++) {
        struct list *data = lists[i];
        lists[i] = NULL;
        CHECK_EQUAL(neap_finalizer_set(neap_alloc(32), finalize, data, NEAP_ORDER_NONE), NEAP_OK);
        if (i % 8 == 0)
            usleep(20);
    }
}

int main(void)
{
    pthread_t threads[2];
    neap_finalizers_set_automatic(0);
    neap_option_set("min_trigger", "256K");
    neap_option_set("max_pause", "0");
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, dropping, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        register_slowly();
        clear_stack();
        neap_finalizers_run();
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    collect();
    CHECK_EQUAL(broken, 0);
    CHECK(ran > ROUNDS * LISTS / 2);
    return finish();
}
