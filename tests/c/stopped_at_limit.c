/* Threads that allocate at the heap's limit, one that stops the world and one that holds
   collections off and allocates, in a program that takes part in cycles: everybody goes on. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 3, ENTRIES = 20000, SECONDS = 4 };

static atomic_ulong allocated, stops, holds;
static atomic_int is_over;

static void heard(int event, void *environment)
{
    (void)event, (void)environment;
}

/* Replaces some entries of a table all the time. */
static void *allocates(void *argument)
{
    void **table = neap_alloc_uncollectable(ENTRIES * sizeof *table);
    unsigned long state = (unsigned long)(uintptr_t)argument * 77 + 1;
    while (!is_over) {
        state = state * 6364136223846793005UL + 1;
        void *object = neap_alloc(480 + (state >> 60) * 16);
        if (object != NULL)
            table[(state >> 33) % ENTRIES] = object;
        allocated++;
    }
    return NULL;
}

static void *nothing(void *argument)
{
    return argument;
}

static void *stops_world(void *argument)
{
    while (!is_over) {
        neap_with_stopped_world(nothing, NULL);
        stops++;
        nanosleep(&(struct timespec){0, 30000}, NULL);
    }
    return argument;
}

static void *holds_off(void *argument)
{
    void *volatile last;
    while (!is_over) {
        neap_hold_collections();
        for (int at = 0; at < 3; at++)
            last = neap_alloc(480);
        (void)last;
        neap_release_collections();
        holds++;
        nanosleep(&(struct timespec){0, 300000}, NULL);
    }
    return argument;
}

int main(void)
{
    CHECK(neap_set_event_callback(heard, NULL) == NEAP_OK);
    pthread_t threads[THREADS + 2];
    for (uintptr_t at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, allocates, (void *)at) == 0);
    CHECK(pthread_create(&threads[THREADS], NULL, stops_world, NULL) == 0);
    CHECK(pthread_create(&threads[THREADS + 1], NULL, holds_off, NULL) == 0);
    sleep(SECONDS);
    is_over = 1;
    for (int at = 0; at < THREADS + 2; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    CHECK(allocated > 0 && stops > 0 && holds > 0);
    return finish();
}
