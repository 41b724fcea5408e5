/* Children of which no handler of pthread_atfork is told, made by _Fork or by a system call, go on
   with the heap while a thread of their maker's is busy with it: they allocate, collect, make
   threads and have children themselves. */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { CHURN = 300000 };

struct node {
    struct node *next;
    long number;
};

static APART struct node *list(long length)
{
    struct node *first = NULL;
    for (long number = 0; number < length; number++) {
        struct node *node = neap_alloc(sizeof *node);
        node->next = first;
        node->number = number;
        first = node;
    }
    return first;
}

static APART long length(const struct node *first)
{
    long count = 0;
    for (; first != NULL; first = first->next)
        count++;
    return count;
}

static void *churns(void *unused)
{
    for (int at = 0; at < CHURN; at++)
        *(volatile long *)neap_alloc(64) = 1;
    return unused;
}

static int is_over;

static void *churns_on(void *unused)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
        *(volatile long *)neap_alloc(64) = 1;
    return unused;
}

static pid_t by_Fork(void) { return _Fork(); }
static pid_t by_fork_call(void) { return (pid_t)syscall(SYS_fork); }
static pid_t by_clone_call(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static pid_t (*const ways[])(void) = {by_Fork, by_fork_call, by_clone_call, fork};
enum { WAYS = sizeof ways / sizeof *ways };

/* First what a child does first: collects, allocates, or makes a thread. */
static void lives(const struct node *kept, long wanted, int first)
{
    pthread_t thread;
    alarm(60);
    if (first == 0)
        CHECK(neap_collect());
    if (first < 2)
        churns(NULL);
    CHECK_EQUAL(pthread_create(&thread, NULL, churns, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(neap_collect());
    CHECK_EQUAL(length(kept), wanted);
}

static void *returns(void *unused) { return unused; }

/* libc's own locks are held by this thread often enough. */
static void *makes_threads(void *unused)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, returns, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return unused;
}

/* A child of vfork, whose maker waits for it, has such a child itself, which ends at once. */
static void forks_within_vfork(int way)
{
    pid_t child = vfork();
    if (child == 0) {
        for (volatile int turn = 0; turn < 100000; turn++)
            ;
        pid_t grandchild = ways[way]();
        if (grandchild == 0)
            _exit(0);
        _exit(waitpid(grandchild, NULL, 0) != grandchild);
    }
    CHECK(succeeded(child));
}

int main(void)
{
    pthread_t busy, maker;
    neap_init();
    CHECK_EQUAL(pthread_create(&busy, NULL, churns_on, NULL), 0);
    for (int turn = 0; turn < 24; turn++) {
        long wanted = turn % 2 ? 1000 : 100000;
        struct node *kept = list(wanted);
        churns(NULL);
        pid_t child = ways[turn % WAYS]();
        if (child == 0) {
            failures = 0;
            lives(kept, wanted, turn % 3);
            pid_t grandchild = ways[(turn + 1) % WAYS]();
            if (grandchild == 0) {
                lives(kept, wanted, (turn + 1) % 3);
                _exit(finish());
            }
            CHECK(succeeded(grandchild));
            _exit(finish());
        }
        CHECK(succeeded(child));
        CHECK_EQUAL(length(kept), wanted);
    }
    for (int turn = 0; turn < 60; turn++)
        forks_within_vfork(turn % (WAYS - 1));
    CHECK_EQUAL(pthread_create(&maker, NULL, makes_threads, NULL), 0);
    for (int turn = 0; turn < 90; turn++) {
        pid_t child = ways[turn % (WAYS - 1)]();
        if (child == 0) {
            alarm(60);
            churns(NULL);
            _exit(!neap_collect());
        }
        CHECK(succeeded(child));
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(busy, NULL), 0);
    CHECK_EQUAL(pthread_join(maker, NULL), 0);
    return finish();
}
