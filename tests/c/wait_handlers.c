/* What runs on top of a wait, or instead of its end, is the program and counts as running: handlers
   of signals, also those that jump out of the wait or end the thread in it, and what a cancelled
   thread does last. Each keeps objects in its own frames alone, and takes apart and builds what it
   has, while collections follow each other. */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { THREADS = 4, NODES = 24, TURNS = 4, SIGNALS = 250 };

struct node {
    struct node *next;
    uintptr_t number;
};

static int done, ends[2], sockets[2];
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sigset_t usr1, none;
static int worked, broken;

/* One that is lost is overwritten: such objects are allocated all the time. */
static APART struct node *node(struct node *next, uintptr_t number)
{
    struct node *made = neap_alloc(sizeof *made);
    if (made == NULL)
        abort();
    made->next = next;
    made->number = number;
    return made;
}

/* Lists that nobody else knows are built, turned around and checked. */
static APART void work(void)
{
    struct node *list = NULL;
    for (uintptr_t i = 0; i < NODES; i++)
        list = node(list, i);
    for (int turn = 0; turn < TURNS; turn++) {
        struct node *turned = NULL;
        while (list != NULL) {
            struct node *next = list->next;
            list->next = NULL;
            churn(sizeof(struct node), 4);
            turned = node(turned, list->number);
            list = next;
        }
        list = turned;
        uintptr_t count = 0, expected = turn % 2 ? NODES - 1 : 0;
        for (; turned != NULL && count <= NODES; turned = turned->next, count++)
            if (turned->number != (turn % 2 ? expected - count : count))
                __atomic_add_fetch(&broken, 1, __ATOMIC_RELAXED);
        if (count != NODES)
            __atomic_add_fetch(&broken, 1, __ATOMIC_RELAXED);
    }
    __atomic_add_fetch(&worked, 1, __ATOMIC_RELAXED);
}

/* The same further down the stack than any wait reached that came before. */
static APART void work_below(void)
{
    volatile char room[1 << 14];
    room[0] = room[sizeof room - 1] = 0;
    for (int i = 0; i < 20; i++)
        work();
    room[0] = 1;
}

/* Waits that a signal of the program's ends, or that go on after its handler; all of them may be
   interrupted by a handler that allocates, since they are safe in handlers themselves. */
static void wait_sem(void) { sem_wait(&semaphore); }
static void wait_pause(void) { pause(); }
static void wait_suspend(void) { sigsuspend(&none); }
static void wait_sleep(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }
static void wait_poll(void) { poll(NULL, 0, 2); }
static void wait_ppoll(void) { ppoll(NULL, 0, &(struct timespec){.tv_sec = 1}, &none); }
static void wait_select(void) { select(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = 2000}); }
/* Made beforehand: a handler must not come in the midst of an allocation. */
static __thread void *buffer;
static void wait_read(void) { read(ends[0], buffer, 64); }
static void wait_recv(void) { recv(sockets[0], buffer, 64, 0); }
static void wait_condition(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec++;
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&condition, &mutex, &end);
    pthread_mutex_unlock(&mutex);
}

static void (*const all[])(void) = {wait_sem, wait_pause, wait_suspend, wait_sleep, wait_poll,
    wait_ppoll, wait_select, wait_read, wait_recv, wait_condition};
enum { ALL = sizeof all / sizeof *all, INTERRUPTED = ALL - 1 };

static void *collects(void *unused)
{
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
        neap_collect();
        churn(sizeof(struct node), 100);
    }
    return unused;
}

static void works(int signal)
{
    (void)signal;
    int error = errno;
    work();
    errno = error;
}

/* The last one with a handler of the other kind, and on a stack of its own. */
static void works_with_information(int signal, siginfo_t *information, void *context)
{
    CHECK(context != NULL);
    CHECK_EQUAL(information->si_signo, signal);
    works(signal);
}

static int over;

static void *is_interrupted(void *argument)
{
    intptr_t number = (intptr_t)argument;
    static char stacks[THREADS][1 << 16];
    if (number == THREADS - 1)
        CHECK_EQUAL(sigaltstack(&(stack_t){.ss_sp = stacks[number], .ss_size = sizeof *stacks},
            NULL), 0);
    for (int i = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
        buffer = neap_alloc(64);
        pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
        all[(number + i) % INTERRUPTED]();
        pthread_sigmask(SIG_BLOCK, &usr1, NULL);
        work();
    }
    return NULL;
}

static void handlers_run(void (*install)(void))
{
    install();
    pthread_t threads[THREADS];
    over = 0;
    worked = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, is_interrupted, (void *)i), 0);
    for (int i = 0; i < SIGNALS; i++) {
        pthread_kill(threads[i % THREADS], SIGUSR1);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        while (pthread_tryjoin_np(threads[i], NULL) != 0) {
            pthread_kill(threads[i], SIGUSR1);
            nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        }
    }
    CHECK(worked >= SIGNALS / 2);
    CHECK_EQUAL(broken, 0);
}

