/* Cleaners and reference queues: run once after their object is gone, with an argument that is
   kept, any number for an object; they move with it, are taken back, and free its memory at
   once. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static int cleaned, wrong;

static void clean(void *argument)
{
    if (argument != NULL && strcmp(argument, "argument of cleaners") != 0)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&cleaned, 1, __ATOMIC_RELAXED);
}

static void clean_other(void *argument)
{
    (void)argument;
    __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

#define CLEANED_NEARLY(count)                                                                      \
    do {                                                                                           \
        int seen_ = __atomic_exchange_n(&cleaned, 0, __ATOMIC_RELAXED);                            \
        if (seen_ < (count) - 4 * STRAY || seen_ > (count))                                        \
            fprintf(stderr, "%d of %d cleaned\n", seen_, (int)(count));                            \
        CHECK(seen_ >= (count) - 4 * STRAY && seen_ <= (count));                                   \
    } while (0)

static APART char *argument(void)
{
    char *text = neap_alloc_leaf(24);
    strcpy(text, "argument of cleaners");
    return text;
}

static APART void make(int cleaners, size_t bytes)
{
    for (int i = 0; i < MANY; i++) {
        void *object = neap_alloc(bytes);
        for (int j = 0; j < cleaners; j++)
            CHECK_EQUAL(neap_cleaner_add(object, clean, argument()), NEAP_OK);
    }
}

static void *kept[MANY];

static APART void make_kept(int cleaners)
{
    for (int i = 0; i < MANY; i++) {
        kept[i] = neap_alloc(32);
        for (int j = 0; j < cleaners; j++)
            CHECK_EQUAL(neap_cleaner_add(kept[i], clean, argument()), NEAP_OK);
    }
}

static APART void taking_back(void)
{
    for (int i = 0; i < MANY; i++) {
        void *object = neap_alloc(48);
        CHECK_EQUAL(neap_cleaner_add(object, clean_other, object), NEAP_OK);
        CHECK_EQUAL(neap_cleaner_add(object, clean, NULL), NEAP_OK);
        CHECK_EQUAL(neap_cleaner_remove(object, clean_other, NULL), NEAP_NOT_FOUND);
        CHECK_EQUAL(neap_cleaner_remove(object, clean_other, object), NEAP_OK);
        CHECK_EQUAL(neap_cleaner_remove(object, clean_other, object), NEAP_NOT_FOUND);
    }
}

static void *saved[MANY];
static int saves;

static void save(void *object, void *data)
{
    (void)data;
    saved[__atomic_fetch_add(&saves, 1, __ATOMIC_RELAXED)] = object;
}

/* A cleaner waits until its object is gone for good. */
static APART void make_saved(void)
{
    for (int i = 0; i < MANY; i++) {
        void *object = neap_alloc(64);
        CHECK_EQUAL(neap_finalizer_set(object, save, NULL, NEAP_ORDER_NONE), NEAP_OK);
        CHECK_EQUAL(neap_cleaner_add(object, clean, argument()), NEAP_OK);
    }
}

static neap_queue *queue;

static APART void make_queued(void)
{
    for (int i = 0; i < MANY; i++) {
        long *value = neap_alloc_leaf(sizeof *value);
        *value = 1000 + i;
        CHECK_EQUAL(neap_queue_add(queue, neap_alloc(40), value), NEAP_OK);
    }
}

static APART int drain(void)
{
    static char seen[MANY];
    int count = 0;
    memset(seen, 0, sizeof seen);
    for (void *value; neap_queue_poll(queue, &value); count++) {
        long number = *(long *)value - 1000;
        CHECK(number >= 0 && number < MANY && !seen[number]);
        if (number >= 0 && number < MANY)
            seen[number] = 1;
    }
    return count;
}

