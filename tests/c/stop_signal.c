/* The signal that stops threads: what the system refuses, what the program does with signals
   itself, and cancellation lose no object and hold nobody up. Usage: stop_signal CASE; the cases
   are below. */
#include "held.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* No further signal can be queued for this user. */
static void no_queue(void)
{
    struct rlimit none = {0, 0};
    CHECK_EQUAL(setrlimit(RLIMIT_SIGPENDING, &none), 0);
}

static void full_queue(void)
{
    no_queue();
    beside_two();
}

/* It fills while the program runs. */
static void queue_fills(void)
{
    pthread_t threads[2];
    start(threads, 2);
    until_ready(2);
    CHECK(neap_collect());
    no_queue();
    collect_beside(threads, 2);
}

/* From here on these calls end with `error`. */
static void refuse(const int *calls, int count, int error)
{
    struct sock_filter filter[64];
    int n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
        offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0,
            1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO
            | (unsigned)error);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, filter};
    CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQUAL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program),
        0);
}

static void refused_tgkill(int error)
{
    pthread_t threads[2];
    start(threads, 2);
    until_ready(2);
    refuse((int[]){SYS_tgkill}, 1, error);
    collect_beside(threads, 2);
}

static void refused_eperm(void) { refused_tgkill(EPERM); }
static void refused_enosys(void) { refused_tgkill(ENOSYS); }
static void refused_eagain(void) { refused_tgkill(EAGAIN); }

static void refused_gettid(void)
{
    refuse((int[]){SYS_gettid}, 1, EPERM);
    beside_two();
}

static void *allocator(void *unused)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        CHECK(neap_alloc(64) != NULL);
    return unused;
}

/* No thread can be made for the collector, and several threads try at once: who asks for a
   collection has one, with the world stopped. */
static void refused_threads(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocator, NULL), 0);
    refuse((int[]){SYS_clone, SYS_clone3}, 2, EAGAIN);
    for (int turn = 0; turn < 1000; turn++)
        CHECK(neap_collect());
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static const int every_way[] = {SYS_tgkill, SYS_tkill, SYS_rt_tgsigqueueinfo};

/* No way to send one, known from the start: nothing is collected, and that is said, once. */
static void refused_all(void)
{
    static char said[4096];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    CHECK(neap_alloc(40) != NULL);
    dup2(fileno(file), STDERR_FILENO);
    refuse(every_way, 3, EPERM);
    pthread_t threads[2];
    start(threads, 2);
    until_ready(2);
    for (int turn = 0; turn < 10; turn++) {
        CHECK(!neap_collect());
        churn(40, 20000);
    }
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    CHECK(pread(fileno(file), said, sizeof said - 1, 0) > 0);
    const char *text = strstr(said, "neap: the system refuses to send signals");
    if (text != said || strchr(text, '\n')[1] != 0)
        fprintf(stderr, "%s", said);
    CHECK(text == said && strchr(text, '\n')[1] == 0);
}

/* The same, found out in a stop: a thread that comes by an allocation stands there. */
static void *comes_by(void *argument)
{
    void *held[MANY];
    for (int i = 0; i < MANY; i++) {
        held[i] = neap_alloc(40);
        watch(i, held[i]);
    }
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        CHECK(neap_alloc(5000) != NULL);
        for (volatile int wait = 0; wait < 100000; wait++)
            ;
    }
    for (int i = 0; i < MANY; i++)
        CHECK(neap_base(held[i]) == held[i]);
    return argument;
}

static void refused_later(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, comes_by, NULL), 0);
    until_ready(1);
    refuse(every_way, 3, EPERM);
    for (int turn = 0; turn < 10; turn++) {
        neap_collect();
        churn(40, 20000);
    }
    CHECK_ALL_ALIVE(0);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

/* ---- Cancellation ---- */

static void *spins(void *argument)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
    for (;;)
        __asm__ volatile("" : : : "memory");
    return argument;
}

/* In a call that is a cancellation point glibc has the same done at any instruction. */
static void *reads(void *argument)
{
    char byte;
    __atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
    while (read(*(int *)argument, &byte, 1) != 0)
        ;
    return argument;
}

