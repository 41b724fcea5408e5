/* Coroutines of the program's own whose stacks are objects of the heap: the collector may not
   protect what a thread stands on in a way that ends it. Signals of the program's own come now and
   then, on these stacks too. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <ucontext.h>

enum { COROUTINES = 8, STACK = 64 << 10, SMALL_STACK = 12 << 10, ROUNDS = 200, LIVE = 100000,
    LENGTH = 200 };

struct node { struct node *next; long words[7]; };

static struct { ucontext_t *context; char *stack; } coroutines[COROUTINES];
static ucontext_t mine;
static struct node *live;
static int stop;

/* Writes further and further down, and has the kernel write there too. */
static APART int descend(int frames)
{
    char room[600];
    struct stat status;
    memset(room, frames, sizeof room);
    CHECK_EQUAL(fstat(0, &status) < 0 && errno == EFAULT, 0);
    __asm__ volatile("" : : "r"(room) : "memory");
    return frames > 0 ? descend(frames - 1) + room[3] : 0;
}

static void life(int number)
{
    for (int round = 0;; round++) {
        struct node *kept = NULL;
        for (int index = 0; index < LENGTH; index++) {
            struct node *node = neap_alloc(sizeof *node);
            node->next = kept;
            node->words[0] = index;
            kept = node;
        }
        descend(number % 2 ? round % 50 : round % 5);
        int length = 0;
        for (struct node *node = kept; node; node = node->next)
            length += node->words[0] == LENGTH - 1 - length;
        CHECK_EQUAL(length, LENGTH);
        swapcontext(coroutines[number].context, &mine);
    }
}

static void on_signal(int signal)
{
    char room[300];
    memset(room, signal, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
}

static void *allocate(void *argument)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        CHECK(neap_alloc_leaf(64));
    return argument;
}

int main(void)
{
    pthread_t other;
    struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
    signal(SIGALRM, on_signal);
    for (int index = 0; index < LIVE; index++) {
        struct node *node = neap_alloc(sizeof *node);
        node->next = live;
        live = node;
    }
    CHECK_EQUAL(pthread_create(&other, NULL, allocate, NULL), 0);
    for (int index = 0; index < COROUTINES; index++) {
        coroutines[index].context = neap_alloc(sizeof(ucontext_t));
        coroutines[index].stack = neap_alloc(index % 2 ? STACK : SMALL_STACK);
    }
    /* From here on they are watched like every other object. */
    CHECK(neap_collect());
    for (int index = 0; index < COROUTINES; index++) {
        ucontext_t *context = coroutines[index].context;
        getcontext(context);
        context->uc_stack.ss_sp = coroutines[index].stack;
        context->uc_stack.ss_size = index % 2 ? STACK : SMALL_STACK;
        makecontext(context, (void (*)(void))life, 1, index);
    }
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < ROUNDS; round++)
        for (int index = 0; index < COROUTINES; index++) {
            swapcontext(&mine, coroutines[index].context);
            if (round % 20 == 0 && index == round / 20 % COROUTINES)
                CHECK(neap_collect());
        }
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    return finish();
}
