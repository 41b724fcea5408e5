/* Collections: on request, disabled, held off, automatic or not, gated, with the world stopped;
   memory goes back to the system; the heap expands. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static uint64_t cycles(void)
{
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    return statistics.cycles;
}

/* Sleeps for 50 ms, whatever signals come: a stop interrupts a sleep. */
static void rest(void)
{
    struct timespec left = {0, 50000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

static void **volatile list;

/* A list of 64 MiB. */
static APART void make_list(void)
{
    for (int i = 0; i < 64 * 1024; i++) {
        void **node = neap_alloc(1024);
        memset(node + 1, 1, 1016);
        *node = (void *)list;
        list = node;
    }
}

/* Allocates enough for several automatic cycles, if they run. Where none is to run, neap_collect()
   comes first: it waits for one that was wanted before. */
static APART uint64_t cycles_of_churning(void)
{
    uint64_t before = cycles();
    churn(64, 1000000);
    return cycles() - before;
}

static int answer, asked;
static int gate(void *environment)
{
    CHECK(environment == &answer);
    __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
    return answer;
}

static long counter, stop, in_world;
static void *counts(void *argument)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
    return argument;
}

static void *marks[10];

static void visit(void *object, size_t bytes, int kind, void *environment)
{
    for (int i = 0; i < 10; i++)
        if (object == marks[i] && kind == NEAP_UNCOLLECTABLE && bytes >= 56)
            ++*(int *)environment;
}

static void *stands_still(void *argument)
{
    struct timespec moment = {0, 20000000};
    long before = __atomic_load_n(&counter, __ATOMIC_RELAXED);
    nanosleep(&moment, NULL);
    in_world = __atomic_load_n(&counter, __ATOMIC_RELAXED) - before;
    neap_for_each_object(visit, argument);
    return argument;
}

static void *waits_for_cycle(void *argument)
{
    CHECK(neap_collect());
    __atomic_store_n((int *)argument, 1, __ATOMIC_RELAXED);
    return argument;
}

static atomic_int allocates;

static void *allocates_when_told(void *unused)
{
    while (allocates >= 0) {
        for (int at = 0; at < allocates; at++)
            *(volatile long *)neap_alloc(64) = 1;
        allocates = 0;
        usleep(1000);
    }
    return unused;
}

static void *collects(void *full)
{
    neap_statistics before = {0}, after = {0};
    neap_statistics_read(&before, sizeof before);
    CHECK(neap_collect());
    neap_statistics_read(&after, sizeof after);
    *(uint64_t *)full = after.cycles - before.cycles - (after.minor_cycles - before.minor_cycles);
    return NULL;
}

/* A collection that is asked for just when a cycle is due, which would be a minor one. */
static void check_full_where_one_is_due(void)
{
    pthread_t allocating, collecting;
    void **list = NULL;
    for (int at = 0; at < 400000; at++) {
        void **node = neap_alloc(64);
        *node = list;
        list = node;
    }
    CHECK_EQUAL(pthread_create(&allocating, NULL, allocates_when_told, NULL), 0);
    for (int turn = 0; turn < 2; turn++) {
        uint64_t full = 0;
        CHECK(neap_collect());
        neap_hold_collections();
        CHECK_EQUAL(pthread_create(&collecting, NULL, collects, &full), 0);
        usleep(30000);
        allocates = 400000;
        /* It waits for the cycle if it is fast. */
        for (int waited = 0; allocates > 0 && waited < 100; waited++)
            usleep(500);
        neap_release_collections();
        while (allocates > 0)
            usleep(500);
        CHECK_EQUAL(pthread_join(collecting, NULL), 0);
        CHECK(full > 0);
    }
    allocates = -1;
    CHECK_EQUAL(pthread_join(allocating, NULL), 0);
    CHECK(neap_base(list) == list);
}

/* Many processes beside each other, each of which asks for one collection: it has one. */
static void check_one_is_one(void)
{
    enum { TURNS = 6, BESIDE = 40 };
    for (int turn = 0; turn < TURNS; turn++) {
        pid_t children[BESIDE];
        for (int i = 0; i < BESIDE; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                neap_init();
                _exit(!neap_collect() || cycles() != 1);
            }
        }
        for (int i = 0; i < BESIDE; i++)
            CHECK(succeeded(children[i]));
    }
}

