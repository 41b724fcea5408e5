/* A crowd of threads that all allocate at once, on few processors: they wait for cycles together,
   and leave the collector a processor to end them. Usage: crowd [THREADS] */
#include "check.h"
#include <pthread.h>

enum { MOST = 3000, HELD = 20, DROPPED = 500 };

static pthread_barrier_t all_are_there;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int goes_on;

static void *lives(void *unused)
{
    unsigned char *held[HELD];
    for (int at = 0; at < HELD; at++)
        memset(held[at] = neap_alloc(16u << at % 8), at + 1, 16);
    pthread_barrier_wait(&all_are_there);
    pthread_mutex_lock(&mutex);
    while (!goes_on)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    for (int at = 0; at < HELD; at++)
        CHECK_EQUAL(held[at][15], at + 1);
    for (int at = 0; at < DROPPED; at++)
        memset(neap_alloc(200), 1, 200);
    return unused;
}

int main(int count, char **arguments)
{
    static pthread_t threads[MOST];
    int wanted = count > 1 ? atoi(arguments[1]) : 1500;
    pthread_attr_t small;
    /* It takes two seconds; before, not one of three runs ended in thirty. */
    alarm(100);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_barrier_init(&all_are_there, NULL, (unsigned)wanted + 1);
    for (int at = 0; at < wanted; at++)
        if (pthread_create(&threads[at], &small, lives, NULL) != 0) {
            printf("# SKIP the system has no %d threads\n", wanted);
            return 0;
        }
    pthread_barrier_wait(&all_are_there);
    pthread_mutex_lock(&mutex);
    goes_on = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int at = 0; at < wanted; at++)
        pthread_join(threads[at], NULL);
    return finish();
}
