/* Monitors: one thread at a time, recursive, tried, with a time limit; waiting and notifying;
   objects that die with their monitors; forgotten exits; fork; wrong use. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static int told, told_status;

static void tell(int status, const char *text, void *environment)
{
    (void)environment;
    told++;
    told_status = status;
    CHECK(strlen(text) > 20);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

enum { MILLISECOND = 1000000, THREADS = 4 };

static void *shared;
static long counter;

static void *counts(void *argument)
{
    for (int turn = 0; turn < 20000; turn++) {
        CHECK_EQUAL(neap_monitor_enter(shared), NEAP_OK);
        if (turn % 3 == 0)
            CHECK_EQUAL(neap_monitor_enter(shared), NEAP_OK);
        counter++;
        if (turn % 3 == 0)
            CHECK_EQUAL(neap_monitor_exit(shared), NEAP_OK);
        CHECK_EQUAL(neap_monitor_exit(shared), NEAP_OK);
        if (turn % 5000 == 0)
            neap_collect();
        CHECK(neap_alloc(24) != NULL);
    }
    return argument;
}

static void run(void *(*function)(void *), int count)
{
    pthread_t threads[64];
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, function, NULL), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void exclusion(void)
{
    shared = neap_alloc(16);
    counter = 0;
    run(counts, THREADS);
    CHECK_EQUAL(counter, 20000L * THREADS);
}

static void recursion(void)
{
    void *object = neap_alloc(16);
    for (int turn = 0; turn < 1000; turn++)
        CHECK_EQUAL(neap_monitor_enter(object), NEAP_OK);
    for (int turn = 0; turn < 1000; turn++)
        CHECK_EQUAL(neap_monitor_exit(object), NEAP_OK);
    told = 0;
    CHECK_EQUAL(neap_monitor_exit(object), NEAP_NOT_OWNER);
    CHECK_EQUAL(told, 1);
}

static void *tries(void *argument)
{
    CHECK_EQUAL(neap_monitor_try_enter(shared), NEAP_TIMED_OUT);
    double began = now();
    CHECK_EQUAL(neap_monitor_enter_timed(shared, 20 * MILLISECOND), NEAP_TIMED_OUT);
    CHECK(now() - began >= 0.02);
    told = 0;
    CHECK_EQUAL(neap_monitor_exit(shared), NEAP_NOT_OWNER);
    CHECK_EQUAL(neap_monitor_wait(shared), NEAP_NOT_OWNER);
    CHECK_EQUAL(neap_monitor_notify(shared, 1), NEAP_NOT_OWNER);
    CHECK_EQUAL(told, 3);
    return argument;
}

static void trying(void)
{
    shared = neap_alloc(16);
    CHECK_EQUAL(neap_monitor_try_enter(shared), NEAP_OK);
    run(tries, 1);
    CHECK_EQUAL(neap_monitor_exit(shared), NEAP_OK);
    CHECK_EQUAL(neap_monitor_try_enter(shared), NEAP_OK);
    double began = now();
    CHECK_EQUAL(neap_monitor_wait_timed(shared, 10 * MILLISECOND), NEAP_TIMED_OUT);
    CHECK(now() - began >= 0.01);
    CHECK_EQUAL(neap_monitor_exit(shared), NEAP_OK);
}

/* A queue of length one between two sides. */
static struct box { long value, taken; } *box;
static long sum;

static void *produces(void *argument)
{
    for (long i = 1; i <= 2000; i++) {
        neap_monitor_enter(box);
        while (box->value != 0)
            CHECK_EQUAL(neap_monitor_wait(box), NEAP_OK);
        box->value = i;
        CHECK_EQUAL(neap_monitor_notify(box, 1), NEAP_OK);
        neap_monitor_exit(box);
    }
    return argument;
}

static void *consumes(void *argument)
{
    for (int i = 0; i < 2000; i++) {
        neap_monitor_enter(box);
        neap_monitor_enter(box);
        while (box->value == 0)
            CHECK_EQUAL(neap_monitor_wait(box), NEAP_OK);
        sum += box->value;
        box->value = 0;
        CHECK_EQUAL(neap_monitor_notify(box, 1), NEAP_OK);
        neap_monitor_exit(box);
        neap_monitor_exit(box);
        if (i % 500 == 0)
            neap_collect();
    }
    return argument;
}

