/* Threads that are suspended one at a time, events of single threads, and what a thread that was
   made behind the collector's back hears of its registration. */
#include "check.h"
#include "lists.h"
#include <gc/javaxfc.h>
#include <pthread.h>

static volatile long turns;
static volatile int over;

static void wait_for_turns(long more)
{
    for (long until = turns + more; turns < until;)
        usleep(1000);
}

/* Allocates all the time; what it keeps must outlast collections while it is suspended. */
static void *turn(void *argument)
{
    struct cell *kept = list(10000);
    while (!over) {
        CHECK(holds(list(20), 20));
        turns++;
    }
    CHECK(holds(kept, 10000));
    return argument;
}

static int stands(void)
{
    long before = turns;
    usleep(20000);
    return turns == before;
}

static void suspended(void)
{
    pthread_t thread;
    over = 0;
    CHECK_EQUAL(pthread_create(&thread, NULL, turn, &thread), 0);
    wait_for_turns(10);
    CHECK_EQUAL(GC_is_thread_suspended(thread), 0);
    GC_suspend_thread(thread);
    CHECK(GC_is_thread_suspended(thread));
    CHECK(stands());
    for (int round = 0; round < 3; round++) {
        CHECK(holds(list(100000), 100000));
        GC_gcollect();
    }
    CHECK(stands());
    GC_suspend_thread(thread); /* does not count */
    CHECK(stands());
    GC_resume_thread(thread);
    CHECK_EQUAL(GC_is_thread_suspended(thread), 0);
    wait_for_turns(10);
    GC_resume_thread(thread); /* nothing to do */
    for (int round = 0; round < 200; round++) {
        GC_suspend_thread(thread);
        CHECK(GC_is_thread_suspended(thread));
        long before = turns;
        CHECK(holds(list(500), 500));
        if (round % 20 == 0)
            GC_gcollect();
        CHECK_EQUAL(turns, before);
        GC_resume_thread(thread);
        if (round % 10 == 0)
            wait_for_turns(1);
    }
    over = 1;
    void *result = NULL;
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    CHECK(result == &thread);
    CHECK_EQUAL(GC_is_thread_suspended(pthread_self()), 0);
}

static int gate[2], done[2];
static volatile int left;

static void *wait_for_a_byte(void *argument)
{
    char byte = 0;
    CHECK_EQUAL(write(done[1], "x", 1), 1);
    CHECK_EQUAL(read(gate[0], &byte, 1), 1);
    return argument;
}

static void *blocks(void *argument)
{
    struct cell *kept = list(1000);
    GC_do_blocking(wait_for_a_byte, NULL);
    left = 1;
    CHECK(holds(kept, 1000));
    return argument;
}

/* A thread in a blocked region stands when it comes out of it. */
static void suspended_while_blocked(void)
{
    pthread_t thread;
    char byte;
    CHECK(pipe(gate) == 0 && pipe(done) == 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, blocks, NULL), 0);
    CHECK_EQUAL(read(done[0], &byte, 1), 1);
    usleep(20000);
    GC_suspend_thread(thread);
    CHECK(GC_is_thread_suspended(thread));
    CHECK_EQUAL(write(gate[1], "x", 1), 1);
    usleep(50000);
    CHECK_EQUAL(left, 0);
    GC_gcollect();
    GC_resume_thread(thread);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(left, 1);
}

static void *suspends_itself(void *argument)
{
    struct cell *kept = list(1000);
    GC_suspend_thread(pthread_self());
    left = 2;
    CHECK(holds(kept, 1000));
    return argument;
}

static void suspended_by_itself(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, suspends_itself, NULL), 0);
    while (!GC_is_thread_suspended(thread))
        usleep(1000);
    usleep(20000);
    CHECK_EQUAL(left, 1);
    GC_gcollect();
    GC_resume_thread(thread);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(left, 2);
}

/* Allocates nothing, so collects nothing itself. */
static void *count(void *argument)
{
    while (!over)
        turns++;
    return argument;
}

static pthread_t watched;
static int suspensions, resumptions, of_others;

