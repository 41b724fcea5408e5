/* A handler of the program's for a signal that comes to a thread while that stands, wherever it
   stands: it runs when the stop is over, since it may move what only the stop has to find. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { THREADS = 12, STOPS = 200 };

static pthread_t stopper;
static int stands, over;
static long handled, in_stops;

static void on_event(int event, void *environment)
{
    (void)environment;
    if (event == NEAP_EVENT_STOPPED) {
        stopper = pthread_self();
        __atomic_store_n(&stands, 1, __ATOMIC_SEQ_CST);
        struct timespec while_it_lasts = {.tv_nsec = 1000000};
        nanosleep(&while_it_lasts, NULL);
    }
    if (event == NEAP_EVENT_BEFORE_RESUME)
        __atomic_store_n(&stands, 0, __ATOMIC_SEQ_CST);
}

static void on_signal(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&stands, __ATOMIC_SEQ_CST) && !pthread_equal(pthread_self(), stopper))
        __atomic_add_fetch(&in_stops, 1, __ATOMIC_RELAXED);
}

/* It is a mutator while it has the signal open. */
static void *allocates(void *set)
{
    CHECK_EQUAL(pthread_sigmask(SIG_UNBLOCK, set, NULL), 0);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        CHECK(neap_alloc(2000) != NULL);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, set, NULL), 0);
    return NULL;
}

static void *collects(void *unused)
{
    for (int at = 0; at < STOPS; at++)
        CHECK(neap_collect());
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS], collecting;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK_EQUAL(neap_set_event_callback(on_event, NULL), NEAP_OK);
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    for (int at = 0; at < THREADS; at++)
        CHECK_EQUAL(pthread_create(&threads[at], NULL, allocates, &set), 0);
    CHECK_EQUAL(pthread_create(&collecting, NULL, collects, NULL), 0);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        usleep(200);
        for (int at = 0; at < THREADS; at++)
            pthread_kill(threads[at], SIGUSR1);
    }
    for (int at = 0; at < THREADS; at++)
        CHECK_EQUAL(pthread_join(threads[at], NULL), 0);
    CHECK_EQUAL(pthread_join(collecting, NULL), 0);
    CHECK(handled > 0);
    CHECK_EQUAL(in_stops, 0);
    return finish();
}
