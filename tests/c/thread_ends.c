/* The end of a thread: what its values of pthread_setspecific refer to is there until their
   destructors have run, in each of their rounds, and a destructor may allocate in any of them, also
   of the first thread, which is there for the kernel as long as others are. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

enum { KEYS = 20, ROUNDS = 4, LATE = 40 };

static pthread_key_t waits, holds;
static sem_t ending, collected;

/* Has the first thread collect, round after round, before `holds` has its turn. */
static void wait_for_collections(void *value)
{
    sem_post(&ending);
    while (sem_wait(&collected) != 0)
        ;
    if ((uintptr_t)value < ROUNDS)
        pthread_setspecific(waits, (char *)value + 1);
}

static int rounds_held;

/* Passes its object on to the next round, by this value alone. */
static void hold(void *value)
{
    rounds_held += neap_base(value) == value;
    pthread_setspecific(holds, value);
}

static void *holding_thread(void *argument)
{
    void *object = neap_alloc(4000);
    watch(0, object);
    CHECK_EQUAL(pthread_setspecific(holds, object), 0);
    CHECK_EQUAL(pthread_setspecific(waits, (void *)1), 0);
    clear_stack();
    return argument;
}

static APART void values_are_roots(void)
{
    pthread_t thread;
    sem_init(&ending, 0, 0);
    sem_init(&collected, 0, 0);
    CHECK_EQUAL(pthread_key_create(&waits, wait_for_collections), 0);
    CHECK_EQUAL(pthread_key_create(&holds, hold), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, holding_thread, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        while (sem_wait(&ending) != 0)
            ;
        collect();
        CHECK(watched[0] != NULL);
        sem_post(&collected);
    }
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(rounds_held, ROUNDS);
    pthread_key_delete(waits);
    pthread_key_delete(holds);
}

static pthread_key_t keys[LATE];

struct list {
    struct list *next;
    long number;
};

static APART struct list *make_list(long length)
{
    struct list *list = NULL;
    for (long i = 0; i < length; i++) {
        struct list *node = neap_alloc(sizeof *node);
        node->next = list;
        node->number = i;
        list = node;
    }
    return list;
}

static APART int is_whole(struct list *list, long length)
{
    for (; length > 0 && list != NULL && list->number == length - 1; list = list->next)
        length--;
    return length == 0 && list == NULL;
}

static int broken;

/* Makes another list for the next round, as often as there is one. */
static void allocate(void *value)
{
    if (!is_whole(value, 30))
        __atomic_store_n(&broken, 1, __ATOMIC_RELAXED);
    churn(100, 100);
    if (!is_whole(value, 30))
        __atomic_store_n(&broken, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < KEYS; i++)
        if (pthread_getspecific(keys[i]) == NULL) {
            pthread_setspecific(keys[i], make_list(30));
            break;
        }
}

/* The keys after the first 32: their values are no objects. */
static void allocate_late(void *value)
{
    struct list *list = make_list(30);
    churn(100, 100);
    if (!is_whole(list, 30))
        __atomic_store_n(&broken, 1, __ATOMIC_RELAXED);
    pthread_setspecific(keys[LATE - 1], value);
}

static void *allocating_thread(void *argument)
{
    for (int i = 0; i < KEYS; i++)
        pthread_setspecific(keys[i], make_list(30));
    pthread_setspecific(keys[LATE - 1], keys);
    churn(100, 1000);
    return argument;
}

static APART void destructors_allocate(void)
{
    for (int i = 0; i < LATE; i++)
        CHECK_EQUAL(pthread_key_create(&keys[i], i < KEYS ? allocate : allocate_late), 0);
    for (int turn = 0; turn < 30; turn++) {
        pthread_t threads[6];
        for (int i = 0; i < 6; i++)
            CHECK_EQUAL(pthread_create(&threads[i], NULL, allocating_thread, NULL), 0);
        churn(100, 3000);
        for (int i = 0; i < 6; i++)
            CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        if (turn % 10 == 0)
            collect();
    }
    CHECK(!broken);
}

static void *collects_without_first(void *unused)
{
    alarm(30);
    for (int turn = 0; turn < 30; turn++) {
        usleep(10000);
        collect();
    }
    CHECK(!broken);
    _exit(finish());
    return unused;
}

/* In the last round its last destructor is called after it was taken for one that has ended. */
static APART void first_thread_ends(void)
{
    pthread_t thread;
    pthread_setspecific(keys[LATE - 1], keys);
    CHECK_EQUAL(pthread_create(&thread, NULL, collects_without_first, NULL), 0);
    pthread_exit(NULL);
}

int main(void)
{
    values_are_roots();
    neap_option_set("min_trigger", "64K");
    neap_option_set("max_pause", "0");
    destructors_allocate();
    pid_t child = fork();
    if (child == 0)
        first_thread_ends();
    CHECK(succeeded(child));
    return finish();
}
