/* Threads of programs, and of libraries in them, that know nothing of the collector: made, joined
   and ended by libc's own names. On libgc they do not exist for the collector, so most of this is
   about Neap. And a thread that registers itself and is in a library's constructor when the first
   collection stops it: whoever drives the stop must not ask the loader for anything. Usage:
   plain_threads PLUGIN */
#define GC_NO_THREAD_REDIRECTS
#include "check.h"
#include "lists.h"
#include <dlfcn.h>
#include <pthread.h>
#include <threads.h>

void (*in_constructor)(void);
static volatile int is_in_it;

static void takes_its_time(void)
{
    is_in_it = 1;
    thrd_sleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
}

static int opens(void *plugin)
{
    struct GC_stack_base base;
    CHECK_EQUAL(GC_get_stack_base(&base), GC_SUCCESS);
    CHECK_EQUAL(GC_register_my_thread(&base), GC_SUCCESS);
    in_constructor = takes_its_time;
    CHECK(dlopen(plugin, RTLD_NOW) != NULL);
    CHECK_EQUAL(GC_unregister_my_thread(), GC_SUCCESS);
    return 0;
}

static void a_thread_in_a_constructor(char *plugin)
{
    thrd_t thread;
    GC_allow_register_threads();
    CHECK_EQUAL(thrd_create(&thread, opens, plugin), thrd_success);
    while (!is_in_it)
        thrd_yield();
    for (int round = 0; round < 3; round++)
        GC_gcollect();
    CHECK_EQUAL(thrd_join(thread, NULL), thrd_success);
}

static void *returns_a_list(void *unused)
{
    (void)unused;
    return list(1000);
}

static void *exits_with_a_list(void *unused)
{
    (void)unused;
    pthread_exit(list(1000));
}

static void results(void)
{
    pthread_t threads[40];
    for (int index = 0; index < 40; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, index % 2 ? exits_with_a_list
            : returns_a_list, NULL), 0);
    usleep(200000);
    clear_stack();
    for (int round = 0; round < 3; round++) {
        GC_gcollect();
        for (int index = 0; index < 100000; index++)
            memset(GC_malloc(sizeof(struct cell)), 0xEE, sizeof(struct cell));
    }
    for (int index = 0; index < 40; index++) {
        void *result = NULL;
        /* Either name of the function does. */
        CHECK_EQUAL((index % 3 ? pthread_join : GC_pthread_join)(threads[index], &result), 0);
        CHECK(holds(result, 1000));
    }
    for (int index = 0; index < 40; index++) {
        pthread_t thread;
        CHECK_EQUAL(pthread_create(&thread, NULL, index % 2 ? exits_with_a_list : returns_a_list,
            NULL), 0);
        CHECK_EQUAL(pthread_detach(thread), 0);
    }
    CHECK(pthread_join(pthread_self(), NULL) != 0);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    GC_INIT();
    a_thread_in_a_constructor(argv[1]);
    if (on_neap())
        results();
    return finish();
}
