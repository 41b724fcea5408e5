/* Threads of C11: known from their first instruction, their argument and what they hold alive;
   joined, detached and left as libc's are. */
#include "check.h"
#include <semaphore.h>
#include <threads.h>

enum { THREADS = 8, MARK = 0x600d };

static sem_t go;
static int ended;

static int holds(void *argument)
{
    while (sem_wait(&go) != 0)
        ;
    return *(long *)argument == MARK ? 7 : 0;
}

static APART void deeper(int status)
{
    thrd_exit(status);
}

static int leaves(void *argument)
{
    if (holds(argument) == 7)
        deeper(-3);
    return 0;
}

static int is_detached(void *argument)
{
    holds(argument);
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
    return 0;
}

/* Nothing but the new thread has the object. */
static APART void begin(thrd_t *thread, thrd_start_t start)
{
    long *object = neap_alloc(64);
    *object = MARK;
    CHECK_EQUAL(thrd_create(thread, start, object), thrd_success);
}

int main(void)
{
    thrd_t threads[3 * THREADS];
    int status;
    neap_init();
    for (int at = 0; at < THREADS; at++) {
        begin(&threads[at], holds);
        begin(&threads[at + THREADS], leaves);
        begin(&threads[at + 2 * THREADS], is_detached);
        CHECK_EQUAL(thrd_detach(threads[at + 2 * THREADS]), thrd_success);
    }
    collect();
    for (int at = 0; at < 200000; at++)
        *(volatile long *)neap_alloc(64) = 1;
    for (int at = 0; at < 3 * THREADS; at++)
        sem_post(&go);
    for (int at = 0; at < 2 * THREADS; at++) {
        CHECK_EQUAL(thrd_join(threads[at], at % 2 ? &status : NULL), thrd_success);
        if (at % 2)
            CHECK_EQUAL(status, at < THREADS ? 7 : -3);
    }
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < THREADS)
        usleep(1000);
    return finish();
}
