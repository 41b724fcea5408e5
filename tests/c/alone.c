/* Collects, with 100 MB live, while another thread sleeps for so many microseconds at a time, or
   with 0 there is none: NEAP_LOG=cycles says whether the caller marked alone.
   Usage: alone MICROSECONDS */
#include "check.h"
#include <stdatomic.h>
#include <time.h>

struct node {
    struct node *next;
    char rest[56];
};

static atomic_int ready, over;
static atomic_int told[8];

static void hear(int event, void *environment)
{
    (void)environment;
    atomic_fetch_add(&told[event], 1);
}

static void *sleeper(void *microseconds)
{
    long ns = *(long *)microseconds * 1000;
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    atomic_store(&ready, 1);
    while (!atomic_load(&over)) {
        nanosleep(&time, NULL);
        CHECK(neap_alloc(64) != NULL);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    struct node *volatile list = NULL;
    CHECK(count == 2);
    static long microseconds;
    microseconds = atol(arguments[1]);
    neap_disable();
    for (long bytes = 100 << 20; bytes > 0; bytes -= sizeof(struct node)) {
        struct node *node = neap_alloc(sizeof *node);
        CHECK(node != NULL);
        node->next = list;
        node->rest[0] = 7;
        list = node;
    }
    pthread_t thread;
    if (microseconds > 0) {
        CHECK(pthread_create(&thread, NULL, sleeper, &microseconds) == 0);
        while (!atomic_load(&ready))
            sched_yield();
        usleep(10000);
    }
    neap_enable();
    CHECK_EQUAL(neap_set_event_callback(hear, NULL), NEAP_OK);
    for (int times = 1; times <= 5; times++) {
        CHECK(neap_collect());
        CHECK_EQUAL(told[NEAP_EVENT_CYCLE_START], times);
        CHECK_EQUAL(told[NEAP_EVENT_MARK_END], times);
        CHECK_EQUAL(told[NEAP_EVENT_CYCLE_END], times);
    }
    long nodes = 0;
    for (struct node *node = list; node != NULL; node = node->next)
        nodes += node->rest[0] == 7;
    CHECK(nodes == (100 << 20) / (long)sizeof(struct node));
    atomic_store(&over, 1);
    if (microseconds > 0)
        CHECK(pthread_join(thread, NULL) == 0);
    return finish();
}
