/* Signals and stops: a thread in a handler on its alternate stack, with pointers there and on the
   stack it came from; programs that block all signals; errno; interrupted system calls; handlers of
   the program for other signals. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

static sem_t inside, leave;
static int handled;

static APART void make(void **place, int first)
{
    for (int i = 0; i < MANY; i++) {
        place[i] = neap_alloc(40);
        watch(first + i, place[i]);
    }
}

static APART void check_kept(void **place)
{
    for (int i = 0; i < MANY; i++)
        CHECK(neap_base(place[i]) == place[i]);
}

/* Runs on the alternate stack and waits there while another thread collects. Its objects were made
   outside: their only references are moved here. */
static void *handed_over[MANY];
static void on_alternate_stack(int number)
{
    void *kept[MANY];
    char here;
    (void)number;
    stack_t current;
    CHECK_EQUAL(sigaltstack(NULL, &current), 0);
    CHECK(&here >= (char *)current.ss_sp && &here < (char *)current.ss_sp + current.ss_size);
    memcpy(kept, handed_over, sizeof kept);
    memset(handed_over, 0, sizeof handed_over);
    __asm__ volatile("" : : "r"(kept) : "memory");
    sem_post(&inside);
    while (sem_wait(&leave) != 0)
        ;
    check_kept(kept);
    handled++;
}

static APART void with_alternate_stack(void)
{
    void *kept[MANY];
    make(kept, 0);
    make(handed_over, MANY);
    clear_stack();
    raise(SIGUSR1);
    check_kept(kept);
}

static ucontext_t fiber, left;

static void life(void)
{
    with_alternate_stack();
    neap_stack_switch(NULL);
}

/* On a stack that the program declared. */
static APART void in_a_fiber(void)
{
    enum { BYTES = 64 << 10 };
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    neap_stack *stack = neap_stack_create(memory, BYTES);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = memory;
    fiber.uc_stack.ss_size = BYTES;
    fiber.uc_link = &left;
    makecontext(&fiber, life, 0);
    neap_stack_switch(stack);
    swapcontext(&left, &fiber);
    neap_stack_retire(stack);
    munmap(memory, BYTES);
}

static void *thread(void *argument)
{
    stack_t stack = {0};
    stack.ss_size = 64 << 10;
    stack.ss_sp = malloc(stack.ss_size);
    CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
    if (argument)
        in_a_fiber();
    else
        with_alternate_stack();
    stack.ss_flags = SS_DISABLE;
    CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
    free(stack.ss_sp);
    return argument;
}

static int stop;

/* Blocks all it can, in both ways, and never makes a call that the collector could use. */
static void *blocks_everything(void *argument)
{
    sigset_t all, now;
    sigfillset(&all);
    CHECK_EQUAL(argument == NULL ? sigprocmask(SIG_BLOCK, &all, NULL)
        : pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
    CHECK(sigismember(&now, SIGUSR2) && !sigismember(&now, neap_stop_signal()));
    CHECK_EQUAL(sigprocmask(12345, &all, NULL), -1);
    CHECK_EQUAL(errno, EINVAL);
    long *counter = neap_alloc(sizeof *counter);
    volatile int *error = &errno; /* the compiler would not look again */
    sem_post(&inside);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        *error = 77;
        for (int i = 0; i < 1000; i++)
            ++*counter;
        if (*error != 77)
            CHECK(!"errno kept");
    }
    return argument;
}

/* A read that stops interrupt goes on. */
static void *reads(void *argument)
{
    char byte = 0;
    sem_post(&inside);
    CHECK_EQUAL(read(*(int *)argument, &byte, 1), 1);
    CHECK_EQUAL(byte, 'x');
    return argument;
}

static void count(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

int main(void)
{
    pthread_t threads[3];
    struct sigaction action = {0};
    int ends[2];
    sem_init(&inside, 0, 0);
    sem_init(&leave, 0, 0);
    action.sa_handler = on_alternate_stack;
    action.sa_flags = SA_ONSTACK;
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    for (int in_fiber = 0; in_fiber <= 1; in_fiber++) {
        CHECK_EQUAL(pthread_create(&threads[0], NULL, thread, in_fiber ? &fiber : NULL), 0);
        sem_wait(&inside);
        collect();
        churn(40, 20000);
        CHECK_ALL_ALIVE(0);
        CHECK_ALL_ALIVE(MANY);
        sem_post(&leave);
        CHECK_EQUAL(pthread_join(threads[0], NULL), 0);
        CHECK_EQUAL(handled, in_fiber + 1);
        memset(&fiber, 0, sizeof fiber);
        collect();
        CHECK_DEAD(0);
        CHECK_DEAD(MANY);
    }

    CHECK_EQUAL(pipe(ends), 0);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, blocks_everything, NULL), 0);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, blocks_everything, &stop), 0);
    CHECK_EQUAL(pthread_create(&threads[2], NULL, reads, &ends[0]), 0);
    for (int i = 0; i < 3; i++)
        sem_wait(&inside);
    /* A storm of the program's own signals meanwhile. */
    action.sa_handler = count;
    action.sa_flags = SA_RESTART;
    CHECK_EQUAL(sigaction(SIGUSR2, &action, NULL), 0);
    handled = 0;
    for (int i = 0; i < 200; i++) {
        kill(getpid(), SIGUSR2);
        CHECK(neap_collect());
    }
    CHECK(handled > 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(write(ends[1], "x", 1), 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);

    /* The first thread, too: its children inherit a mask that leaves the signal out. */
    sigset_t all;
    sigfillset(&all);
    CHECK_EQUAL(sigprocmask(SIG_SETMASK, &all, NULL), 0);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, blocks_everything, NULL), 0);
    sem_wait(&inside);
    collect();
    CHECK_EQUAL(pthread_join(threads[0], NULL), 0);
    return finish();
}
