/* Blocked regions: a collection neither waits for a thread in one nor signals it; what its stack
   holds stays alive; leaving waits for the collection's end. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

static sem_t inside, leave;
static int interruptions;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Counts waits that a signal broke off. */
static void *waits(void *argument)
{
    sem_post(&inside);
    while (sem_wait(&leave) != 0)
        interruptions++;
    return argument;
}

/* With the stop signal blocked by the kernel's own call, which this library does not see: a stop
   that needs this thread would wait for ever. */
static void *with_all_signals_blocked(void *argument)
{
    uint64_t all = ~0ull, before = 0;
    CHECK_EQUAL(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all), 0);
    waits(argument);
    CHECK_EQUAL(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof all), 0);
    return argument;
}

static void *calls_back(void *argument)
{
    void *object = neap_alloc(100);
    CHECK(object != NULL);
    CHECK(neap_collect());
    CHECK(neap_base(object) == object);
    return argument;
}

static void *blocks_and_calls_back(void *argument)
{
    CHECK(neap_unblocked(calls_back, argument) == argument);
    return argument;
}

static void *thread(void *argument)
{
    void *kept[MANY];
    for (int i = 0; i < MANY; i++) {
        kept[i] = neap_alloc(32);
        watch(i, kept[i]);
    }
    CHECK(neap_blocked(waits, argument) == argument);
    for (int i = 0; i < MANY; i++)
        CHECK(neap_base(kept[i]) == kept[i]);
    /* Nested, and ordinary again within. */
    CHECK(neap_blocked(with_all_signals_blocked, argument) == argument);
    CHECK(neap_blocked(blocks_and_calls_back, argument) == argument);
    CHECK(neap_unblocked(calls_back, argument) == argument);
    return argument;
}

/* A thread that goes in and out all the time while others collect. */
static int stop;
static void *yields(void *argument)
{
    return argument;
}
static void *goes_in_and_out(void *argument)
{
    long turns = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        void *object = neap_alloc(40);
        *(long *)object = turns;
        neap_blocked(yields, NULL);
        if (*(long *)object != turns)
            CHECK(!"contents");
        if (turns++ == 0)
            sem_post(&inside);
    }
    CHECK(turns > 0);
    return argument;
}

int main(void)
{
    pthread_t threads[3];
    sem_init(&inside, 0, 0);
    sem_init(&leave, 0, 0);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, thread, &stop), 0);
    sem_wait(&inside);
    double start = seconds();
    for (int i = 0; i < 20; i++)
        collect();
    CHECK(seconds() - start < 10);
    churn(32, 10000);
    CHECK_ALL_ALIVE(0);
    sem_post(&leave);
    sem_wait(&inside);
    collect();
    sem_post(&leave);
    CHECK_EQUAL(pthread_join(threads[0], NULL), 0);
    CHECK_EQUAL(interruptions, 0);
    collect();
    CHECK_DEAD(0);

    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, goes_in_and_out, NULL), 0);
    for (int i = 0; i < 300; i++)
        CHECK(neap_collect());
    /* On few processors collecting may be over before each of them has had a turn. */
    for (int i = 0; i < 3; i++)
        sem_wait(&inside);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    return finish();
}
