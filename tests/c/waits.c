/* Functions of libc that wait are not cut short by stops of the world, and are by the program's own
   signals. Those with a mask lose none of these, however close a stop follows. */
#include "check.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { MILLISECONDS = 60 };

static int done;
static pthread_t waiting;
static int epoll;
static sem_t semaphore;

static double now_by(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

static double now(void)
{
    return now_by(CLOCK_MONOTONIC);
}

/* Stops the world all the time. */
static void *collects(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
        neap_collect();
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    }
    return NULL;
}

static struct timespec until(clockid_t clock, int milliseconds)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += milliseconds * 1000000L;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* Each waits for so many milliseconds (less than 1000; negative where it can: for ever) and gives
   what libc's function does. */
static int waits_nanosleep(int time) {
    return nanosleep(&(struct timespec){.tv_nsec = time * 1000000L}, NULL);
}
static int waits_clock_nanosleep(int time)
{
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = time * 1000000L},
        NULL);
}
static int waits_until(int time)
{
    struct timespec end = until(CLOCK_MONOTONIC, time);
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}
static int waits_usleep(int time) { return usleep(time * 1000); }
static int waits_poll(int time) { return poll(NULL, 0, time); }
static int waits_ppoll(int time)
{
    return ppoll(NULL, 0, time < 0 ? NULL : &(struct timespec){.tv_nsec = time * 1000000L}, NULL);
}
static int waits_select(int time)
{
    return select(0, NULL, NULL, NULL, time < 0 ? NULL : &(struct timeval){.tv_usec = time * 1000});
}
static int waits_pselect(int time)
{
    return pselect(0, NULL, NULL, NULL, time < 0 ? NULL
        : &(struct timespec){.tv_nsec = time * 1000000L}, NULL);
}
static int waits_epoll(int time)
{
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, time);
}
static int waits_epoll_pwait(int time)
{
    struct epoll_event event;
    return epoll_pwait(epoll, &event, 1, time, NULL);
}
static int waits_semaphore(int time)
{
    struct timespec end = until(CLOCK_REALTIME, time);
    return sem_timedwait(&semaphore, &end) == -1 && errno == ETIMEDOUT ? 0 : -1;
}
static int waits_semaphore_clock(int time)
{
    struct timespec end = until(CLOCK_MONOTONIC, time);
    return sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end) == -1 && errno == ETIMEDOUT ? 0 : -1;
}
static int waits_sigtimedwait(int time)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = time * 1000000L}) == -1 &&
        errno == EAGAIN ? 0 : -1;
}
static int waits_futex(int time)
{
    static int word;
    struct timespec limit = {.tv_nsec = time * 1000000L};
    long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, time < 0 ? NULL : &limit);
    return time >= 0 && result == -1 && errno == ETIMEDOUT ? 0 : result;
}
static int waits_pause(int time) { return time < 0 ? pause() : 0; }
static const struct {
    const char *name;
    int (*wait)(int);
    int for_ever; /* whether it can wait without end */
    int timed;
} all[] = {
    {"nanosleep", waits_nanosleep, 0, 1},       {"clock_nanosleep", waits_clock_nanosleep, 0, 1},
    {"TIMER_ABSTIME", waits_until, 0, 1},       {"usleep", waits_usleep, 0, 1},
    {"poll", waits_poll, 1, 1},                 {"ppoll", waits_ppoll, 1, 1},
    {"select", waits_select, 1, 1},             {"pselect", waits_pselect, 1, 1},
    {"epoll_wait", waits_epoll, 1, 1},          {"epoll_pwait", waits_epoll_pwait, 1, 1},
    {"sem_timedwait", waits_semaphore, 0, 1},   {"sem_clockwait", waits_semaphore_clock, 0, 1},
    {"sigtimedwait", waits_sigtimedwait, 0, 1}, {"pause", waits_pause, 1, 0},
    {"futex", waits_futex, 1, 1},
};

