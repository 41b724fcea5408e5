/* Threads that wait in libc are stopped by nobody: however many there are, a collection wakes none
   of them. What they alone hold stays alive, in their frames, in registers and as an argument of
   the wait; and they go on when what they wait for comes. Usage: idle_threads [THREADS] */
#include "check.h"
#include <dirent.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>

enum { MOST = 1000, COLLECTIONS = 20 };

static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static mtx_t c11_mutex;
static cnd_t c11_condition;
static int is_over, ends[2], sockets[2], listener, epoll;
static pthread_t sleeper;
static volatile long ids[MOST];
static int returned;

static struct timespec in_an_hour(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += 3600;
    return time;
}

/* Each waits until all is over. */
static void wait_sem(void) { CHECK_EQUAL(sem_wait(&semaphore), 0); }
static void wait_sem_timed(void)
{
    struct timespec end = in_an_hour(CLOCK_REALTIME);
    CHECK_EQUAL(sem_timedwait(&semaphore, &end), 0);
}
static void wait_sem_clock(void)
{
    struct timespec end = in_an_hour(CLOCK_MONOTONIC);
    CHECK_EQUAL(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end), 0);
}
static void wait_condition(void)
{
    pthread_mutex_lock(&mutex);
    while (!is_over)
        CHECK_EQUAL(pthread_cond_wait(&condition, &mutex), 0);
    pthread_mutex_unlock(&mutex);
}
static void wait_condition_timed(void)
{
    struct timespec end = in_an_hour(CLOCK_REALTIME);
    pthread_mutex_lock(&mutex);
    while (!is_over)
        CHECK_EQUAL(pthread_cond_timedwait(&condition, &mutex, &end), 0);
    pthread_mutex_unlock(&mutex);
}
static void wait_condition_clock(void)
{
    struct timespec end = in_an_hour(CLOCK_MONOTONIC);
    pthread_mutex_lock(&mutex);
    while (!is_over)
        CHECK_EQUAL(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &end), 0);
    pthread_mutex_unlock(&mutex);
}
static void wait_c11(void)
{
    struct timespec end = in_an_hour(CLOCK_REALTIME);
    mtx_lock(&c11_mutex);
    while (!is_over)
        CHECK_EQUAL(cnd_timedwait(&c11_condition, &c11_mutex, &end), thrd_success);
    mtx_unlock(&c11_mutex);
}
/* The buffer is nobody's but the kernel's. */
static int buffers;
static APART void *buffer(void)
{
    void *made = neap_alloc(64);
    watch(__atomic_fetch_add(&buffers, 1, __ATOMIC_RELAXED), made);
    return made;
}
static void wait_read(void) { CHECK_EQUAL(read(ends[0], buffer(), 64), 0); }
static void wait_recv(void) { CHECK_EQUAL(recv(sockets[0], buffer(), 64, 0), 0); }
static void wait_accept(void)
{
    int socket = accept(listener, NULL, NULL);
    CHECK(socket < 0 && errno == EINVAL);
}
static void wait_poll(void)
{
    CHECK_EQUAL(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, -1), 1);
}
static void wait_ppoll(void)
{
    sigset_t none;
    sigemptyset(&none);
    CHECK_EQUAL(ppoll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, NULL, &none), 1);
}
static void wait_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    CHECK_EQUAL(select(ends[0] + 1, &set, NULL, NULL, NULL), 1);
}
static void wait_epoll(void)
{
    struct epoll_event event;
    CHECK_EQUAL(epoll_wait(epoll, &event, 1, -1), 1);
}
static void wait_futex(void)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        long result = syscall(SYS_futex, &is_over, FUTEX_WAIT_PRIVATE, 0, NULL);
        CHECK(result == 0 || errno == EAGAIN);
    }
}
static void wait_join(void)
{
    void *result = NULL;
    CHECK_EQUAL(pthread_join(sleeper, &result), 0);
    CHECK(result == &semaphore);
}

static void (*const all[])(void) = {wait_sem, wait_sem_timed, wait_sem_clock, wait_condition,
    wait_condition_timed, wait_condition_clock, wait_c11, wait_read, wait_recv, wait_accept,
    wait_poll, wait_ppoll, wait_select, wait_epoll, wait_futex};

