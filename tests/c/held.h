/* Threads that hold the only pointers to their objects and make no call meanwhile, and a thread
   that collects beside them: for the tests of how threads are stopped. */
#ifndef HELD_H
#define HELD_H
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

static int ready, over;

/* Objects that only the caller's stack holds, until the test is over. */
static APART void hold(int first)
{
    void *held[MANY];
    for (int i = 0; i < MANY; i++) {
        held[i] = neap_alloc(40);
        watch(first + i, held[i]);
    }
    clear_stack();
    __asm__ volatile("" : : "r"(held) : "memory");
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        ;
    for (int i = 0; i < MANY; i++)
        CHECK(neap_base(held[i]) == held[i]);
}

static void *holder(void *first)
{
    hold((int)(intptr_t)first);
    return NULL;
}

static void until_ready(int count)
{
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < count)
        sched_yield();
}

/* Two threads hold objects; what is not found dies and is used again. */
static APART void collect_beside(pthread_t *threads, int count)
{
    until_ready(count);
    for (int turn = 0; turn < 10; turn++) {
        CHECK(neap_collect());
        churn(40, 20000);
    }
    for (int i = 0; i < count; i++)
        CHECK_ALL_ALIVE(i * MANY);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static APART void start(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, holder, (void *)(intptr_t)(i * MANY)), 0);
}

static APART void beside_two(void)
{
    pthread_t threads[2];
    start(threads, 2);
    collect_beside(threads, 2);
}

#endif
