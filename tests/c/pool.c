/* The threads that run finalizers: bounded backlog, finalizers that block, end their thread,
   register more, fork; who waits for all. Each case is a process of its own. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

static long made, done;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void count(void *argument)
{
    (void)argument;
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
}

static void block(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
}

static void leave(void *argument)
{
    (void)argument;
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
    pthread_exit(NULL);
}

static void slow(void *argument)
{
    (void)argument;
    usleep(1000);
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
}

static APART void add(neap_cleaner *function, int number)
{
    for (int i = 0; i < number; i++) {
        if (neap_cleaner_add(neap_alloc(32), function, NULL) == NEAP_OK)
            made++;
    }
    clear_stack();
}

/* Waits until so many are done, without running any here. */
static long wait_for(long wanted, int seconds)
{
    for (int i = 0; i < seconds * 100 && __atomic_load_n(&done, __ATOMIC_RELAXED) < wanted; i++)
        usleep(10000);
    return __atomic_load_n(&done, __ATOMIC_RELAXED);
}

static void collect_only(void)
{
    by_hand = 1;
    collect();
    by_hand = 0;
}

static void runs_by_itself(void)
{
    add(count, 50000);
    collect_only();
    CHECK(wait_for(50000 - 100, 20) >= 50000 - 100);
}

static void the_stuck_hold_nobody_up(void)
{
    pthread_mutex_lock(&held);
    add(block, 3);
    add(count, 50000);
    collect_only();
    CHECK(wait_for(50000 - 100, 30) >= 50000 - 100);
    pthread_mutex_unlock(&held);
    neap_finalizers_run();
    CHECK(__atomic_load_n(&done, __ATOMIC_RELAXED) >= 50003 - 100);
}

static void ended_threads_hold_nobody_up(void)
{
    add(count, 5000);
    add(leave, 3);
    add(count, 5000);
    collect_only();
    CHECK(wait_for(10003 - 100, 20) >= 10003 - 100);
    /* Not neap_finalizers_run: it might run one that ends this thread. */
    for (int i = 0; i < 2000 && neap_finalizers_ready() > 0; i++)
        usleep(10000);
    CHECK_EQUAL(neap_finalizers_ready(), 0);
}

static void *run_here(void *unused)
{
    (void)unused;
    neap_finalizers_run();
    return unused;
}

/* The same on a thread of the program, which ends; who waits for all does not wait for ever. */
static void the_programs_threads_may_end_too(void)
{
    neap_finalizers_set_automatic(0);
    add(count, 1000);
    add(leave, MANY);
    add(count, 1000);
    collect_only();
    for (int i = 0; i < 2 * MANY && neap_finalizers_ready() > 0; i++) {
        pthread_t thread;
        CHECK_EQUAL(pthread_create(&thread, NULL, run_here, NULL), 0);
        pthread_join(thread, NULL);
    }
    neap_finalizers_run();
    CHECK(done >= 2000 + MANY - 3 * STRAY && done <= made);
}

static void the_backlog_is_bounded(void)
{
    CHECK(neap_option_set("finalizer_backlog", "2000") == NULL);
    CHECK(neap_option_set("finalizers", "1") == NULL);
    size_t most = 0;
    for (int i = 0; i < 60; i++) {
        add(slow, 100);
        CHECK(neap_collect());
        size_t ready = neap_finalizers_ready();
        most = ready > most ? ready : most;
    }
    /* What one more turn finds comes on top. */
    CHECK(most > 500 && most <= 2000 + 400);
    if (most <= 500 || most > 2400)
        fprintf(stderr, "%zu ready at most\n", most);
}

/* Registering, allocating and collecting in a cleaner. */
static void more(void *argument)
{
    (void)argument;
    churn(64, 100);
    if (__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED) < 20000)
        neap_cleaner_add(neap_alloc(48), more, NULL);
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&done, __ATOMIC_RELAXED) % 500 == 0)
        neap_collect();
}

static void cleaners_register_more(void)
{
    for (int i = 0; i < 100; i++)
        neap_cleaner_add(neap_alloc(48), more, NULL);
    for (int i = 0; i < 100; i++)
        collect();
    CHECK(done > 1000);
}

/* Each process runs its own, each once. */
static void forking(void)
{
    neap_finalizers_set_automatic(0);
    add(count, 20000);
    collect_only();
    size_t ready = neap_finalizers_ready();
    CHECK(ready >= 20000 - 100);
    add(count, 5000);
    neap_finalizers_set_automatic(1);
    pid_t child = fork();
    CHECK(child >= 0);
    collect();
    collect();
    CHECK(done >= 25000 - 200 && done <= 25000);
    if (child == 0) {
        add(count, 5000);
        collect_only();
        CHECK(wait_for(30000 - 300, 20) >= 30000 - 300 && done <= 30000);
        _exit(finish());
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child made while the pool is at work. */
static void forking_at_work(void)
{
    for (int round = 0; round < 10; round++) {
        add(count, 20000);
        collect_only();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            add(count, 1000);
            collect();
            collect();
            CHECK(done <= made);
            CHECK_EQUAL(neap_finalizers_ready(), 0);
            _exit(finish());
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    collect();
    CHECK(done >= made - 100 && done <= made);
}

static void apart(void (*function)(void))
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        function();
        exit(finish());
    }
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    apart(runs_by_itself);
    apart(the_stuck_hold_nobody_up);
    apart(ended_threads_hold_nobody_up);
    apart(the_programs_threads_may_end_too);
    apart(the_backlog_is_bounded);
    apart(cleaners_register_more);
    apart(forking);
    apart(forking_at_work);
    return finish();
}