static void *collects(void *argument)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        CHECK(neap_collect());
        for (volatile int wait = 0; wait < 100000; wait++)
            ;
    }
    return argument;
}

/* The thread is cancelled at any moment of the stops that another makes. */
static void cancelled(void)
{
    pthread_t collector, thread;
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    CHECK_EQUAL(pthread_create(&collector, NULL, collects, NULL), 0);
    for (int turn = 0; turn < 40; turn++) {
        __atomic_store_n(&ready, 0, __ATOMIC_SEQ_CST);
        CHECK_EQUAL(pthread_create(&thread, NULL, turn % 2 ? spins : reads, &ends[0]), 0);
        until_ready(1);
        for (volatile int wait = 0; wait < turn * 5000; wait++)
            ;
        CHECK_EQUAL(pthread_cancel(thread), 0);
        void *result;
        CHECK_EQUAL(pthread_join(thread, &result), 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    CHECK_EQUAL(pthread_join(collector, NULL), 0);
}

/* ---- A program that uses the same signal ---- */

static int heard, heard_directed;

static void hears(int number, siginfo_t *info, void *context)
{
    (void)context;
    CHECK_EQUAL(number, neap_stop_signal());
    __atomic_add_fetch(info->si_code == SI_TKILL ? &heard_directed : &heard, 1, __ATOMIC_SEQ_CST);
}

static void program_handler(void)
{
    int number = neap_stop_signal();
    struct sigaction action = {0}, old = {0};
    pthread_t threads[2];
    CHECK_EQUAL(sigaction(number, NULL, &old), 0);
    CHECK(old.sa_handler == SIG_DFL);
    action.sa_sigaction = hears;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    CHECK_EQUAL(sigaction(number, &action, NULL), 0);
    CHECK_EQUAL(sigaction(number, NULL, &old), 0);
    CHECK(old.sa_sigaction == hears && (old.sa_flags & SA_SIGINFO));
    start(threads, 2);
    until_ready(2);
    for (int turn = 0; turn < 200; turn++)
        CHECK(neap_collect());
    CHECK_EQUAL(heard, 0);
    CHECK_EQUAL(heard_directed, 0);
    for (int turn = 0; turn < 200; turn++) {
        int before = __atomic_load_n(&heard, __ATOMIC_SEQ_CST);
        CHECK_EQUAL(kill(getpid(), number), 0);
        CHECK(neap_collect());
        while (__atomic_load_n(&heard, __ATOMIC_SEQ_CST) == before)
            sched_yield();
    }
    CHECK_EQUAL(heard, 200);
    CHECK_EQUAL(heard_directed, 0);
    /* To a thread, as stops are: none is lost, once one was seen. */
    for (int turn = 0; turn < 200; turn++) {
        int before = __atomic_load_n(&heard_directed, __ATOMIC_SEQ_CST);
        CHECK_EQUAL(pthread_kill(threads[0], number), 0);
        if (turn > 0)
            CHECK(neap_collect());
        while (__atomic_load_n(&heard_directed, __ATOMIC_SEQ_CST) == before)
            sched_yield();
    }
    /* Taken away past the library, it is put back when an answer is late, a millisecond and not
       when it is asked again after a tenth of a second. */
    struct { void (*handler)(int); unsigned long flags; void *restorer; unsigned long mask;
        } none = {SIG_IGN, 0, NULL, 0};
    CHECK_EQUAL(syscall(SYS_rt_sigaction, number, &none, NULL, 8), 0);
    collect_beside(threads, 2);
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    fprintf(stderr, "# longest stop %.1f ms\n", statistics.pause_max_ns * 1e-6);
    CHECK(statistics.pause_max_ns < 100000000);
}

static const struct { const char *name; void (*run)(void); } cases[] = {
    {"full-queue", full_queue},
    {"queue-fills", queue_fills},
    {"refused-eperm", refused_eperm},
    {"refused-enosys", refused_enosys},
    {"refused-eagain", refused_eagain},
    {"refused-gettid", refused_gettid},
    {"refused-threads", refused_threads},
    {"refused-all", refused_all},
    {"refused-later", refused_later},
    {"cancelled", cancelled},
    {"program-handler", program_handler},
};

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            return finish();
        }
    }
    fprintf(stderr, "no such case: %s\n", name);
    return 2;
}
