/* A thread sets and asks for signals' actions while another one forks: the children collect, for
   which the library sets actions too. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static int over;

static void *sets_actions(void *unused)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        struct sigaction action;
        CHECK(sigaction(SIGSEGV, NULL, &action) == 0);
        CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    }
    return unused;
}

static APART void allocate_some(void)
{
    for (int i = 0; i < 1000; i++)
        CHECK(neap_alloc(100) != NULL);
}

int main(void)
{
    allocate_some();
    CHECK(neap_collect());
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, sets_actions, NULL), 0);
    for (int turn = 0; turn < 200; turn++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            allocate_some();
            _exit(neap_collect() ? 0 : 1);
        }
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    return finish();
}
