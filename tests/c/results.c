/* What a thread returned, or gave to pthread_exit, is alive until it is joined, and dead after that
   if nobody else has it; a thread that is detached, before or after its end, keeps nothing. Each
   thread's result is an object that a link watches, and nothing else points to. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum { KEPT = 0x600d };

static int first; /* of the watched objects of this round */
static pthread_t first_thread;
static sem_t go;

static APART long *result(long i)
{
    long *made = neap_alloc(4 * sizeof *made);
    made[1] = KEPT + i;
    watch(first + (int)i, made);
    return made;
}

static APART void *returns(void *i)
{
    return result((long)i);
}

static APART void deeper(long i)
{
    pthread_exit(result(i));
}

static APART void *exits(void *i)
{
    deeper((long)i);
    return NULL;
}

static void *(*const ends[])(void *) = {returns, exits};

static int joins(pthread_t thread, void **to) { return pthread_join(thread, to); }
static int joins_by_name(pthread_t thread, void **to) { return neap_pthread_join(thread, to); }
static int tries(pthread_t thread, void **to)
{
    int error;
    while ((error = pthread_tryjoin_np(thread, to)) == EBUSY)
        sched_yield();
    return error;
}
static struct timespec in_a_minute(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += 60;
    return time;
}
static int joins_until(pthread_t thread, void **to)
{
    struct timespec time = in_a_minute(CLOCK_REALTIME);
    return pthread_timedjoin_np(thread, to, &time);
}
static int joins_by_clock(pthread_t thread, void **to)
{
    struct timespec time = in_a_minute(CLOCK_MONOTONIC);
    return pthread_clockjoin_np(thread, to, CLOCK_MONOTONIC, &time);
}
static int (*const ways[])(pthread_t, void **) = {joins, joins_by_name, tries, joins_until,
    joins_by_clock};

static APART void begin_all(pthread_t *threads)
{
    for (long i = 0; i < MANY; i++)
        CHECK_EQUAL((i % 3 ? pthread_create : neap_pthread_create)(&threads[i], NULL, ends[i % 2],
            (void *)i), 0);
}

/* They have ended once their objects are watched and they are gone from the process. */
static int threads_there(void)
{
    int there = -1;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Threads: %d", &there) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return there;
}
static void wait_until_there_are(int threads)
{
    for (int i = 0; i < 30000 && threads_there() > threads; i++)
        usleep(1000);
}

static APART void join_all(pthread_t *threads)
{
    for (long i = 0; i < MANY; i++) {
        void *got = NULL;
        CHECK_EQUAL(ways[i % 5](threads[i], &got), 0);
        CHECK(got != NULL && ((long *)got)[1] == KEPT + i);
    }
}

static APART void joined(int before)
{
    pthread_t threads[MANY];
    first = 0;
    begin_all(threads);
    wait_until_there_are(before);
    collect();
    churn(4 * sizeof(long), 20000);
    CHECK_ALL_ALIVE(0);
    join_all(threads);
    memset(threads, 0, sizeof threads);
    clear_stack();
}

static APART void *waits_to_return(void *i)
{
    sem_wait(&go);
    return result((long)i);
}

static APART void *detaches_itself(void *i)
{
    pthread_detach(pthread_self());
    return result((long)i);
}

/* Before it has begun or later, by itself, after it has ended. */
static APART void detached(int before)
{
    pthread_t threads[MANY];
    first = MANY;
    sem_init(&go, 0, 0);
    for (long i = 0; i < MANY; i++) {
        void *(*start)(void *) = i % 3 == 0 ? waits_to_return : i % 3 == 1 ? detaches_itself
            : returns;
        CHECK_EQUAL(pthread_create(&threads[i], NULL, start, (void *)i), 0);
        if (i % 3 == 0)
            CHECK_EQUAL((i % 2 ? pthread_detach : neap_pthread_detach)(threads[i]), 0);
    }
    for (long i = 0; i < MANY; i++) {
        if (i % 3 == 0)
            sem_post(&go);
        if (i % 3 == 2) {
            usleep(1000);
            CHECK_EQUAL(pthread_detach(threads[i]), 0);
        }
    }
    wait_until_there_are(before);
    clear_stack();
}

/* A child has none of the others, and keeps nothing for them. */
static APART void forked(int before)
{
    pthread_t threads[MANY];
    first = 2 * MANY;
    begin_all(threads);
    wait_until_there_are(before);
    pid_t child = fork();
    if (child == 0) {
        memset(threads, 0, sizeof threads);
        collect();
        CHECK_DEAD(2 * MANY);
        first = 3 * MANY;
        begin_all(threads);
        join_all(threads);
        _exit(finish());
    }
    CHECK(succeeded(child));
    collect();
    CHECK_ALL_ALIVE(2 * MANY);
    join_all(threads);
    memset(threads, 0, sizeof threads);
}

static void wait_until_first_has_ended(void)
{
    int has_ended = 0;
    for (int i = 0; i < 30000 && !has_ended; i++) {
        char line[256];
        FILE *file = fopen("/proc/self/status", "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            has_ended |= strncmp(line, "State:\tZ", 8) == 0;
        if (file != NULL)
            fclose(file);
        usleep(1000);
    }
    CHECK(has_ended);
}

static void *joins_first(void *unused)
{
    void *got = NULL;
    (void)unused;
    wait_until_first_has_ended();
    collect();
    churn(4 * sizeof(long), 20000);
    CHECK_ALL_ALIVE(4 * MANY);
    CHECK_EQUAL(pthread_join(first_thread, &got), 0);
    CHECK(got != NULL && ((long *)got)[1] == KEPT + MANY - 1);
    got = NULL;
    clear_stack();
    collect();
    CHECK_DEAD(4 * MANY);
    exit(finish());
}

/* Its result holds all others of this round. */
static APART void first_exits(void)
{
    long *list = NULL;
    for (long i = 0; i < MANY; i++) {
        long *made = result(i);
        made[0] = (long)list;
        list = made;
    }
    pthread_exit(list);
}

int main(void)
{
    CHECK(neap_collect());
    usleep(50000);
    int before = threads_there();
    joined(before);
    detached(before);
    forked(before);
    clear_stack();
    collect();
    CHECK_DEAD(0);
    CHECK_DEAD(MANY);
    CHECK_DEAD(2 * MANY);
    CHECK(pthread_join(pthread_self(), NULL) != 0);
    first = 4 * MANY;
    first_thread = pthread_self();
    CHECK_EQUAL(pthread_create(&(pthread_t){0}, NULL, joins_first, NULL), 0);
    first_exits();
}
