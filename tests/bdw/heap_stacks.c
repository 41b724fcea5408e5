/* Stacks that are objects of the collected heap: alternate ones for signals, threads' own, and
   those of contexts. The kernel writes to them by itself: frames of signals, and the words in a
   thread's control block. Each is used before the first collection, when it has grown old, when it
   was made while collections go on, and in the child of a fork. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { OBJECTS = 20, TURNS = 4, ODD = 9200, SMALL = 16 << 10, LARGE = 256 << 10, GARBAGE = 3000,
    BALLAST = 30000 };

static volatile int handled, counted, stop, wants_signal;
static pthread_t asker;
static void *volatile garbage;
static sem_t asked, answered;

/* Enough of it for pages to be protected while it is marked. */
static void **ballast;

static APART void *make(int number)
{
    long *object = GC_malloc(64);
    object[0] = number;
    object[1] = ~number;
    return object;
}

/* A frame with the only references to some objects, and garbage made meanwhile. */
static APART void work(int collects)
{
    long *kept[OBJECTS];
    for (int index = 0; index < OBJECTS; index++)
        kept[index] = make(index);
    __asm__ volatile("" : : "r"(kept) : "memory");
    if (collects)
        GC_gcollect();
    for (int index = 0; index < 1000; index++)
        memset(GC_malloc(64), 0x55, 64);
    for (int index = 0; index < OBJECTS; index++)
        CHECK(kept[index][0] == index && kept[index][1] == ~index);
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

/* Lets an object grow old: pages of it that nobody writes to are protected. */
static void age(void)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int index = 0; index < GARBAGE; index++)
            garbage = GC_malloc(64);
        GC_gcollect();
    }
}

/* The same by another thread, which stops this one meanwhile. */
static void age_beside(void)
{
    sem_post(&asked);
    wait_for(&answered);
}

static void *collects_when_asked(void *argument)
{
    for (;;) {
        wait_for(&asked);
        if (stop)
            return argument;
        age();
        if (wants_signal)
            CHECK_EQUAL(pthread_kill(asker, SIGWINCH), 0);
        sem_post(&answered);
    }
}

/* On any stack. */
static void count_one(int number)
{
    (void)number;
    counted++;
}

/* A signal comes while this thread waits, its stack being old. */
static APART void be_signalled(void)
{
    int before = counted;
    asker = pthread_self();
    wants_signal = 1;
    age_beside();
    wants_signal = 0;
    CHECK_EQUAL(counted, before + 1);
}

static void handler(int number)
{
    char here;
    stack_t now;
    CHECK_EQUAL(sigaltstack(NULL, &now), 0);
    if (number == SIGUSR1)
        CHECK(&here >= (char *)now.ss_sp && &here < (char *)now.ss_sp + now.ss_size);
    if (handled % 2)
        work(handled % 4 == 1);
    else
        age_beside();
    handled++;
}

static void raise_some(int number)
{
    int before = handled;
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK_EQUAL(raise(number), 0);
        if (turn == 1)
            GC_gcollect();
    }
    CHECK_EQUAL(handled, before + TURNS);
}

/* The former stack is written to an object, too. */
static APART void on_alternate_stack(void *memory, size_t bytes, int old)
{
    stack_t *before = GC_malloc(sizeof *before), stack = {.ss_size = bytes, .ss_sp = memory};
    if (old)
        age();
    CHECK_EQUAL(sigaltstack(&stack, before), 0);
    raise_some(SIGUSR1);
    age();
    raise_some(SIGUSR1);
    if (old)
        stack.ss_flags = SS_DISABLE;
    CHECK_EQUAL(sigaltstack(old ? &stack : before, before), 0);
    CHECK(before->ss_sp == memory && before->ss_size == bytes);
    memset(memory, 0x55, bytes);
}

/* Those that are no multiple of a page begin and end within one, beside others. */
static void alternate(void)
{
    char *beside[8];
    for (int old = 0; old <= 1; old++) {
        on_alternate_stack(GC_malloc(SMALL), SMALL, old);
        on_alternate_stack(GC_malloc(LARGE), LARGE, old);
        on_alternate_stack(GC_malloc_uncollectable(LARGE), LARGE, old);
        for (int index = 0; index < 8; index++)
            beside[index] = GC_malloc(ODD);
        for (int index = 1; index < 8; index += 2) {
            beside[index - 1] = NULL;
            on_alternate_stack(beside[index], ODD, old);
        }
    }
}

static sem_t ready, leave;

