/* Threads: created through the header's redirections and without them, registration, blocked
   regions, the allocation lock, masks. */
#include "check.h"
#include "lists.h"
#include <pthread.h>
#include <signal.h>
#include <dlfcn.h>

static void *work(void *argument)
{
    struct cell *kept = list(20000);
    for (int round = 0; round < 30; round++)
        CHECK(holds(list(5000), 5000));
    CHECK(holds(kept, 20000));
    return argument;
}

static void *list_of_1000(void *argument)
{
    (void)argument;
    return list(1000);
}

static void redirected(void)
{
    pthread_t threads[4];
    for (long index = 0; index < 4; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, work, (void *)index), 0);
    work(NULL);
    for (long index = 0; index < 4; index++) {
        void *result = NULL;
        CHECK_EQUAL(pthread_join(threads[index], &result), 0);
        CHECK_EQUAL((long)result, index);
    }
    /* What a thread leaves behind is garbage: the result is kept by whoever joins. */
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, list_of_1000, NULL), 0);
    void *result = NULL;
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    CHECK(holds(result, 1000));
    CHECK_EQUAL(pthread_create(&thread, NULL, work, NULL), 0);
    CHECK_EQUAL(pthread_detach(thread), 0);
}

/* Threads made behind the collector's back, as another runtime would: by the C library's own
   functions. */
typedef int (*creator)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int (*joiner)(pthread_t, void **);
static creator create;
static joiner join;

static void find_own_functions(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    create = (creator)dlsym(libc, "pthread_create");
    join = (joiner)dlsym(libc, "pthread_join");
}

static void *with_base(struct GC_stack_base *base, void *argument)
{
    CHECK(base->mem_base != NULL);
    int first = GC_register_my_thread(base);
    CHECK_EQUAL(first, GC_SUCCESS);
    CHECK_EQUAL(GC_thread_is_registered(), 1);
    CHECK_EQUAL(GC_register_my_thread(base), GC_DUPLICATE);
    void *result = work(argument);
    CHECK_EQUAL(GC_unregister_my_thread(), GC_SUCCESS);
    CHECK_EQUAL(GC_thread_is_registered(), 0);
    return result;
}

static void *registering(void *argument)
{
    CHECK_EQUAL(GC_thread_is_registered(), 0);
    return GC_call_with_stack_base(with_base, argument);
}

static void *registering_by_base(void *argument)
{
    struct GC_stack_base base;
    CHECK_EQUAL(GC_get_stack_base(&base), GC_SUCCESS);
    CHECK(base.mem_base > (void *)&base);
    CHECK_EQUAL(GC_register_my_thread(&base), GC_SUCCESS);
    void *result = work(argument);
    CHECK_EQUAL(GC_unregister_my_thread(), GC_SUCCESS);
    return result;
}

static void registered(void)
{
    find_own_functions();
    GC_allow_register_threads();
    pthread_t threads[4];
    for (long index = 0; index < 4; index++)
        CHECK_EQUAL(create(&threads[index], NULL, index % 2 ? registering : registering_by_base,
            (void *)index), 0);
    work(NULL);
    for (long index = 0; index < 4; index++) {
        void *result = NULL;
        CHECK_EQUAL(join(threads[index], &result), 0);
        CHECK_EQUAL((long)result, index);
    }
}

static int gate[2], done[2];

static void *wait_for_a_byte(void *kept)
{
    char byte = 0;
    CHECK_EQUAL(write(done[1], "x", 1), 1);
    CHECK_EQUAL(read(gate[0], &byte, 1), 1);
    return kept;
}

static void *active_again(void *argument)
{
    CHECK(holds(list(1000), 1000));
    return argument;
}

static void *wait_and_allocate(void *argument)
{
    wait_for_a_byte(argument);
    return GC_call_with_gc_active(active_again, argument);
}

static void *blocking(void *argument)
{
    struct cell *kept = list(3000);
    void *result = GC_do_blocking(argument ? wait_and_allocate : wait_for_a_byte, argument);
    CHECK(result == argument);
    CHECK(holds(kept, 3000));
    return NULL;
}

/* Collections go on while a thread sleeps in a blocked region, and what is on its stack stays. */
static void blocked(void *argument)
{
    pthread_t thread;
    char byte;
    CHECK(pipe(gate) == 0 && pipe(done) == 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, blocking, argument), 0);
    CHECK_EQUAL(read(done[0], &byte, 1), 1);
    for (int round = 0; round < 5; round++) {
        GC_gcollect();
        CHECK(holds(list(3000), 3000));
    }
    CHECK_EQUAL(write(gate[1], "x", 1), 1);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(GC_call_with_gc_active(active_again, argument) == argument);
}