static void by_sigaction(void)
{
    struct sigaction action = {.sa_handler = works}, old;
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQUAL(sigaction(SIGUSR1, NULL, &old), 0);
    CHECK(old.sa_handler == works);
}
static void with_information(void)
{
    /* With the mask: a second signal in the handler would come in the midst of an allocation. */
    struct sigaction old, action = {.sa_sigaction = works_with_information, .sa_mask = usr1,
        .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, &old), 0);
    CHECK(old.sa_handler == works);
    CHECK_EQUAL(sigaction(SIGUSR1, NULL, &old), 0);
    CHECK(old.sa_sigaction == works_with_information);
    CHECK_EQUAL(old.sa_flags & (SA_SIGINFO | SA_ONSTACK | SA_NODEFER),
        SA_SIGINFO | SA_ONSTACK | SA_NODEFER);
}
static void by_signal(void)
{
    CHECK((void *)signal(SIGUSR1, works) == (void *)works_with_information);
    siginterrupt(SIGUSR1, 1);
}
static void by_bsd_signal(void)
{
    CHECK(ssignal(SIGUSR1, works) == works);
    CHECK(ssignal(SIGUSR1, SIG_IGN) == works);
    CHECK(ssignal(SIGUSR1, works) == SIG_IGN);
    siginterrupt(SIGUSR1, 1);
}
static void by_sigset(void)
{
    /* It says that the signal was blocked, and lets it through. */
    CHECK(sigset(SIGUSR1, works) == SIG_HOLD);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
}

/* System V's kind is called once. */
static void once(void)
{
    worked = 0;
    CHECK(sysv_signal(SIGUSR1, works) == works);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    CHECK_EQUAL(raise(SIGUSR1), 0);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    CHECK_EQUAL(worked, 1);
    CHECK(signal(SIGUSR1, works) == SIG_DFL);
}

/* Jumps out of the wait. */
static __thread sigjmp_buf out;

static void jumps(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static void *jumps_out(void *wait)
{
    buffer = neap_alloc(64);
    if (sigsetjmp(out, 1) == 0) {
        pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
        for (;;)
            (*(void (*const *)(void))wait)();
    }
    work_below();
    return NULL;
}

/* Ends the thread in the wait. */
static void work_at_end(void *unused)
{
    (void)unused;
    work_below();
}

static void exits(int signal)
{
    (void)signal;
    pthread_exit(&broken);
}

static void *ends_in_wait(void *wait)
{
    buffer = neap_alloc(64);
    pthread_cleanup_push(work_at_end, NULL);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    for (;;)
        (*(void (*const *)(void))wait)();
    pthread_cleanup_pop(0);
    return NULL;
}

/* Has threads leave each of the waits by a signal that comes at any moment of it. */
static void leave(void *(*thread)(void *), void (*handler)(int), void *expected)
{
    if (handler != NULL)
        CHECK_EQUAL(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler}, NULL), 0);
    for (int round = 0; round < 3; round++) {
        pthread_t threads[ALL];
        /* Who jumps out of the wait for a condition, or ends there by a handler, has the mutex. */
        int count = handler == NULL ? ALL : INTERRUPTED;
        for (int i = 0; i < count; i++)
            CHECK_EQUAL(pthread_create(&threads[i], NULL, thread, (void *)&all[i]), 0);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        for (int i = 0; i < count; i++) {
            void *result = NULL;
            CHECK_EQUAL(handler == NULL ? pthread_cancel(threads[i])
                : pthread_kill(threads[i], SIGUSR1), 0);
            CHECK_EQUAL(pthread_join(threads[i], &result), 0);
            CHECK(result == expected);
            if (all[i] == wait_condition)
                CHECK_EQUAL(pthread_mutex_unlock(&mutex), 0);
        }
    }
    CHECK_EQUAL(broken, 0);
}

/* What a cancelled thread has in its last frames, deep down, is a root. */
static int is_in, may_go;

static APART void keep_deep_down(void)
{
    volatile char room[1 << 14];
    room[0] = 0;
    struct node *kept = node(NULL, 4711);
    __atomic_store_n(&is_in, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&may_go, __ATOMIC_SEQ_CST))
        continue;
    CHECK_EQUAL(kept->number, 4711);
    CHECK_EQUAL(room[0], 0);
}

static void keeps(void *unused)
{
    (void)unused;
    keep_deep_down();
}

static void *is_cancelled(void *unused)
{
    pthread_cleanup_push(keeps, NULL);
    poll(NULL, 0, -1);
    pthread_cleanup_pop(0);
    return unused;
}

static void keep_when_cancelled(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, is_cancelled, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    CHECK_EQUAL(pthread_cancel(thread), 0);
    while (!__atomic_load_n(&is_in, __ATOMIC_SEQ_CST))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i < 5; i++) {
        CHECK(neap_collect());
        churn(sizeof(struct node), 100000);
    }
    __atomic_store_n(&may_go, 1, __ATOMIC_SEQ_CST);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int main(void)
{
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
    sem_init(&semaphore, 0, 0);
    CHECK_EQUAL(pipe(ends), 0);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pthread_t collector;
    CHECK_EQUAL(pthread_create(&collector, NULL, collects, NULL), 0);

    handlers_run(by_sigaction);
    handlers_run(with_information);
    handlers_run(by_signal);
    handlers_run(by_bsd_signal);
    handlers_run(by_sigset);
    once();
    leave(jumps_out, jumps, NULL);
    leave(ends_in_wait, exits, &broken);
    leave(ends_in_wait, NULL, PTHREAD_CANCELED);
    keep_when_cancelled();

    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(collector, NULL), 0);
    return finish();
}