static int handled;
static void handler(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

/* Sends the signal until the wait is over: it may come just before it begins. */
static void *interrupts(void *over)
{
    while (!__atomic_load_n((int *)over, __ATOMIC_ACQUIRE)) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        pthread_kill(waiting, SIGUSR1);
    }
    return NULL;
}

/* Each waits without end, with all signals blocked but the one that is to end it. */
static int masked_sigsuspend(const sigset_t *mask) { return sigsuspend(mask); }
static int masked_ppoll(const sigset_t *mask) { return ppoll(NULL, 0, NULL, mask); }
static int masked_pselect(const sigset_t *mask) { return pselect(0, NULL, NULL, NULL, NULL, mask); }
static int masked_epoll_pwait(const sigset_t *mask)
{
    struct epoll_event event;
    return epoll_pwait(epoll, &event, 1, -1, mask);
}
static int (*const masked[])(const sigset_t *) = {masked_sigsuspend, masked_ppoll, masked_pselect,
    masked_epoll_pwait};

enum { ROUNDS = 1000 };
static int asked, answered;

/* Answers each signal of main's. The stop signal waits, with all others, until the handler is over,
   and so finds the thread behind the wait. */
static void *answers(void *wait)
{
    sigset_t all_but_one, one;
    sigfillset(&all_but_one);
    sigdelset(&all_but_one, SIGUSR1);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
    for (int round = 1; round <= ROUNDS; round++) {
        while (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) < round)
            CHECK(((int (**)(const sigset_t *))wait)[0](&all_but_one) == -1 && errno == EINTR);
        __atomic_store_n(&answered, round, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void ask(int number)
{
    (void)number;
    __atomic_add_fetch(&asked, 1, __ATOMIC_RELEASE);
}

static void no_signal_is_lost(void)
{
    struct sigaction action = {.sa_handler = ask};
    sigfillset(&action.sa_mask);
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
        asked = answered = 0;
        pthread_t other;
        CHECK_EQUAL(pthread_create(&other, NULL, answers, (void *)&masked[i]), 0);
        for (int round = 1; round <= ROUNDS; round++) {
            CHECK_EQUAL(pthread_kill(other, SIGUSR1), 0);
            neap_collect();
            double began = now();
            while (__atomic_load_n(&answered, __ATOMIC_ACQUIRE) < round) {
                if (now() - began > 10e3) {
                    fprintf(stderr, "masked wait %zu: round %d is not answered\n", i, round);
                    exit(1);
                }
                sched_yield();
            }
        }
        CHECK_EQUAL(pthread_join(other, NULL), 0);
    }
}

/* The forms of sigpause: with a mask of the first 32 signals, and with a signal. */
int __sigpause(int signal_or_mask, int is_signal);
int __xpg_sigpause(int signal);
int bsd_sigpause(int mask) __asm__("sigpause");
static int pauses_with_mask(void) { return bsd_sigpause(~(1 << (SIGUSR1 - 1))); }
static int pauses_with_mask_told(void) { return __sigpause(~(1 << (SIGUSR1 - 1)), 0); }
static int pauses_for_signal(void) { return __xpg_sigpause(SIGUSR1); }
static int pauses_for_signal_told(void) { return __sigpause(SIGUSR1, 1); }
static int (*const pauses[])(void) = {pauses_with_mask, pauses_with_mask_told, pauses_for_signal,
    pauses_for_signal_told};

static int is_over;
static void *pauses_once(void *way)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
    CHECK(((int (**)(void))way)[0]() == -1 && errno == EINTR);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void only_signals_end_pauses(void)
{
    CHECK_EQUAL(__xpg_sigpause(1000), -1);
    CHECK_EQUAL(errno, EINVAL);
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        pthread_t other;
        is_over = 0;
        int before = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
        CHECK_EQUAL(pthread_create(&other, NULL, pauses_once, (void *)&pauses[i]), 0);
        for (int turn = 0; turn < 5; turn++) {
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
            neap_collect();
        }
        CHECK(!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE));
        CHECK_EQUAL(pthread_kill(other, SIGUSR1), 0);
        CHECK_EQUAL(pthread_join(other, NULL), 0);
        CHECK_EQUAL(asked, before + 1);
    }
}

