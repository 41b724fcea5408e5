/* GC_finalize_all while another thread allocates and a collection is under way: each finalizer
   finds its object as it was, and what that leads to, though all of it is dead. */
#include "../leaves.h"
#include "check.h"
#include <gc/javaxfc.h>
#include <pthread.h>
#include <time.h>

enum { LIVE = 2000000, OBJECTS = 300000 };

static atomic_int is_over;

static APART void make(void)
{
    for (int at = 0; at < OBJECTS; at++) {
        struct object *object = GC_MALLOC(sizeof *object);
        fill(object, GC_malloc);
        GC_REGISTER_FINALIZER_NO_ORDER(object, look, NULL, NULL, NULL);
    }
}

static void *allocates(void *argument)
{
    unsigned seed = 1;
    while (!is_over)
        *(long *)GC_MALLOC(64 + rand_r(&seed) % 200) = 1;
    return argument;
}

int main(void)
{
    static void **live;
    pthread_t thread;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    GC_disable();
    for (int at = 0; at < LIVE; at++) {
        void **cell = GC_MALLOC(64);
        cell[0] = live;
        live = cell;
    }
    make();
    clear_stack();
    GC_enable();
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    GC_finalize_all();
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(!on_neap() || ran == OBJECTS);
    CHECK(changed == 0);
    CHECK(live != NULL);
    return finish();
}
