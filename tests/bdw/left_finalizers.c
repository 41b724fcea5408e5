/* Finalizers that are left by a jump, that end their thread, or that block it: later ones run all
   the same, on that thread and on others. */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

enum { OBJECTS = 2000, THREADS = 12 };

static jmp_buf out;
static atomic_int ran, jumps, ends, blocked;
static int ends_thread;
static __thread int is_blocked;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void count(void *object, void *data)
{
    (void)object, (void)data;
    ran++;
}

static void jump(void *object, void *data)
{
    (void)object, (void)data;
    if (jumps++ == 0)
        longjmp(out, 1);
}

static void end_thread(void *object, void *data)
{
    (void)object;
    if (data == &ends_thread && ends++ < THREADS)
        pthread_exit(data);
}

/* Until the gate is open, each thread once. */
static void block(void *object, void *data)
{
    (void)object;
    if (data != &gate || is_blocked)
        return;
    is_blocked = 1;
    blocked++;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static APART void drop(int objects, GC_finalization_proc finalizer, void *data)
{
    for (int at = 0; at < objects; at++)
        GC_REGISTER_FINALIZER_NO_ORDER(GC_MALLOC(64), finalizer, data, NULL, NULL);
}

/* Allocates until the library finds something dead of itself. */
static APART void allocate(void)
{
    for (int at = 0; at < 400000; at++)
        GC_MALLOC(64);
}

/* How many of many finalizers run while this thread only allocates. */
static APART int later(void)
{
    int before = ran;
    drop(OBJECTS, count, NULL);
    for (int turn = 0; turn < 20 && ran - before < OBJECTS / 2; turn++) {
        clear_stack();
        allocate();
    }
    return ran - before;
}

static void *one(void *argument)
{
    (void)argument;
    drop(20, end_thread, &ends_thread);
    for (int turn = 0; turn < 100; turn++) {
        clear_stack();
        allocate();
    }
    return NULL;
}

static void *one_that_blocks(void *argument)
{
    (void)argument;
    for (int turn = 0; turn < 100 && !is_blocked; turn++) {
        drop(20, block, &gate);
        clear_stack();
        allocate();
    }
    return NULL;
}

/* While finalizers of many threads are under way. */
static void blocked_threads(void)
{
    pthread_t threads[THREADS];
    pthread_mutex_lock(&gate);
    is_blocked = 1; /* this one never */
    for (int number = 0; number < THREADS; number++) {
        CHECK(GC_pthread_create(&threads[number], NULL, one_that_blocks, NULL) == 0);
        for (int wait = 0; wait < 10000 && blocked <= number; wait++)
            usleep(1000);
        CHECK(blocked == number + 1);
    }
    CHECK(later() > OBJECTS / 2);
    pthread_mutex_unlock(&gate);
    for (int number = 0; number < THREADS; number++)
        CHECK(GC_pthread_join(threads[number], NULL) == 0);
}

int main(void)
{
    GC_INIT();
    CHECK(later() > OBJECTS / 2);
    if (setjmp(out) == 0) {
        drop(20, jump, NULL);
        for (int turn = 0; turn < 100 && jumps == 0; turn++) {
            clear_stack();
            allocate();
        }
    }
    CHECK(jumps > 0);
    CHECK(later() > OBJECTS / 2);
    for (int number = 0; number < THREADS; number++) {
        pthread_t thread;
        CHECK(GC_pthread_create(&thread, NULL, one, NULL) == 0);
        CHECK(GC_pthread_join(thread, NULL) == 0);
    }
    CHECK(ends >= THREADS);
    CHECK(later() > OBJECTS / 2);
    blocked_threads();
    return finish();
}