static APART uintptr_t *object_of(uintptr_t number)
{
    uintptr_t *object = neap_alloc(4 * sizeof *object);
    if (object == NULL)
        abort();
    for (int i = 0; i < 4; i++)
        object[i] = number * 1000 + i;
    return object;
}

static void *thread(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    /* In a register that calls keep, if the compiler finds one. */
    uintptr_t *object = object_of(number);
    __atomic_store_n(&ids[number], syscall(SYS_gettid), __ATOMIC_RELEASE);
    if (number == 0)
        wait_join();
    else
        all[number % (sizeof all / sizeof *all)]();
    int intact = 1;
    for (int i = 0; i < 4; i++)
        intact &= object[i] == number * 1000 + i;
    CHECK(intact);
    __atomic_add_fetch(&returned, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void *sleeps(void *unused)
{
    (void)unused;
    wait_sem();
    return &semaphore;
}

/* How often a thread left its processor, -1 while it runs. */
static long switches(long id)
{
    char path[64], line[256], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", id);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    long voluntary = -1, other = -1;
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "State: %c", &state);
        sscanf(line, "voluntary_ctxt_switches: %ld", &voluntary);
        sscanf(line, "nonvoluntary_ctxt_switches: %ld", &other);
    }
    fclose(file);
    return state == 'S' ? voluntary + other : -1;
}

/* Those of all threads, once all of them sleep and have slept for a while; -1 if they do not. */
static long total_when_asleep(int threads)
{
    long last = -1;
    for (int turn = 0; turn < 200; turn++) {
        long total = 0;
        for (int i = 0; i < threads && total >= 0; i++) {
            long id = __atomic_load_n(&ids[i], __ATOMIC_ACQUIRE);
            long one = id == 0 ? -1 : switches(id);
            total = one < 0 ? -1 : total + one;
        }
        if (total >= 0 && total == last)
            return total;
        last = total;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return -1;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : MOST;
    CHECK(threads > 0 && threads <= MOST);
    sem_init(&semaphore, 0, 0);
    mtx_init(&c11_mutex, mtx_plain);
    cnd_init(&c11_condition);
    CHECK_EQUAL(pipe(ends), 0);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr address = {.sa_family = AF_UNIX};
    CHECK_EQUAL(bind(listener, &address, sizeof address.sa_family), 0);
    CHECK_EQUAL(listen(listener, 1), 0);
    epoll = epoll_create1(0);
    CHECK_EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0],
        &(struct epoll_event){.events = EPOLLIN}), 0);

    static pthread_t made[MOST];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    CHECK_EQUAL(pthread_create(&sleeper, &small, sleeps, NULL), 0);
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++)
        if (pthread_create(&made[i], &small, thread, (void *)i) != 0) {
            fprintf(stderr, "only %lu threads\n", (unsigned long)i);
            threads = i;
        }
    long before = total_when_asleep(threads);
    CHECK(before > 0);
    for (int i = 0; i < COLLECTIONS; i++) {
        CHECK(neap_collect());
        churn(32, 4000);
        churn(64, 4000);
    }
    CHECK_EQUAL(total_when_asleep(threads), before);
    int lost = 0;
    for (int i = 0; i < buffers; i++)
        lost += watched[i] == NULL;
    CHECK_EQUAL(lost, 0);
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    fprintf(stderr, "# %d threads: longest stop %.3f ms, half of them within %.3f\n", threads,
            statistics.pause_max_ns * 1e-6, statistics.pause_p50_ns * 1e-6);

    for (int i = 0; i <= threads; i++)
        sem_post(&semaphore);
    pthread_mutex_lock(&mutex);
    mtx_lock(&c11_mutex);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    mtx_unlock(&c11_mutex);
    pthread_mutex_unlock(&mutex);
    pthread_cond_broadcast(&condition);
    cnd_broadcast(&c11_condition);
    CHECK(syscall(SYS_futex, &is_over, FUTEX_WAKE_PRIVATE, MOST) >= 0);
    close(ends[1]);
    shutdown(sockets[1], SHUT_RDWR);
    shutdown(listener, SHUT_RDWR);
    for (int i = 0; i < threads; i++)
        CHECK_EQUAL(pthread_join(made[i], NULL), 0);
    CHECK_EQUAL(returned, threads);
    return finish();
}
