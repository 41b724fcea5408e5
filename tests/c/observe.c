/* Statistics, for callers of other sizes too, and the steps of cycles in their order. */
#include "check.h"
#include <pthread.h>

#include <time.h>

enum { OWN_NS = 200000000 };

static int steps[64], count;

static void note(int event, void *environment)
{
    CHECK(environment == steps);
    if (count < 64)
        steps[count] = event;
    count++;
    /* With the world stopped too. */
    neap_statistics statistics;
    CHECK_EQUAL(neap_statistics_read(&statistics, sizeof statistics), sizeof statistics);
    CHECK(statistics.allocated_bytes >= 1000 * 1000 && statistics.committed_bytes > 0);
    if (event == NEAP_EVENT_CYCLE_END)
        CHECK(neap_alloc(100) != NULL);
}

/* What the program does when a cycle is over is no time in the collector. */
static void take_time(int event, void *environment)
{
    (void)environment;
    if (event != NEAP_EVENT_CYCLE_END)
        return;
    nanosleep(&(struct timespec){.tv_nsec = OWN_NS}, NULL);
    for (int i = 0; i < 1000; i++)
        CHECK(neap_alloc(1000) != NULL);
}

static APART void allocate_some(void)
{
    for (int i = 0; i < 1000; i++)
        CHECK(neap_alloc_leaf(1000) != NULL);
}

enum { LAYOUTS = 200 };
static neap_layout layouts[LAYOUTS];

static void *allocates_typed(void *argument)
{
    for (int i = 0; i < LAYOUTS; i++)
        CHECK(neap_alloc_typed(layouts[i], 16) != NULL);
    return argument;
}

/* Threads with buffers for typed objects come and go while others add up what all allocated. */
static void *adds_up(void *argument)
{
    neap_statistics statistics = {.cycles = 0};
    while (!__atomic_load_n((int *)argument, __ATOMIC_RELAXED)) {
        neap_statistics_read(&statistics, sizeof statistics);
        CHECK(statistics.allocated_bytes > 0);
    }
    return NULL;
}

static void figures_beside_ending_threads(void)
{
    int done = 0;
    pthread_t reader, threads[4];
    for (unsigned i = 0; i < LAYOUTS; i++)
        layouts[i] = neap_layout_labelled(neap_layout_leaf(), i + 1);
    CHECK_EQUAL(pthread_create(&reader, NULL, adds_up, &done), 0);
    for (int turn = 0; turn < 1000; turn++) {
        for (int i = 0; i < 4; i++)
            CHECK_EQUAL(pthread_create(&threads[i], NULL, allocates_typed, NULL), 0);
        for (int i = 0; i < 4; i++)
            CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(reader, NULL), 0);
}

/* Runs all the time: a collection that nobody else runs beside stops nobody, and is no stop. */
static int running, over;

static void *run(void *unused)
{
    __atomic_store_n(&running, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        sched_yield();
    return unused;
}

int main(void)
{
    neap_statistics before, after;
    unsigned char room[sizeof before + 64];
    neap_set_automatic(0);
    CHECK_EQUAL(neap_statistics_read(&before, sizeof before), sizeof before);
    allocate_some();
    CHECK_EQUAL(neap_free(neap_alloc(50000)), NEAP_OK);
    neap_statistics_read(&after, sizeof after);
    CHECK(after.allocated_objects >= before.allocated_objects + 1001 &&
        after.allocated_objects < before.allocated_objects + 1500);
    CHECK(after.allocated_bytes >= before.allocated_bytes + 1000 * 1000 + 50000);
    CHECK(after.freed_since_cycle >= 50000);
    CHECK(after.committed_bytes >= after.live_bytes && after.committed_bytes >= after.free_bytes);
    CHECK(after.metadata_bytes > 0 && after.peak_bytes >= 1000 * 1000);
    void *kept[100];
    for (int i = 0; i < 100; i++)
        kept[i] = neap_alloc(10000);
    pthread_t other;
    CHECK_EQUAL(pthread_create(&other, NULL, run, NULL), 0);
    while (!__atomic_load_n(&running, __ATOMIC_RELAXED))
        sched_yield();
    collect();
    before = after;
    neap_statistics_read(&after, sizeof after);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(other, NULL), 0);
    CHECK_EQUAL(after.cycles, before.cycles + 3);
    CHECK(after.pause_count >= before.pause_count + 3);
    CHECK(after.pause_max_ns >= after.pause_p99_ns && after.pause_p99_ns >= after.pause_p50_ns &&
        after.pause_p50_ns > 0);
    CHECK(after.pause_total_ns >= after.pause_max_ns);
    CHECK(after.live_bytes >= 100 * 10000 && after.live_bytes < 20 * 100 * 10000);
    CHECK(after.freed_since_cycle == 0);
    CHECK(neap_base(kept[99]) == kept[99]);

    /* A smaller struct of an older program, and a larger one of a newer. */
    memset(room, 0xee, sizeof room);
    CHECK_EQUAL(neap_statistics_read((neap_statistics *)room, 12), sizeof before);
    CHECK(room[11] != 0xee && room[12] == 0xee);
    CHECK_EQUAL(neap_statistics_read((neap_statistics *)room, sizeof room - 8), sizeof before);
    CHECK(room[sizeof before] == 0 && room[sizeof room - 9] == 0 && room[sizeof room - 8] == 0xee);
    CHECK_EQUAL(neap_statistics_read(NULL, 0), sizeof before);

    CHECK_EQUAL(neap_set_event_callback(note, steps), NEAP_OK);
    for (int turn = 0; turn < 2; turn++)
        CHECK(neap_collect());
    neap_statistics_read(&before, sizeof before);
    CHECK_EQUAL(neap_set_event_callback(take_time, NULL), NEAP_OK);
    CHECK(neap_collect());
    neap_statistics_read(&after, sizeof after);
    CHECK(after.assist_total_ns - before.assist_total_ns < OWN_NS);
    CHECK_EQUAL(neap_set_event_callback(NULL, NULL), NEAP_OK);
    CHECK(neap_collect());
    CHECK_EQUAL(count, 16);
    for (int i = 0; i < 16; i++)
        CHECK_EQUAL(steps[i], i % 8);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", NEAP_VERSION_MAJOR, NEAP_VERSION_MINOR,
        NEAP_VERSION_PATCH);
    CHECK(strcmp(neap_version(), version) == 0);
    neap_set_automatic(1);
    figures_beside_ending_threads();
    return finish();
}
