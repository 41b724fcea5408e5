/* All finalizers made ready in the moment after a cycle has decided what is dead: each finds its
   object as it was, and what that leads to. */
#include "check.h"

#include "../leaves.h"

#include <pthread.h>
#include <time.h>

enum { LIVE = 1000000, OBJECTS = 20000, ROUNDS = 30 };

static atomic_int is_over, is_decided, was_marked;
static void **live;

static APART void make(int objects)
{
    for (int at = 0; at < objects; at++) {
        struct object *object = neap_alloc(sizeof *object);
        fill(object, neap_alloc);
        neap_finalizer_set(object, look, NULL, NEAP_ORDER_NONE);
    }
}

static void heard(int event, void *environment)
{
    (void)environment;
    if (event == NEAP_EVENT_MARK_END)
        was_marked = 1;
    else if (event == NEAP_EVENT_RESUMED && atomic_exchange(&was_marked, 0)) {
        is_decided = 1;
        nanosleep(&(struct timespec){0, 3000000}, NULL);
    }
}

static void *allocates(void *argument)
{
    unsigned seed = 1;
    while (!is_over)
        memset(neap_alloc(64 + rand_r(&seed) % 200), 0xaa, 64);
    return argument;
}

int main(void)
{
    pthread_t thread;
    neap_init();
    neap_finalizers_set_automatic(0);
    CHECK(neap_roots_add(&live, &live + 1) == NEAP_OK);
    for (int at = 0; at < LIVE; at++) {
        void **cell = neap_alloc(64);
        cell[0] = live;
        live = cell;
    }
    neap_set_event_callback(heard, NULL);
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        make(OBJECTS);
        clear_stack();
        is_decided = 0;
        for (int wait = 0; wait < 20000 && !is_decided; wait++)
            nanosleep(&(struct timespec){0, 1000}, NULL);
        neap_finalizers_run_all();
    }
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(ran >= OBJECTS * ROUNDS);
    CHECK(changed == 0);
    return finish();
}
