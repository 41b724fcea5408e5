/* The signal that stops threads: what the system refuses, what the program does with signals itself, cancellation, and masks loses no object and
   holds nobody up. Usage: stop_signal CASE; the cases are below. Threads here hold the only pointers to their objects and make no call meanwhile. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <ucontext.h>

static int ready, over;

/* Objects that only the caller's stack holds, until the test is over. */
static APART void hold(int first)
{
    void *held[MANY];
    for (int i = 0; i < MANY; i++) {
        held[i] = neap_alloc(40);
        watch(first + i, held[i]);
    }
    clear_stack();
    __asm__ volatile("" : : "r"(held) : "memory");
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        ;
    for (int i = 0; i < MANY; i++)
        CHECK(neap_base(held[i]) == held[i]);
}

static void *holder(void *first)
{
    hold((int)(intptr_t)first);
    return NULL;
}

static void until_ready(int count)
{
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < count)
        sched_yield();
}

/* Two threads hold objects; what is not found dies and is used again. */
static APART void collect_beside(pthread_t *threads, int count)
{
    until_ready(count);
    for (int turn = 0; turn < 10; turn++) {
        CHECK(neap_collect());
        churn(40, 20000);
    }
    for (int i = 0; i < count; i++)
        CHECK_ALL_ALIVE(i * MANY);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void start(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, holder, (void *)(intptr_t)(i * MANY)), 0);
}

static void beside_two(void)
{
    pthread_t threads[2];
    start(threads, 2);
    collect_beside(threads, 2);
}

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
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, filter};
    CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQUAL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program), 0);
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

/* ---- Masks ---- */

static sigset_t everything(void)
{
    sigset_t all;
    sigfillset(&all);
    return all;
}

static void by_sighold(void)
{
    for (int number = 1; number < NSIG; number++)
        sighold(number);
}

static void by_sigset(void)
{
    for (int number = 1; number < NSIG; number++)
        sigset(number, SIG_HOLD);
}

static void by_sigblock(void)
{
    sigblock(-1);
}

static void by_sigsetmask(void)
{
    sigsetmask(-1);
}

static ucontext_t left, entered;
static char context_stack[256 << 10];

static void by_setcontext(void)
{
    volatile int again = 0;
    getcontext(&entered);
    if (again++ == 0) {
        entered.uc_sigmask = everything();
        setcontext(&entered);
    }
}

/* Blocks what it can in the way that it is given, and holds objects then. */
static void *blocks_by(void *way)
{
    ((void (*)(void))way)();
    hold(0);
    return NULL;
}

static void in_the_context(void)
{
    hold(0);
    neap_stack_switch(NULL);
}

static void *swaps(void *argument)
{
    CHECK(neap_alloc(40) != NULL);
    neap_stack *stack = neap_stack_create(context_stack, sizeof context_stack);
    getcontext(&entered);
    entered.uc_stack.ss_sp = context_stack;
    entered.uc_stack.ss_size = sizeof context_stack;
    entered.uc_link = &left;
    makecontext(&entered, in_the_context, 0);
    entered.uc_sigmask = everything();
    neap_stack_switch(stack);
    swapcontext(&left, &entered);
    neap_stack_retire(stack);
    memset(context_stack, 0, sizeof context_stack); /* static data, so a root */
    return argument;
}

static pthread_t made_in_handler;

static void makes(int number)
{
    (void)number;
    CHECK_EQUAL(pthread_create(&made_in_handler, NULL, holder, NULL), 0);
}

static void holds_in_handler(int number)
{
    (void)number;
    hold(0);
}

static void set_full(int number, void (*handler)(int))
{
    struct sigaction action = {0};
    action.sa_handler = handler;
    action.sa_mask = everything();
    CHECK_EQUAL(sigaction(number, &action, NULL), 0);
}

static void *in_a_handler(void *argument)
{
    set_full(SIGUSR2, holds_in_handler);
    raise(SIGUSR2);
    return argument;
}

