/* A thread forks while another one is in the process's first use of the collector: the child uses
   it too. The library's pthread_create starts the collector; threads that were there before the
   library was loaded did not come through it, and these here do not either. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* A start takes about a tenth of a millisecond: the turns fork at other moments of it. */
enum { TURNS = 400, STEP_NS = 500 };

static pthread_barrier_t both;
static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static void *starts(void *unused)
{
    pthread_barrier_wait(&both);
    neap_init();
    return unused;
}

static APART int uses_it(void)
{
    for (int i = 0; i < 1000; i++)
        if (neap_alloc(100) == NULL)
            return 1;
    return neap_collect() ? 0 : 2;
}

static void wait_ns(long span)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < span);
}

/* 0, or what went wrong, in a process that has not used the collector. */
static int fork_beside_a_start(long after_ns)
{
    pthread_t thread;
    alarm(60);
    if (pthread_barrier_init(&both, NULL, 2) || create(&thread, NULL, starts, NULL))
        return 3;
    pthread_barrier_wait(&both);
    wait_ns(after_ns);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        _exit(uses_it());
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 4;
    if (WEXITSTATUS(status) != 0)
        return 10 + WEXITSTATUS(status);
    return pthread_join(thread, NULL) ? 5 : uses_it();
}

int main(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc != NULL && (create = dlsym(libc, "pthread_create")) != NULL);
    for (long turn = 0; turn < TURNS; turn++) {
        pid_t child = fork();
        if (child == 0)
            _exit(fork_beside_a_start(turn * STEP_NS));
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
        if (status != 0)
            break;
    }
    return finish();
}
