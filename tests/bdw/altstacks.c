/* Alternate stacks for signals: what only a handler on one has, and what the frames that it
   interrupted have, outlives a collection by another thread and by the handler itself; wherever the
   alternate stack lies. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { COUNT = 50, BYTES = 64 << 10 };

static sem_t inside, leave;
static void *handed_over[COUNT]; /* hidden */
static int handled, collects;

static APART void *make(int number)
{
    long *object = GC_malloc(64);
    object[0] = number;
    object[1] = ~number;
    return object;
}

static APART void check_kept(void *const *kept, int first)
{
    for (int index = 0; index < COUNT; index++) {
        long *object = kept[index];
        CHECK(object[0] == first + index && object[1] == ~(first + index));
    }
}

/* Takes the memory of whatever was freed. */
static APART void spoil(void)
{
    for (int index = 0; index < 20000; index++)
        memset(GC_malloc(64), 0x55, 64);
}

static void handler(int number)
{
    void *kept[COUNT];
    (void)number;
    for (int index = 0; index < COUNT; index++) {
        kept[index] = (void *)~(uintptr_t)handed_over[index];
        handed_over[index] = NULL;
    }
    __asm__ volatile("" : : "r"(kept) : "memory");
    if (collects) {
        GC_gcollect();
        spoil();
    } else {
        sem_post(&inside);
        while (sem_wait(&leave) != 0)
            ;
    }
    check_kept(kept, 1000);
    handled++;
}

static APART void hand_over(void)
{
    for (int index = 0; index < COUNT; index++)
        handed_over[index] = (void *)~(uintptr_t)make(1000 + index);
}

static APART void interrupted(int signal)
{
    void *kept[COUNT];
    for (int index = 0; index < COUNT; index++)
        kept[index] = make(index);
    __asm__ volatile("" : : "r"(kept) : "memory");
    hand_over();
    clear_stack();
    raise(signal);
    check_kept(kept, 0);
}

/* A system call that nobody stands before. */
static APART long unseen(long number, long first, const void *second, long third, long fourth)
{
    long result;
    register long last __asm__("r10") = fourth;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(last)
                     : "rcx", "r11", "memory");
    return result;
}

void end_handler(void);
__asm__(".text\n.globl end_handler\nend_handler: mov $15, %eax\nsyscall"); /* rt_sigreturn */

/* How the collector hears of the stack: by registration, by the functions that set it and the
   handler, or by both. The first comes first: what handlers ran on before may be remembered. */
enum told { BY_REGISTRATION, BY_BOTH, BY_FUNCTIONS };

static APART void set_stack(const stack_t *stack, enum told told)
{
    if (told == BY_REGISTRATION)
        CHECK_EQUAL(unseen(SYS_sigaltstack, (long)stack, NULL, 0, 0), 0);
    else
        CHECK_EQUAL(sigaltstack(stack, NULL), 0);
}

/* Handles SIGUSR2 unseen. */
static void handle_unseen(void)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {handler, SA_ONSTACK | 0x04000000 /* SA_RESTORER */, end_handler, 0};
    CHECK_EQUAL(unseen(SYS_rt_sigaction, SIGUSR2, &action, 0, sizeof action.mask), 0);
}

static APART void with(void *alternate, enum told told)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = BYTES};
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    CHECK_EQUAL(pthread_getattr_np(pthread_self(), &attributes), 0);
    CHECK_EQUAL(pthread_attr_getstack(&attributes, &low, &bytes), 0);
    pthread_attr_destroy(&attributes);
    set_stack(&stack, told);
    if (told != BY_FUNCTIONS)
        GC_register_altstack(low, bytes, alternate, BYTES);
    interrupted(told == BY_REGISTRATION ? SIGUSR2 : SIGUSR1);
    stack.ss_flags = SS_DISABLE;
    set_stack(&stack, told);
    if (told != BY_FUNCTIONS)
        GC_register_altstack(low, bytes, NULL, 0);
}

/* In the caller's frame, so above the frames that a handler interrupts. */
static APART void in_a_frame(enum told told)
{
    char alternate[BYTES];
    with(alternate, told);
    __asm__ volatile("" : : "r"(alternate) : "memory");
}

static void *everywhere(void *argument)
{
    for (enum told told = BY_REGISTRATION; told <= BY_FUNCTIONS; told++) {
        char *memory = malloc(BYTES);
        with(memory, told);
        free(memory);
        memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        with(memory, told);
        munmap(memory, BYTES);
        with(GC_malloc_uncollectable(BYTES), told);
        in_a_frame(told);
    }
    return argument;
}

int main(void)
{
    GC_INIT();
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    handle_unseen();
    sem_init(&inside, 0, 0);
    sem_init(&leave, 0, 0);
    enum { EXPECTED = 12 };
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, everywhere, NULL), 0);
    for (int turn = 0; turn < EXPECTED; turn++) {
        while (sem_wait(&inside) != 0)
            ;
        GC_gcollect();
        spoil();
        sem_post(&leave);
    }
    pthread_join(thread, NULL);
    CHECK_EQUAL(handled, EXPECTED);
    collects = 1;
    CHECK_EQUAL(pthread_create(&thread, NULL, everywhere, NULL), 0);
    pthread_join(thread, NULL);
    everywhere(NULL);
    CHECK_EQUAL(handled, 3 * EXPECTED);
    return finish();
}
