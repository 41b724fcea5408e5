/* fork at any moment: parent and child go on allocating and collecting, with threads about, also
   inside the allocation lock. */
#include "check.h"
#include "lists.h"
#include <gc/gc_typed.h>
#include <pthread.h>
#include <sys/wait.h>

static volatile int stop;

static void *churn(void *argument)
{
    static void *link;
    while (!stop) {
        void *object = list(100);
        GC_general_register_disappearing_link(&link, object);
        GC_unregister_disappearing_link(&link);
    }
    return argument;
}

static void *nothing(void *argument)
{
    return argument;
}

static void nothing_more(void *object, void *data)
{
    (void)object;
    (void)data;
}

/* What a weak table does when it is cleaned up: everything here takes locks of the collector's own,
   inside the allocation lock. */
static void *tend(void *argument)
{
    static void *link;
    for (int turn = 0; turn < 20; turn++) {
        void *object = GC_malloc(40);
        GC_register_finalizer_no_order(object, nothing_more, NULL, NULL, NULL);
        GC_general_register_disappearing_link(&link, object);
        GC_unregister_disappearing_link(&link);
    }
    GC_gcollect();
    return argument;
}

static void *tends(void *argument)
{
    while (!stop)
        GC_call_with_alloc_lock(tend, NULL);
    return argument;
}

enum { TYPED_WORDS = 130 };

/* Objects of a shape that there was not yet, and of one that there may have been. */
static int new_shapes(unsigned seed, int count)
{
    int good = 1;
    for (int turn = 0; turn < count; turn++) {
        GC_word bits[(TYPED_WORDS + 63) / 64] = {seed, (GC_word)turn << 1 | 1};
        GC_descr shape = GC_make_descriptor(bits, TYPED_WORDS);
        void **object = GC_malloc_explicitly_typed(TYPED_WORDS * sizeof(void *), shape);
        good &= object != NULL && object[turn % TYPED_WORDS] == NULL;
    }
    return good;
}

static void *makes_shapes(void *argument)
{
    static unsigned seed;
    while (!stop)
        CHECK(new_shapes(__atomic_add_fetch(&seed, 1, __ATOMIC_RELAXED), 20));
    return argument;
}

static pthread_t threads[2];

static void start(void *(*work)(void *))
{
    stop = 0;
    for (int index = 0; index < 2; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, work, NULL), 0);
}

static void end(void)
{
    stop = 1;
    for (int index = 0; index < 2; index++)
        CHECK_EQUAL(pthread_join(threads[index], NULL), 0);
}

static void ended_well(pid_t child)
{
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

/* fork and the threads inside the lock take the same locks: in another order they wait for each
   other for ever. */
static void fork_beside_the_lock(void)
{
    start(tends);
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int good = GC_call_with_alloc_lock(tend, &good) == &good;
            _exit(good ? 0 : 1);
        }
        ended_well(child);
    }
    end();
}

/* What remembers the shapes is never in the middle of it in a child. */
static void fork_beside_new_shapes(void)
{
    start(makes_shapes);
    for (int round = 0; round < 200; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(new_shapes(1u << 31 | round, 3) ? 0 : 1);
        ended_well(child);
    }
    end();
}

int main(void)
{
    GC_set_handle_fork(1);
    GC_INIT();
    start(churn);
    struct cell *kept = list(5000);
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int good = holds(kept, 5000);
            for (int turn = 0; turn < 3; turn++) {
                good &= holds(list(20000), 20000);
                GC_gcollect();
            }
            good &= GC_call_with_alloc_lock(nothing, &good) == &good;
            good &= holds(kept, 5000);
            _exit(good ? 0 : 1);
        }
        CHECK(holds(list(2000), 2000));
        ended_well(child);
    }
    end();
    GC_gcollect();
    CHECK(holds(kept, 5000));
    fork_beside_new_shapes();
    /* libgc's own lock is not one that its holder can take again. */
    if (on_neap())
        fork_beside_the_lock();
    return finish();
}
