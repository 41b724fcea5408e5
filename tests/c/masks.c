/* Whatever way a thread has its signals blocked, or waits for them, it is stopped. Usage: masks
   [inherited]; the second calls itself. */
#include "held.h"
#include <setjmp.h>
#include <sys/signalfd.h>
#include <ucontext.h>

static sigset_t everything(void)
{
    sigset_t all;
    /* It fills what the kernel reads; what else lay there would be copied to static data. */
    memset(&all, 0, sizeof all);
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

/* To a mask that the jump's target was given when the stop signal was still blocked, as it may be
   when a program begins. */
static void jumps_by(void (*jump)(sigjmp_buf, int) __attribute__((noreturn)))
{
    sigjmp_buf place;
    if (sigsetjmp(place, 1) == 0) {
        place->__saved_mask = everything();
        jump(place, 1);
    }
}

static void by_siglongjmp(void)
{
    jumps_by(siglongjmp);
}

static void by_longjmp(void)
{
    jumps_by(longjmp);
}

static void by_its_short_name(void)
{
    jumps_by(_longjmp);
}

extern void __longjmp_chk(sigjmp_buf, int) __attribute__((noreturn));

static void by_the_checked_one(void)
{
    jumps_by(__longjmp_chk);
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
    void (*const ways[])(void) = {by_sighold, by_sigset, by_sigblock, by_sigsetmask,
                                   by_setcontext, by_siglongjmp, by_longjmp, by_its_short_name,
                                   by_the_checked_one};
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

int main(int count, char **arguments)
{
    if (count > 1)
        inherited(arguments[0]);
    else
        masks();
    return finish();
}
