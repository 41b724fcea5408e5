/* Threads that allocate, and collections: built with a sanitizer, or run by a tool, by run.sh. */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 3, CYCLES = 10 };

struct node { struct node *next; long value; };

static int stop;
static pthread_barrier_t barrier;

/* The same pointer, of which valgrind thinks that it depends on memory that nobody wrote: as what
 * an earlier call left on a stack. What is marked by it becomes such memory to valgrind too. */
static struct node *unwritten(struct node *node)
{
    volatile uintptr_t *volatile word = malloc(sizeof *word);
    uintptr_t first = *word, second = *word;
    free((void *)word);
    return (struct node *)((uintptr_t)node + first - second);
}

static void *allocate(void *argument)
{
    struct node *kept = NULL;
    pthread_barrier_wait(&barrier);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int index = 0; index < 1000; index++) {
            struct node *node = neap_alloc(sizeof *node);
            node->value = index;
            node->next = index % 100 ? kept : NULL;
            if (index % 100 == 50)
                node->next = unwritten(kept);
            kept = node;
        }
        struct node *large = neap_alloc(100000);
        large->next = unwritten(kept);
        kept = large;
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
