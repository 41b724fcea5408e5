/* A signal's handler forks, wherever it interrupted the program: in the library too, while another
   thread collects, after each instruction of what takes locks and gives them back, and where a
   thread begins or ends. The child ends at once or becomes another program, as after a crash or for
   a watchdog; the parent goes on. */
#include "check.h"
#include "steps.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { FORKS = 300, THREADS = 1000 };

static volatile sig_atomic_t forked, failed;
static int over;

static void forks(int number)
{
    int before = errno, status = -1;
    (void)number;
    pid_t child = fork();
    if (child == 0) {
        if (forked % 2)
            execl("/bin/true", "true", (char *)NULL);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        failed++;
    forked++;
    errno = before;
}

static void step_by_step(void)
{
    static void *place[4];
    struct sigaction action = {.sa_handler = forks};
    CHECK_EQUAL(sigaction(SIGTRAP, &action, NULL), 0);
    forked = 0;
    STEPS_BEGIN();
    int status = neap_roots_add(place, place + 4);
    neap_disable();
    neap_enable();
    STEPS_END();
    CHECK_EQUAL(status, NEAP_OK);
    CHECK(forked > 100);
    CHECK_EQUAL(failed, 0);
}

static void *collects(void *unused)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        CHECK(neap_collect());
    return unused;
}

/* Begins and ends for the collector again and again. Libc itself frees memory where a thread ends,
   in the midst of which no handler can fork. */
static void *attaches(void *number)
{
    sigset_t ours;
    for (int turn = 0; turn < 10; turn++) {
        neap_thread_detach();
        neap_thread_attach();
    }
    sigemptyset(&ours);
    sigaddset(&ours, SIGUSR1);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &ours, NULL), 0);
    return neap_collect() ? number : NULL;
}

static void beginnings(void)
{
    struct sigaction action = {.sa_handler = forks, .sa_flags = SA_RESTART};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    forked = 0;
    for (long at = 0; at < THREADS; at++) {
        pthread_t thread;
        void *result = NULL;
        CHECK_EQUAL(pthread_create(&thread, NULL, attaches, &action), 0);
        for (volatile long spin = rand() % 200000; spin > 0; spin--)
            ;
        pthread_kill(thread, SIGUSR1);
        CHECK_EQUAL(pthread_join(thread, &result), 0);
        CHECK(result == &action);
    }
    CHECK(forked > 0);
    CHECK_EQUAL(failed, 0);
}

int main(void)
{
    pthread_t thread;
    sigset_t alarms;
    alarm(100);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGVTALRM);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &alarms, NULL), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, collects, NULL), 0);
    CHECK_EQUAL(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL), 0);
    struct sigaction action = {.sa_handler = forks, .sa_flags = SA_RESTART};
    CHECK_EQUAL(sigaction(SIGVTALRM, &action, NULL), 0);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    CHECK_EQUAL(setitimer(ITIMER_VIRTUAL, &often, NULL), 0);
    void **list = NULL;
    for (long turn = 0; forked < FORKS; turn++) {
        void **node = neap_alloc(4000);
        CHECK(node != NULL);
        node[0] = turn % 1000 ? list : NULL;
        list = node;
    }
    CHECK_EQUAL(setitimer(ITIMER_VIRTUAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL), 0);
    CHECK(list != NULL);
    CHECK_EQUAL(failed, 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    step_by_step();
    beginnings();
    return finish();
}