int main(void)
{
    check_one_is_one();
    /* Shown where a check fails: a count of cycles says little. */
    setenv("NEAP_LOG", "cycles", 0);
    neap_init();
    uint64_t before = cycles();
    CHECK(neap_collect());
    CHECK_EQUAL(cycles(), before + 1);
    CHECK(!neap_collect_if_due());
    CHECK(cycles_of_churning() > 2);

    CHECK(neap_collect());
    neap_disable();
    neap_disable();
    neap_enable();
    CHECK(neap_is_disabled());
    CHECK(!neap_collect());
    CHECK_EQUAL(cycles_of_churning(), 0);
    neap_enable();
    CHECK(!neap_is_disabled());
    CHECK(neap_collect());

    neap_set_automatic(0);
    neap_finish_collection();
    CHECK_EQUAL(cycles_of_churning(), 0);
    /* What was allocated meanwhile is room until it goes back. */
    CHECK(neap_collect_and_release());
    neap_set_automatic(1);
    CHECK(cycles_of_churning() > 2);

    CHECK(neap_collect());
    CHECK_EQUAL(neap_set_cycle_gate(gate, &answer), NEAP_OK);
    CHECK_EQUAL(cycles_of_churning(), 0);
    CHECK(asked > 0);
    CHECK(neap_collect_and_release());
    answer = 1;
    CHECK(cycles_of_churning() > 2);
    CHECK_EQUAL(neap_set_cycle_gate(NULL, NULL), NEAP_OK);

    /* Held off by this thread, others wait; nested. */
    pthread_t thread;
    static int done;
    neap_hold_collections();
    neap_hold_collections();
    CHECK(!neap_collect());
    CHECK_EQUAL(pthread_create(&thread, NULL, waits_for_cycle, &done), 0);
    rest();
    neap_release_collections();
    CHECK_EQUAL(__atomic_load_n(&done, __ATOMIC_RELAXED), 0);
    CHECK(!neap_collect());
    neap_release_collections();
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(done, 1);
    CHECK(neap_collect());

    /* The world stands still. */
    int found = 0;
    for (int i = 0; i < 10; i++)
        marks[i] = neap_alloc_uncollectable(56);
    CHECK_EQUAL(pthread_create(&thread, NULL, counts, NULL), 0);
    while (__atomic_load_n(&counter, __ATOMIC_RELAXED) == 0)
        usleep(100);
    CHECK(neap_with_stopped_world(stands_still, &found) == &found);
    CHECK_EQUAL(in_world, 0);
    CHECK_EQUAL(found, 10);
    long now = counter;
    rest();
    CHECK(__atomic_load_n(&counter, __ATOMIC_RELAXED) > now);
    stop = 1;
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQUAL(neap_free(marks[i]), NEAP_OK);

    /* 64 MiB come and go. */
    CHECK(neap_collect_and_release());
    size_t small = resident_bytes();
    make_list();
    CHECK(resident_bytes() > small + (50 << 20));
    list = NULL;
    clear_stack();
    CHECK(neap_collect_and_release());
    neap_release_memory();
    if (resident_bytes() > small + (16 << 20))
        fprintf(stderr, "%zu KiB before, %zu after\n", small >> 10, resident_bytes() >> 10);
    CHECK(resident_bytes() < small + (16 << 20));

    CHECK(neap_expand(8 << 20));
    CHECK(!neap_expand((size_t)1 << 60));
    check_full_where_one_is_due();
    return finish();
}
