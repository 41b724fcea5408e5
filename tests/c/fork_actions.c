/* A thread sets and asks for signals' actions while another one forks: the children collect, for
   which the library sets actions too. A handler asks and sets whatever it interrupted. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static int over;
static volatile sig_atomic_t set_by_handler;

static void sets(int number)
{
    struct sigaction action;
    (void)number;
    if (sigaction(SIGSEGV, NULL, &action) == 0 && sigaction(SIGSEGV, &action, NULL) == 0)
        set_by_handler++;
}

static void set_in_handlers(void)
{
    struct sigaction action = {.sa_handler = sets, .sa_flags = SA_RESTART};
    CHECK_EQUAL(sigaction(SIGVTALRM, &action, NULL), 0);
    struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
    CHECK_EQUAL(setitimer(ITIMER_VIRTUAL, &often, NULL), 0);
    while (set_by_handler < 200) {
        CHECK(sigaction(SIGSEGV, NULL, &action) == 0);
        CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    }
    CHECK_EQUAL(setitimer(ITIMER_VIRTUAL, &never, NULL), 0);
}

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
    set_in_handlers();
    return finish();
}
