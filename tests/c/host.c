/* A host that stops its own threads, which are more than processors: objects that only their stacks
 * hold live, threads that the host does not know are stopped as well, a thread in the middle of the
 * library is not stopped before it is out of it, and only threads that the host knows ask for a
 * stop. */
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

enum { MOST_HOSTED = 34, ROUNDS = 900 };

struct hosted {
    pthread_t id;
    char *base, *_Atomic position;
};
static struct hosted hosted[MOST_HOSTED + 1];
/* Threads besides the first, and what each does. */
static int others, rounds_each;
static _Atomic int known, stops, late, ended;
static atomic_bool done;
static _Thread_local struct hosted *self;
static sem_t standing;
static _Atomic unsigned epoch;
static void *host_root;
static int environment;
/* While `resume` of every eighth stop still has threads to wake, as it seems to those that it has
   woken. */
static atomic_bool waking;
/* Threads that went on while it had, and those that were to wait for the others. */
static _Atomic int early, together;

static void stand(int number)
{
    (void)number;
    int kept_errno = errno;
    int stopped = neap_world_may_stop();
    if (stopped) {
        unsigned stop = epoch;
        /* The frame of the signal holds the registers, and lies above this one. */
        self->position = __builtin_frame_address(0);
        sem_post(&standing);
        while (epoch == stop)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        /* Some go on at once, which is as good. */
        if (stop % 4 != 0) {
            int is_waking = waking;
            neap_world_go_on(stopped);
            atomic_fetch_add(&together, is_waking);
            atomic_fetch_add(&early, is_waking && waking && epoch == stop + 1);
        }
    } else
        atomic_fetch_add(&late, 1);
    errno = kept_errno;
}

static int stop(void *argument)
{
    CHECK(argument == &environment);
    CHECK(self != NULL);
    atomic_fetch_add(&stops, 1);
    int asked = 0;
    for (int i = 0; i < known; i++)
        if (&hosted[i] != self && pthread_kill(hosted[i].id, SIGUSR1) == 0)
            asked++;
    while (asked > 0)
        if (sem_wait(&standing) == 0)
            asked--;
    return 0;
}

static void resume(void *argument)
{
    (void)argument;
    unsigned stop = epoch;
    waking = stop % 8 == 1;
    epoch++;
    if (waking)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    waking = 0;
    if (stop == 1) {
        /* This thread is not waited for for ever, though the stop that it is told of cannot end
           before it. */
        struct timespec before, after;
        int stopped = neap_world_may_stop();
        CHECK(stopped % 2 != 0);
        clock_gettime(CLOCK_MONOTONIC, &before);
        neap_world_go_on(stopped);
        clock_gettime(CLOCK_MONOTONIC, &after);
        long waited = (after.tv_sec - before.tv_sec) * 1000000
            + (after.tv_nsec - before.tv_nsec) / 1000;
        CHECK(waited >= 4000);
        neap_world_go_on(stopped + 1);
    }
}

static void roots(neap_range_visitor *visit, void *visitor, void *argument)
{
    (void)argument;
    self->position = __builtin_frame_address(0);
    for (int i = 0; i < known; i++)
        visit(hosted[i].position, hosted[i].base, visitor);
    visit(&host_root, &host_root + 1, visitor);
}

static void stop_late(void *argument)
{
    (void)argument;
    pthread_kill(pthread_self(), SIGUSR1);
}

static int is_own_thread(void *argument)
{
    (void)argument;
    return self != NULL;
}

static APART void **list(int length)
{
    void **first = NULL;
    for (int i = 0; i < length; i++) {
        void **node = neap_alloc(2 * sizeof(void *));
        node[0] = first;
        node[1] = (void *)(intptr_t)(i << 1 | 1);
        first = node;
    }
    return first;
}

static APART int length(void **node)
{
    int count = 0;
    for (; node != NULL; node = node[0])
        count++;
    return count;
}

static void work(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        void **kept = list(200);
        for (int i = 0; i < 2000; i++)
            *(char *)neap_alloc(16 + 8 * (i % 60)) = 1;
        CHECK_EQUAL(length(kept), 200);
    }
}

static void *hosted_thread(void *argument)
{
    self = argument;
    self->base = (char *)__builtin_frame_address(0) + 64;
    self->position = self->base;
    atomic_fetch_add(&known, 1);
    while (known <= others)
        sched_yield();
    work(rounds_each);
    atomic_fetch_add(&ended, 1);
    while (!done)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return NULL;
}

static void *foreign_thread(void *argument)
{
    (void)argument;
    /* A thread that cannot stop the host's leaves cycles to those that can. */
    CHECK(!neap_collect());
    work(rounds_each);
    return NULL;
}

int main(void)
{
    neap_world world = {stop, resume, roots, stop_late, is_own_thread, &environment};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    others = processors < MOST_HOSTED - 1 ? (int)processors + 1 : MOST_HOSTED;
    rounds_each = ROUNDS / others;
    sem_init(&standing, 0, 0);
    struct sigaction action = {.sa_handler = stand, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    neap_set_misuse_callback(NULL, NULL);
    CHECK_EQUAL(neap_set_world(&world), NEAP_OK);
    self = &hosted[0];
    hosted[0].id = pthread_self();
    hosted[0].base = (char *)__builtin_frame_address(0) + 64;
    hosted[0].position = hosted[0].base;
    known = 1;
    host_root = list(1000);
    for (int i = 1; i <= others; i++) {
        CHECK_EQUAL(pthread_create(&hosted[i].id, NULL, hosted_thread, &hosted[i]), 0);
        while (known <= i)
            sched_yield();
    }
    pthread_t foreign;
    CHECK_EQUAL(pthread_create(&foreign, NULL, foreign_thread, NULL), 0);
    int before = stops;
    while (ended < others) {
        CHECK(neap_collect());
        work(1);
    }
    CHECK(stops > before + 10);
    /* One that got no processor for 5 ms goes on early. */
    CHECK(together > 0 && early * 4 <= together);
    CHECK_EQUAL(pthread_join(foreign, NULL), 0);
    CHECK_EQUAL(length(host_root), 1000);
    done = 1;
    for (int i = 1; i <= others; i++)
        pthread_join(hosted[i].id, NULL);
    fprintf(stderr, "%d stops, %d of them late for a thread, %d of %d went on early\n", stops, late,
        early, together);
    return finish();
}