static void *runs(void *argument)
{
    sem_post(&ready);
    wait_for(&leave);
    be_signalled();
    raise_some(SIGUSR2);
    /* libgc reads such a stack or the one that was left for it, not both. */
    if (on_neap())
        on_alternate_stack(GC_malloc(SMALL), SMALL, 1);
    work(1);
    return argument;
}

/* While it sleeps its stack grows old, and it ends when that is old again. */
static APART void thread_on(size_t bytes, int old)
{
    pthread_t thread;
    pthread_attr_t attributes;
    void *result, *stack = GC_memalign(4096, bytes);
    if (old)
        age();
    pthread_attr_init(&attributes);
    CHECK_EQUAL(pthread_attr_setstack(&attributes, stack, bytes), 0);
    CHECK_EQUAL(pthread_create(&thread, &attributes, runs, &thread), 0);
    pthread_attr_destroy(&attributes);
    wait_for(&ready);
    age();
    sem_post(&leave);
    age();
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    CHECK(result == &thread);
    memset(stack, 0x55, bytes);
}

static void threads(void)
{
    for (int old = 0; old <= 1; old++)
        thread_on(LARGE, old);
}

static ucontext_t caller, context;
static volatile int step;

static void in_context(void)
{
    for (;;) {
        if (step++ % 2)
            raise(SIGUSR2);
        else
            be_signalled();
        swapcontext(&context, &caller);
    }
}

static APART void change_stack(void *handle, struct GC_stack_base *base)
{
    GC_alloc_lock();
    GC_set_stackbottom(handle, base);
    GC_alloc_unlock();
}

/* A thread that tells of its stacks, and has none for signals. */
static void contexts(void)
{
    struct GC_stack_base base, there;
    void *handle = GC_get_my_stackbottom(&base);
    stack_t none = {.ss_flags = SS_DISABLE};
    CHECK_EQUAL(sigaltstack(&none, NULL), 0);
    step = 0;
    getcontext(&context);
    context.uc_stack.ss_sp = GC_malloc(LARGE);
    context.uc_stack.ss_size = LARGE;
    context.uc_link = NULL;
    there.mem_base = (char *)context.uc_stack.ss_sp + LARGE;
    makecontext(&context, in_context, 0);
    for (int turn = 1; turn <= TURNS; turn++) {
        if (turn % 4 < 2)
            age();
        change_stack(handle, &there);
        swapcontext(&caller, &context);
        change_stack(handle, &base);
        CHECK_EQUAL(step, turn);
    }
    memset(context.uc_stack.ss_sp, 0x55, LARGE);
}

static void *collects(void *argument)
{
    while (!stop) {
        for (int index = 0; index < 2000; index++)
            garbage = GC_malloc(100);
        GC_gcollect();
    }
    return argument;
}

/* With a thread that collects when it is asked to, and another that goes on collecting if `all the
   time`. */
static void with_collections(void (*part)(void), int all_the_time)
{
    pthread_t threads[2];
    stop = 0;
    CHECK_EQUAL(pthread_create(&threads[0], NULL, collects_when_asked, NULL), 0);
    if (all_the_time)
        CHECK_EQUAL(pthread_create(&threads[1], NULL, collects, NULL), 0);
    part();
    stop = 1;
    sem_post(&asked);
    for (int index = 0; index <= all_the_time; index++)
        CHECK_EQUAL(pthread_join(threads[index], NULL), 0);
}

static void in_child(void (*part)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        with_collections(part, 0);
        _exit(failures != 0);
    }
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

int main(int count, char **arguments)
{
    static const struct { const char *name; void (*part)(void); } parts[] = {
        {"alternate", alternate}, {"threads", threads}, {"contexts", contexts}};
    GC_set_handle_fork(1);
    GC_INIT();
    for (int index = 0; index < BALLAST; index++) {
        void **cell = GC_malloc(64);
        *cell = ballast;
        ballast = cell;
    }
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = 0;
    sigaction(SIGUSR2, &action, NULL);
    action.sa_handler = count_one;
    sigaction(SIGWINCH, &action, NULL);
    sem_init(&ready, 0, 0);
    sem_init(&leave, 0, 0);
    sem_init(&asked, 0, 0);
    sem_init(&answered, 0, 0);
    for (size_t index = 0; index < sizeof parts / sizeof *parts; index++) {
        if (count > 1 && strcmp(arguments[1], parts[index].name) != 0)
            continue;
        if (parts[index].part == alternate && !on_neap())
            continue;
        with_collections(parts[index].part, 0);
        in_child(parts[index].part);
        with_collections(parts[index].part, 1);
    }
    return finish();
}