static void *sleeps_until_cancelled(void *unused)
{
    (void)unused;
    poll(NULL, 0, -1);
    return NULL;
}

/* `syscall`, which the library stands before for one call, makes any other as libc's does. */
static void any_call_is_made(void)
{
    enum { PAGE = 4096 };
    static char read_there[PAGE];
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_EQUAL(pread(file, read_there, PAGE, PAGE), PAGE);
    char *mapped = (char *)syscall(SYS_mmap, NULL, (long)PAGE, (long)PROT_READ, (long)MAP_PRIVATE,
        (long)file, (long)PAGE);
    CHECK_EQUAL(memcmp(mapped, read_there, PAGE), 0);
    CHECK_EQUAL(syscall(SYS_munmap, mapped, (long)PAGE), 0);
    CHECK_EQUAL(close(file), 0);
    CHECK_EQUAL(syscall(SYS_close, -1), -1);
    CHECK_EQUAL(errno, EBADF);
    CHECK_EQUAL(syscall(SYS_futex, NULL, FUTEX_WAKE, 1), -1);
    CHECK_EQUAL(errno, EFAULT);
}

int main(void)
{
    CHECK(neap_alloc(8) != NULL);
    any_call_is_made();
    waiting = pthread_self();
    epoll = epoll_create1(0);
    sem_init(&semaphore, 0, 0);
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
    struct sigaction action = {.sa_handler = handler};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t collector;
    CHECK_EQUAL(pthread_create(&collector, NULL, collects, NULL), 0);

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].timed)
            continue;
        /* By the clock that its end is told in, which the system may set. */
        clockid_t clock = all[i].wait == waits_semaphore ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        double began = now_by(clock);
        int result = all[i].wait(MILLISECONDS);
        double took = now_by(clock) - began;
        if (result != 0 || took < MILLISECONDS) {
            fprintf(stderr, "%s: %d after %.1f of %d ms (%s)\n", all[i].name, result, took,
                MILLISECONDS, strerror(errno));
            CHECK(!"waits for as long as it is asked to");
        }
    }
    double began = now();
    CHECK_EQUAL(sleep(1), 0);
    CHECK(now() - began >= 1000);
    CHECK_EQUAL(nanosleep(&(struct timespec){.tv_nsec = -1}, NULL), -1);
    CHECK_EQUAL(errno, EINVAL);
    CHECK_EQUAL(poll(NULL, 0, 0), 0);

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].for_ever)
            continue;
        int over = 0, before = handled;
        pthread_t other;
        CHECK_EQUAL(pthread_create(&other, NULL, interrupts, &over), 0);
        int result = all[i].wait(-1), error = errno;
        __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
        CHECK_EQUAL(pthread_join(other, NULL), 0);
        if (result != -1 || error != EINTR || handled == before) {
            fprintf(stderr, "%s: %d (%s), %d signals\n", all[i].name, result, strerror(error),
                handled - before);
            CHECK(!"the program's own signal ends it");
        }
    }
    /* What is left of a sleep is said, as libc says it. */
    int over = 0;
    pthread_t other;
    CHECK_EQUAL(pthread_create(&other, NULL, interrupts, &over), 0);
    struct timespec left = {0, 0};
    CHECK_EQUAL(nanosleep(&(struct timespec){.tv_sec = 100}, &left), -1);
    CHECK(left.tv_sec > 90 && left.tv_sec < 100);
    CHECK(sleep(100) > 90);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    CHECK_EQUAL(pthread_join(other, NULL), 0);

    /* They are where a thread can be cancelled. */
    void *result = NULL;
    CHECK_EQUAL(pthread_create(&other, NULL, sleeps_until_cancelled, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    CHECK_EQUAL(pthread_cancel(other), 0);
    CHECK_EQUAL(pthread_join(other, &result), 0);
    CHECK(result == PTHREAD_CANCELED);

    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(collector, NULL), 0);
    no_signal_is_lost();
    only_signals_end_pauses();
    return finish();
}