static void in_one(pthread_t thread)
{
    collect_beside(&thread, 1);
    ready = over = 0;
    collect();
    CHECK_DEAD(0);
}

static void *waits(void *argument)
{
    sigset_t all = everything();
    int number;
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
    CHECK_EQUAL(sigwait(&all, &number), 0);
    CHECK_EQUAL(number, SIGUSR1);
    return argument;
}

static void *reads_signals(void *argument)
{
    sigset_t all = everything();
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    int file = signalfd(-1, &all, SFD_CLOEXEC);
    CHECK(file >= 0);
    __atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
    struct signalfd_siginfo info;
    CHECK_EQUAL(read(file, &info, sizeof info), sizeof info);
    CHECK_EQUAL(info.ssi_signo, SIGUSR1);
    close(file);
    return argument;
}

static void *waits_for_information(void *argument)
{
    sigset_t all = everything();
    siginfo_t info;
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
    CHECK_EQUAL(sigwaitinfo(&all, &info), SIGUSR1);
    return argument;
}

static void masks(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all = everything();
    void (*const ways[])(void) = {by_sighold, by_sigset, by_sigblock, by_sigsetmask, by_setcontext};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        CHECK_EQUAL(pthread_create(&thread, NULL, blocks_by, (void *)ways[i]), 0);
        in_one(thread);
    }
    pthread_attr_init(&attributes);
    CHECK_EQUAL(pthread_attr_setsigmask_np(&attributes, &all), 0);
    CHECK_EQUAL(pthread_create(&thread, &attributes, holder, NULL), 0);
    in_one(thread);
    CHECK_EQUAL(pthread_create(&thread, NULL, swaps, NULL), 0);
    in_one(thread);
    CHECK_EQUAL(pthread_create(&thread, NULL, in_a_handler, NULL), 0);
    in_one(thread);
    set_full(SIGUSR1, makes);
    raise(SIGUSR1);
    in_one(made_in_handler);
    /* Who waits for all signals gets its own, and is stopped meanwhile. */
    void *(*const waiters[])(void *) = {waits, reads_signals, waits_for_information};
    for (size_t i = 0; i < sizeof waiters / sizeof *waiters; i++) {
        ready = 0;
        CHECK_EQUAL(pthread_create(&thread, NULL, waiters[i], NULL), 0);
        until_ready(1);
        for (int turn = 0; turn < 20; turn++)
            CHECK(neap_collect());
        CHECK_EQUAL(pthread_kill(thread, SIGUSR1), 0);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
    }
}

/* A mask that blocks all is handed on over execve. */
static void inherited(const char *self)
{
    if (getenv("INHERITED") != NULL) {
        beside_two();
        return;
    }
    sigset_t all = everything();
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    setenv("INHERITED", "1", 1);
    execl(self, self, "inherited", NULL);
    CHECK(!"executed");
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
    /* Taken away past the library, it is put back when an answer is late. */
    struct { void (*handler)(int); unsigned long flags; void *restorer; unsigned long mask; } none = {SIG_IGN, 0, NULL, 0};
    CHECK_EQUAL(syscall(SYS_rt_sigaction, number, &none, NULL, 8), 0);
    collect_beside(threads, 2);
}

static const struct { const char *name; void (*run)(void); } cases[] = {
    {"full-queue", full_queue},
    {"queue-fills", queue_fills},
    {"refused-eperm", refused_eperm},
    {"refused-enosys", refused_enosys},
    {"refused-eagain", refused_eagain},
    {"refused-gettid", refused_gettid},
    {"refused-all", refused_all},
    {"refused-later", refused_later},
    {"cancelled", cancelled},
    {"masks", masks},
    {"program-handler", program_handler},
};

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
    if (strcmp(name, "inherited") == 0) {
        inherited(arguments[0]);
        return finish();
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            return finish();
        }
    }
    fprintf(stderr, "no such case: %s\n", name);
    return 2;
}
