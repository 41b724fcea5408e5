/* What the program does when a collection begins and undoes when it names its roots, as Crystal
   takes and leaves a lock: each beginning has its call for roots, also of a collection whose stop
   is given up half-way. Toggle references are asked about before each call. Each beginning that an
   event tells of has its end, which another thread may come to when the next one has begun. */
#include "check.h"
#include "lists.h"
#include <gc/gc_mark.h>
#include <pthread.h>

static GC_push_other_roots_proc others;
static volatile int taken, asked;
static volatile long times, begun, ended;
static struct cell *named;

static void take(void)
{
    CHECK(!taken);
    taken = 1;
    times++;
}

static GC_ToggleRefStatus decide(void *object)
{
    (void)object;
    asked = 1;
    return GC_TOGGLE_REF_STRONG;
}

static void leave(void)
{
    CHECK(taken);
    CHECK(asked || !on_neap());
    taken = asked = 0;
    GC_push_all(&named, &named + 1);
    if (others)
        others();
}

static void hear(GC_EventType event)
{
    if (event == GC_EVENT_START)
        begun++;
    else if (event == GC_EVENT_END)
        __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    else if (event == GC_EVENT_PRE_STOP_WORLD)
        CHECK(begun > ended);
}

static void *allocate(void *argument)
{
    struct cell *kept = list(20000);
    for (int round = 0; round < 300; round++) {
        CHECK(holds(list(2000), 2000));
        if (round % 100 == 99)
            GC_gcollect();
    }
    CHECK(holds(kept, 20000));
    return argument;
}

static void together(int count)
{
    pthread_t threads[4];
    for (int index = 0; index < count; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, allocate, threads), 0);
    for (int index = 0; index < count; index++)
        pthread_join(threads[index], NULL);
}

int main(void)
{
    GC_INIT();
    named = list(50000);
    GC_gcollect(); /* none is under way that began unheard */
    others = GC_get_push_other_roots();
    GC_set_push_other_roots(leave);
    GC_set_toggleref_func(decide);
    CHECK_EQUAL(GC_toggleref_add(GC_malloc(10), 1), GC_SUCCESS);
    GC_set_start_callback(take);
    GC_set_on_collection_event(hear);
    allocate(NULL);
    together(1);
    together(4);
    GC_gcollect();
    CHECK(times > 10);
    CHECK(!taken);
    CHECK_EQUAL(begun, ended);
    CHECK(holds(named, 50000));
    return finish();
}
