/* Threads that allocate, and collections: built with a sanitizer, or run by a tool, by run.sh. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3, CYCLES = 10 };

struct node { struct node *next; long value; };

static int stop;
static pthread_barrier_t barrier;

static void *allocate(void *argument)
{
    struct node *kept = NULL;
    pthread_barrier_wait(&barrier);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int index = 0; index < 1000; index++) {
            struct node *node = neap_alloc(sizeof *node);
            node->value = index;
            node->next = index % 100 ? kept : NULL;
            kept = node;
        }
        for (volatile int index = 0; index < 10000; index++) {}
    }
    return argument;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int index = 0; index < THREADS; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, allocate, NULL), 0);
    pthread_barrier_wait(&barrier);
    for (int cycle = 0; cycle < CYCLES; cycle++)
        CHECK(neap_collect());
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int index = 0; index < THREADS; index++)
        CHECK_EQUAL(pthread_join(threads[index], NULL), 0);
    return finish();
}
