/* Signals and collections: a queue of signals that is full loses no thread, a thread may be
   cancelled while it stands, and a program that executes another in the middle of a collection does
   it no harm. Usage: signals [executes]; the program calls itself. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static volatile int ready, over;
static int died;

static void count(void *object, void *data)
{
    (void)object;
    (void)data;
    died++;
}

/* Its stack holds the only pointers, and it makes no call meanwhile. */
static void *holds(void *argument)
{
    void *held[MANY];
    for (int i = 0; i < MANY; i++) {
        held[i] = GC_malloc(40);
        GC_register_finalizer_no_order(held[i], count, NULL, NULL, NULL);
    }
    clear_stack();
    __asm__ volatile("" : : "r"(held) : "memory");
    ready = 1;
    while (!over)
        ;
    __asm__ volatile("" : : "r"(held) : "memory");
    return argument;
}

static void full_queue(void)
{
    struct rlimit before, none;
    pthread_t thread;
    CHECK_EQUAL(getrlimit(RLIMIT_SIGPENDING, &before), 0);
    none = before;
    none.rlim_cur = 0;
    CHECK_EQUAL(setrlimit(RLIMIT_SIGPENDING, &none), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, holds, NULL), 0);
    while (!ready)
        sched_yield();
    for (int turn = 0; turn < 5; turn++)
        collect();
    CHECK_EQUAL(died, 0);
    over = 1;
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    collect();
    CHECK_NEARLY_ALL(died);
    CHECK_EQUAL(setrlimit(RLIMIT_SIGPENDING, &before), 0);
}

static void *reads(void *argument)
{
    char byte;
    GC_malloc(40);
    ready = 1;
    while (read(*(int *)argument, &byte, 1) != 0)
        ;
    return argument;
}

static void *collects(void *argument)
{
    while (!over)
        GC_gcollect();
    return argument;
}

static void cancelled(void)
{
    pthread_t collector, thread;
    int ends[2];
    over = 0;
    CHECK_EQUAL(pipe(ends), 0);
    CHECK_EQUAL(pthread_create(&collector, NULL, collects, NULL), 0);
    for (int turn = 0; turn < 200; turn++) {
        ready = 0;
        CHECK_EQUAL(pthread_create(&thread, NULL, reads, &ends[0]), 0);
        while (!ready)
            sched_yield();
        for (volatile int wait = 0; wait < turn * 500; wait++)
            ;
        void *result;
        CHECK_EQUAL(pthread_cancel(thread), 0);
        CHECK_EQUAL(pthread_join(thread, &result), 0);
        /* libgc forgot it once. */
        CHECK(result == PTHREAD_CANCELED || !on_neap());
    }
    over = 1;
    CHECK_EQUAL(pthread_join(collector, NULL), 0);
}

static void *allocates(void *argument)
{
    for (;;)
        GC_malloc(48);
    return argument;
}

static void executes(void)
{
    char *const arguments[] = {"true", NULL}, *const environment[] = {NULL};
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&thread, NULL, allocates, NULL), 0);
    for (int i = 0; i < 100000; i++)
        GC_malloc(48);
    syscall(SYS_execve, "/bin/true", arguments, environment);
    _exit(1);
}

int main(int count, char **arguments)
{
    GC_INIT();
    if (count > 1)
        executes();
    full_queue();
    cancelled();
    /* libgc's own signal ends the new program in some of them. */
    for (int turn = 0; on_neap() && turn < 20; turn++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            execl(arguments[0], arguments[0], "executes", NULL);
            _exit(99);
        }
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    }
    return finish();
}
