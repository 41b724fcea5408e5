/* Two threads register a finalizer for one object at a time: one of them runs, once. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { OBJECTS = 100000 };

static void *volatile object;
static atomic_int runs[OBJECTS], replaced;
static pthread_barrier_t barrier;

static void ran(void *dead, void *data)
{
    (void)dead;
    runs[(long)data - 1]++;
}

static void *registers(void *is_first)
{
    for (long at = 0; at < OBJECTS; at++) {
        GC_finalization_proc former = NULL;
        void *data = NULL;
        if (is_first)
            object = GC_MALLOC(32);
        pthread_barrier_wait(&barrier);
        GC_REGISTER_FINALIZER_NO_ORDER(object, ran, (void *)(at + 1), &former, &data);
        replaced += former != NULL;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int twice = 0, once = 0;
    GC_INIT();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    for (int at = 0; at < 2; at++)
        CHECK(GC_pthread_create(&threads[at], NULL, registers, at == 0 ? runs : NULL) == 0);
    for (int at = 0; at < 2; at++)
        CHECK(GC_pthread_join(threads[at], NULL) == 0);
    object = NULL;
    for (int turn = 0; turn < 5; turn++) {
        clear_stack();
        GC_gcollect();
        GC_invoke_finalizers();
    }
    for (int at = 0; at < OBJECTS; at++) {
        twice += runs[at] > 1;
        once += runs[at] == 1;
    }
    CHECK(twice == 0);
    CHECK(once > OBJECTS - 100);
    CHECK(replaced == OBJECTS);
    return finish();
}