static void on_thread_event(GC_EventType event, void *thread)
{
    if (thread != (void *)watched)
        of_others++;
    else if (event == GC_EVENT_THREAD_SUSPENDED)
        suspensions++;
    else if (event == GC_EVENT_THREAD_UNSUSPENDED)
        resumptions++;
    else
        of_others++;
}

static void events(void)
{
    over = 0;
    CHECK_EQUAL(pthread_create(&watched, NULL, count, NULL), 0);
    wait_for_turns(10);
    GC_gcollect(); /* none is under way whose stops have begun */
    GC_set_on_thread_event(on_thread_event);
    CHECK(GC_get_on_thread_event() == on_thread_event);
    GC_gcollect();
    CHECK(suspensions >= 1);
    CHECK_EQUAL(suspensions, resumptions);
    wait_for_turns(10);
    GC_gcollect();
    CHECK(suspensions >= 2);
    GC_set_on_thread_event(0);
    int before = suspensions;
    wait_for_turns(10);
    GC_gcollect();
    CHECK_EQUAL(suspensions, before);
    CHECK_EQUAL(resumptions, before);
    CHECK_EQUAL(of_others, 0);
    over = 1;
    CHECK_EQUAL(pthread_join(watched, NULL), 0);
}

/* pthread_create as a library finds it that does not know of the collector. */
typedef int (*creator)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int (*joiner)(pthread_t, void **);

static void *register_with_base(struct GC_stack_base *base, void *argument)
{
    CHECK_EQUAL(GC_register_my_thread(base), GC_SUCCESS);
    CHECK_EQUAL(GC_thread_is_registered(), 1);
    CHECK_EQUAL(GC_register_my_thread(base), GC_DUPLICATE);
    CHECK(holds(list(50000), 50000));
    CHECK_EQUAL(GC_unregister_my_thread(), GC_SUCCESS);
    CHECK_EQUAL(GC_thread_is_registered(), 0);
    return argument;
}

static void *registering(void *argument)
{
    CHECK_EQUAL(GC_thread_is_registered(), 0);
    GC_call_with_stack_base(register_with_base, argument);
    return GC_call_with_stack_base(register_with_base, argument);
}

static void *not_registering(void *argument)
{
    CHECK_EQUAL(GC_thread_is_registered(), 0);
    while (!over)
        turns++;
    return argument;
}

static void *made_by_the_collector(void *argument)
{
    struct GC_stack_base base;
    CHECK_EQUAL(GC_thread_is_registered(), 1);
    CHECK_EQUAL(GC_get_stack_base(&base), GC_SUCCESS);
    CHECK_EQUAL(GC_register_my_thread(&base), GC_DUPLICATE);
    return argument;
}

static void registration(void)
{
    creator create = (creator)dlsym(RTLD_NEXT, "pthread_create");
    joiner join = (joiner)dlsym(RTLD_NEXT, "pthread_join");
    pthread_t thread;
    GC_allow_register_threads();
    CHECK_EQUAL(create(&thread, NULL, registering, NULL), 0);
    CHECK_EQUAL(join(thread, NULL), 0);
    over = 0;
    CHECK_EQUAL(create(&thread, NULL, not_registering, NULL), 0);
    wait_for_turns(10);
    GC_suspend_thread(thread);
    CHECK_EQUAL(GC_is_thread_suspended(thread), 0);
    wait_for_turns(10);
    over = 1;
    CHECK_EQUAL(join(thread, NULL), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, made_by_the_collector, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int main(int count, char **arguments)
{
    GC_INIT();
    const char *only = count > 1 ? arguments[1] : "";
    if (!*only || !strcmp(only, "suspended"))
        suspended();
    if (!*only || !strcmp(only, "blocked"))
        suspended_while_blocked();
    if (!*only || !strcmp(only, "itself")) {
        left = 1;
        suspended_by_itself();
    }
    if (!*only || !strcmp(only, "events"))
        events();
    if (!*only || !strcmp(only, "registration"))
        registration();
    return finish();
}