static void *one_side(void *argument)
{
    static int next;
    return __atomic_fetch_add(&next, 1, __ATOMIC_SEQ_CST) % 2 ? produces(argument)
        : consumes(argument);
}

static void waiting(void)
{
    box = neap_alloc(sizeof *box);
    run(one_side, 6);
    CHECK_EQUAL(sum, 3 * (2000L * 2001 / 2));
}

/* Locked objects with no other reference live; their monitors, inflated by waiting, go with
   them. */
static APART void lock_many(int first)
{
    for (int i = 0; i < MANY; i++) {
        void *object = neap_alloc(40);
        watch(first + i, object);
        CHECK_EQUAL(neap_monitor_enter(object), NEAP_OK);
        CHECK_EQUAL(neap_monitor_wait_timed(object, 1), NEAP_TIMED_OUT);
    }
}

static APART void unlock_many(int first)
{
    for (int i = first; i < first + MANY; i++)
        CHECK_EQUAL(neap_monitor_exit(neap_link_read(&watched[i])), NEAP_OK);
}

static void death(void)
{
    lock_many(0);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK(neap_monitors_inflated() >= MANY);
    unlock_many(0);
    collect();
    CHECK_DEAD(0);
    CHECK(neap_monitors_inflated() <= STRAY);
    /* New objects in the same cells are not locked. */
    for (int i = 0; i < 10 * MANY; i++) {
        void *object = neap_alloc(40);
        CHECK_EQUAL(neap_monitor_try_enter(object), NEAP_OK);
        CHECK_EQUAL(neap_monitor_exit(object), NEAP_OK);
    }
}

static void *forgets(void *argument)
{
    neap_monitor_enter(shared);
    neap_monitor_enter(shared);
    return argument;
}

static void forgotten(void)
{
    shared = neap_alloc(16);
    told = 0;
    run(forgets, 1);
    CHECK_EQUAL(told, 1);
    CHECK_EQUAL(told_status, NEAP_NOT_OWNER);
    CHECK_EQUAL(neap_monitor_try_enter(shared), NEAP_OK);
    CHECK_EQUAL(neap_monitor_exit(shared), NEAP_OK);
}

static void *frees_what_it_is_in(void *argument)
{
    void *object = neap_alloc(16);
    CHECK_EQUAL(neap_monitor_enter(object), NEAP_OK);
    CHECK_EQUAL(neap_monitor_enter(object), NEAP_OK);
    CHECK_EQUAL(neap_monitor_wait_timed(object, 1), NEAP_TIMED_OUT);
    CHECK_EQUAL(neap_free(object), NEAP_OK);
    CHECK(neap_collect());
    return argument;
}

static void freed(void)
{
    told = 0;
    run(frees_what_it_is_in, 1);
    CHECK_EQUAL(told, 1);
    CHECK_EQUAL(told_status, NEAP_NOT_OWNER);
}

/* The monitor of an object that was freed is that of the next one in its place, also where it is
   inflated and a cycle came between. */
static void freed_inside(void)
{
    void *object = neap_alloc(16);
    told = 0;
    CHECK_EQUAL(neap_monitor_enter(object), NEAP_OK);
    CHECK_EQUAL(neap_monitor_wait_timed(object, 1), NEAP_TIMED_OUT);
    CHECK_EQUAL(neap_free(object), NEAP_OK);
    CHECK(neap_collect());
    CHECK_EQUAL(neap_monitor_exit(object), NEAP_OK);
    CHECK_EQUAL(neap_monitor_exit(object), NEAP_NOT_OWNER);
    CHECK_EQUAL(told, 1);
    CHECK(neap_collect());
    CHECK(neap_monitors_inflated() <= STRAY);
}

static void *holds(void *argument)
{
    neap_monitor_enter(argument);
    __atomic_store_n(&counter, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&counter, __ATOMIC_SEQ_CST) == 1)
        usleep(1000);
    neap_monitor_exit(argument);
    return NULL;
}