static void *wait_for_one(void *unused)
{
    (void)unused;
    void *value = NULL;
    if (!neap_queue_wait(queue, &value, UINT64_MAX))
        return NULL;
    return value;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* How long it waited, in milliseconds, or -1 if a value came. */
static void *wait_for_none(void *waits)
{
    double before = seconds();
    atomic_store((atomic_int *)waits, 1);
    int came = neap_queue_wait(queue, NULL, 10000000000);
    return (void *)(intptr_t)(came ? -1 : (seconds() - before) * 1000);
}

static void queues(void)
{
    queue = neap_queue_open();
    CHECK(queue != NULL && !neap_queue_poll(queue, NULL));
    double before = seconds();
    CHECK(!neap_queue_wait(queue, NULL, 50000000));
    CHECK(seconds() - before >= 0.05 && seconds() - before < 30);

    /* Without anybody who runs finalizers. */
    neap_finalizers_set_automatic(0);
    make_queued();
    clear_stack();
    CHECK(neap_collect());
    churn(8, 100000);
    CHECK(neap_collect());
    int count = drain();
    CHECK(count >= MANY - 2 * STRAY && count <= MANY);
    neap_finalizers_set_automatic(1);

    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_one, NULL), 0);
    make_queued();
    collect();
    void *value;
    pthread_join(thread, &value);
    CHECK(value != NULL);
    drain();

    CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_one, NULL), 0);
    usleep(20000);
    make_queued();
    CHECK_EQUAL(neap_queue_close(queue), NEAP_OK);
    pthread_join(thread, &value);
    /* References to a queue that is closed go with their objects, and none comes out of the next
       one. */
    neap_queue *next = neap_queue_open();
    collect();
    CHECK(!neap_queue_poll(next, &value));
    CHECK_EQUAL(neap_queue_close(next), NEAP_OK);

    /* Who waits for one gets none, also where another is opened before it has looked. */
    for (int turn = 0; turn < 20; turn++) {
        queue = neap_queue_open();
        atomic_int waits = 0;
        CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_none, &waits), 0);
        while (!atomic_load(&waits))
            usleep(1000);
        usleep(20000);
        CHECK_EQUAL(neap_queue_close(queue), NEAP_OK);
        next = neap_queue_open();
        pthread_join(thread, &value);
        CHECK((intptr_t)value >= 0 && (intptr_t)value < 9000);
        CHECK_EQUAL(neap_queue_close(next), NEAP_OK);
    }
}

static void *register_much(void *unused)
{
    (void)unused;
    for (int i = 0; i < 200000; i++)
        neap_cleaner_add(neap_alloc(16 + i % 5 * 16), clean, NULL);
    clear_stack();
    return NULL;
}

int main(void)
{
    make(1, 24);
    collect();
    CLEANED_NEARLY(MANY);
    make(5, 3000);
    make(2, 100000);
    collect();
    CLEANED_NEARLY(7 * MANY);

    make_kept(3);
    collect();
    CHECK_EQUAL(cleaned, 0);
    for (int i = 0; i < MANY; i++) {
        /* Those of the second half are kept on the stack's other side of the move: there are too
           many. */
        for (int j = 0; i >= MANY / 2 && j < 20; j++)
            CHECK_EQUAL(neap_cleaner_add(kept[i], clean, argument()), NEAP_OK);
        kept[i] = neap_realloc(kept[i], 5000);
    }
    collect();
    CHECK_EQUAL(cleaned, 0);
    for (int i = 0; i < MANY; i += 2) {
        CHECK_EQUAL(neap_free(kept[i]), NEAP_OK);
        kept[i] = NULL;
    }
    churn(5000, 1000);
    collect();
    CHECK_EQUAL(cleaned, 0);
    memset(kept, 0, sizeof kept);
    collect();
    CLEANED_NEARLY(3 * MANY / 2 + 20 * MANY / 4);

    taking_back();
    collect();
    CLEANED_NEARLY(MANY);

    make_saved();
    collect();
    CHECK(saves >= MANY - STRAY);
    CHECK_EQUAL(cleaned, 0);
    memset(saved, 0, sizeof saved);
    collect();
    CLEANED_NEARLY(MANY);

    queues();
    __atomic_store_n(&cleaned, 0, __ATOMIC_RELAXED);

    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, register_much, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    collect();
    collect();
    int all = __atomic_load_n(&cleaned, __ATOMIC_RELAXED);
    CHECK(all >= 4 * 200000 - 1000 && all <= 4 * 200000);
    CHECK_EQUAL(wrong, 0);

    CHECK_EQUAL(neap_cleaner_add(&queue, clean, NULL), NEAP_NOT_IN_HEAP);
    CHECK_EQUAL(neap_cleaner_add(neap_alloc(8), NULL, NULL), NEAP_BAD_ARGUMENT);
    CHECK_EQUAL(neap_queue_close((neap_queue *)(void *)threads), NEAP_BAD_ARGUMENT);
    return finish();
}