static long counter;
static void *inner(void *argument)
{
    counter++;
    return argument;
}
static void *outer(void *argument)
{
    long before = counter;
    GC_word collections = GC_get_gc_no();
    void *result = inner(argument);
    for (volatile int turn = 0; turn < 100; turn++)
        ;
    CHECK_EQUAL(counter, before + 1);
    CHECK_EQUAL(GC_get_gc_no(), collections);
    return result;
}
static void *locking(void *argument)
{
    for (int round = 0; round < 3000; round++) {
        CHECK(GC_call_with_alloc_lock(outer, argument) == argument);
        GC_malloc(100);
        if (round % 500 == 0)
            GC_gcollect();
    }
    GC_alloc_lock();
    counter++;
    GC_alloc_unlock();
    return NULL;
}

/* Who has the lock keeps others from it. */
static int waits, may_ask, came_in;
static void *come_in(void *argument)
{
    __atomic_store_n(&came_in, 1, __ATOMIC_RELEASE);
    return argument;
}
static void *ask_for_lock(void *argument)
{
    __atomic_store_n(&waits, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&may_ask, __ATOMIC_ACQUIRE))
        usleep(1000);
    return GC_call_with_alloc_lock(come_in, argument);
}
static void keep_out(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, ask_for_lock, NULL), 0);
    while (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
        usleep(1000);
    GC_alloc_lock();
    __atomic_store_n(&may_ask, 1, __ATOMIC_RELEASE);
    usleep(100 * 1000);
    int came = __atomic_load_n(&came_in, __ATOMIC_ACQUIRE);
    GC_alloc_unlock();
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(came, 0);
    CHECK_EQUAL(came_in, 1);
}

static void lock(void)
{
    keep_out();
    pthread_t threads[3];
    for (long index = 0; index < 3; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, locking, &counter), 0);
    for (long index = 0; index < 3; index++)
        CHECK_EQUAL(pthread_join(threads[index], NULL), 0);
    CHECK_EQUAL(counter, 3 * 3001);
}

/* A thread that blocks every signal can be stopped all the same. */
static volatile int ready, stop;
static void *masked(void *argument)
{
    sigset_t all, now;
    sigfillset(&all);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    CHECK(sigismember(&now, SIGUSR1));
    CHECK(!sigismember(&now, GC_get_suspend_signal()));
    struct cell *kept = list(1000);
    ready = 1;
    while (!stop)
        ;
    CHECK(holds(kept, 1000));
    return argument;
}

static void masks(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, masked, NULL), 0);
    while (!ready)
        usleep(1000);
    for (int round = 0; round < 5; round++)
        GC_gcollect();
    stop = 1;
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

/* What a thread returned is alive until somebody joins it, however it ended. */
static void *exits_with_a_list(void *argument)
{
    (void)argument;
    pthread_exit(list(1000));
}

static void results(void)
{
    pthread_t threads[40];
    for (int index = 0; index < 40; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, index % 2 ? exits_with_a_list
            : list_of_1000, NULL), 0);
    usleep(200000);
    clear_stack();
    for (int round = 0; round < 3; round++) {
        GC_gcollect();
        for (int index = 0; index < 100000; index++)
            memset(GC_malloc(sizeof(struct cell)), 0xEE, sizeof(struct cell));
    }
    for (int index = 0; index < 40; index++) {
        void *result = NULL;
        CHECK_EQUAL(pthread_join(threads[index], &result), 0);
        /* libgc does not keep what is given to pthread_exit. */
        if (on_neap() || index % 2 == 0)
            CHECK(holds(result, 1000));
    }
    for (int index = 0; index < 40; index++) {
        pthread_t thread;
        CHECK_EQUAL(pthread_create(&thread, NULL, index % 2 ? exits_with_a_list : list_of_1000,
            NULL), 0);
        CHECK_EQUAL(pthread_detach(thread), 0);
    }
    CHECK(pthread_join(pthread_self(), NULL) != 0);
}

static void *exits(void *argument)
{
    CHECK(holds(list(10), 10));
    pthread_exit(argument);
}

static void many_short_ones(void)
{
    for (long round = 0; round < 300; round++) {
        pthread_t thread;
        void *result = NULL;
        CHECK_EQUAL(pthread_create(&thread, NULL, exits, (void *)round), 0);
        CHECK_EQUAL(pthread_join(thread, &result), 0);
        CHECK_EQUAL((long)result, round);
    }
}

int main(void)
{
    GC_INIT();
    CHECK_EQUAL(GC_thread_is_registered(), 1);
    redirected();
    registered();
    blocked(NULL);
    blocked(&counter);
    lock();
    masks();
    many_short_ones();
    results();
    struct GC_stack_base base;
    CHECK(GC_get_my_stackbottom(&base) != NULL && base.mem_base > (void *)&base);
    CHECK(GC_get_suspend_signal() > 0 && GC_get_thr_restart_signal() > 0);
    return finish();
}