static void in_child(void)
{
    void *mine = neap_alloc(16), *waited = neap_alloc(16), *theirs = neap_alloc(16);
    pthread_t holder;
    counter = 0;
    CHECK_EQUAL(pthread_create(&holder, NULL, holds, theirs), 0);
    while (__atomic_load_n(&counter, __ATOMIC_SEQ_CST) == 0)
        usleep(1000);
    neap_monitor_enter(mine);
    neap_monitor_enter(waited);
    CHECK_EQUAL(neap_monitor_wait_timed(waited, 1), NEAP_TIMED_OUT);
    pid_t child = fork();
    if (child == 0) {
        int fine = neap_monitor_exit(mine) == NEAP_OK && neap_monitor_exit(waited) == NEAP_OK &&
                   neap_monitor_try_enter(theirs) == NEAP_OK &&
                       neap_monitor_exit(theirs) == NEAP_OK;
        shared = mine;
        counter = 0;
        run(counts, 2);
        _exit(!fine || failures || counter != 40000);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(neap_monitor_try_enter(theirs), NEAP_TIMED_OUT);
    CHECK_EQUAL(neap_monitor_exit(mine), NEAP_OK);
    CHECK_EQUAL(neap_monitor_exit(waited), NEAP_OK);
    __atomic_store_n(&counter, 2, __ATOMIC_SEQ_CST);
    CHECK_EQUAL(pthread_join(holder, NULL), 0);
}

/* A handler forks while its thread sleeps in a function of monitors: the child goes on in it. */
static void *awaited;
static volatile sig_atomic_t child_of_handler;

static void forks(int number)
{
    (void)number;
    child_of_handler = fork();
    /* The holder leaves; in the child it is gone. */
    if (child_of_handler != 0)
        __atomic_store_n(&counter, 2, __ATOMIC_SEQ_CST);
}

static void fork_soon(void)
{
    struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    child_of_handler = -1;
    CHECK_EQUAL(setitimer(ITIMER_REAL, &soon, NULL), 0);
}

static void end_child(void)
{
    CHECK(child_of_handler != -1);
    CHECK_EQUAL(neap_monitor_exit(awaited), NEAP_NOT_OWNER);
    if (child_of_handler == 0) {
        CHECK_EQUAL(neap_monitor_try_enter(awaited), NEAP_OK);
        CHECK_EQUAL(neap_monitor_exit(awaited), NEAP_OK);
        CHECK(neap_collect());
        CHECK_EQUAL(neap_monitors_inflated(), 0);
        _exit(failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child_of_handler, &status, 0) == child_of_handler);
    CHECK_EQUAL(status, 0);
}

static void in_child_of_handler(void)
{
    struct sigaction action = {.sa_handler = forks};
    sigset_t alarm, before;
    pthread_t holder;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &alarm, &before), 0);
    awaited = neap_alloc(16);
    counter = 0;
    CHECK_EQUAL(pthread_create(&holder, NULL, holds, awaited), 0);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    while (__atomic_load_n(&counter, __ATOMIC_SEQ_CST) == 0)
        usleep(1000);
    fork_soon();
    CHECK_EQUAL(neap_monitor_enter(awaited), NEAP_OK);
    CHECK_EQUAL(neap_monitor_exit(awaited), NEAP_OK);
    end_child();
    CHECK_EQUAL(pthread_join(holder, NULL), 0);

    awaited = neap_alloc(16);
    CHECK_EQUAL(neap_monitor_enter(awaited), NEAP_OK);
    CHECK_EQUAL(neap_monitor_enter(awaited), NEAP_OK);
    fork_soon();
    CHECK_EQUAL(neap_monitor_wait_timed(awaited, 100 * MILLISECOND), NEAP_TIMED_OUT);
    CHECK_EQUAL(neap_monitor_exit(awaited), NEAP_OK);
    CHECK_EQUAL(neap_monitor_exit(awaited), NEAP_OK);
    end_child();
}

static void misuse(void)
{
    char elsewhere[64];
    told = 0;
    CHECK_EQUAL(neap_monitor_enter(NULL), NEAP_NOT_IN_HEAP);
    CHECK_EQUAL(neap_monitor_enter(elsewhere), NEAP_NOT_IN_HEAP);
    CHECK_EQUAL(neap_monitor_exit((char *)neap_alloc(64) + 3), NEAP_NOT_AN_OBJECT_START);
    CHECK_EQUAL(told, 3);
}

int main(void)
{
    CHECK_EQUAL(neap_set_misuse_callback(tell, NULL), NEAP_OK);
    exclusion();
    recursion();
    trying();
    waiting();
    death();
    forgotten();
    freed();
    freed_inside();
    in_child();
    in_child_of_handler();
    misuse();
    return finish();
}
