/* One thread holds collections off and waits for another one that allocates a hundred times what
   starts a cycle: that one goes on without, and the heap is as it should be afterwards. So in a
   process that has had no cycle, in one that has, and in a child of `fork`. In the end each hold is
   short, and the heap has a bound. */
#include "check.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { LIVE = 100000, NODE = 64 };

static void **list;
static long allocated_bytes;

static void *allocates(void *bytes)
{
    for (long left = (long)(intptr_t)bytes; left > 0; left -= NODE) {
        void **node = neap_alloc(NODE);
        CHECK(node != NULL);
        node[1] = node;
        __atomic_fetch_add(&allocated_bytes, NODE, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void allocates_beside(long bytes, int is_short)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, allocates, (void *)(intptr_t)bytes), 0);
    if (!is_short) {
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        return;
    }
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        neap_hold_collections();
        usleep(300);
        neap_release_collections();
        usleep(100);
    }
}

static void hold_once(void)
{
    neap_hold_collections();
    allocates_beside(100 << 20, 0);
    neap_release_collections();
}

int main(void)
{
    hold_once();
    for (int at = 0; at < LIVE; at++) {
        void **node = neap_alloc(NODE);
        *node = list;
        list = node;
    }
    /* A cycle under way at times, and at times none. */
    for (int turn = 0; turn < 6; turn++) {
        usleep(1000 * turn);
        if (turn % 2)
            allocates((void *)(intptr_t)(16 << 20));
        hold_once();
    }
    CHECK(neap_collect());
    pid_t child = fork();
    if (child == 0) {
        hold_once();
        _exit(finish());
    }
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    neap_statistics statistics = {0};
    neap_statistics_read(&statistics, sizeof statistics);
    uint64_t peak = statistics.committed_bytes;
    for (int turn = 0; turn < 4; turn++)
        allocates_beside(100 << 20, 1);
    neap_statistics_read(&statistics, sizeof statistics);
    CHECK(statistics.committed_bytes <= peak + (64 << 20));
    int live = 0;
    for (void **node = list; node; node = *node)
        live += neap_base(node) == node;
    CHECK_EQUAL(live, LIVE);
    return finish();
}
