/* A process ends, with its exit handlers, when its last thread does, by whatever thread of the
   program that is: those of the library do not count. */
#include "check.h"
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static int told[2];

static void at_exit(void)
{
    ssize_t written = write(told[1], "x", 1);
    (void)written;
}

static APART void allocate(void)
{
    for (int at = 0; at < 300000; at++)
        GC_MALLOC(64);
}

static void *allocates(void *unused)
{
    return GC_MALLOC(64) ? unused : NULL;
}

/* How many threads each makes and joins, one after the other. */
static long successors;

static void *works(void *microseconds)
{
    allocate();
    for (long at = 0; at < successors; at++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
        pthread_join(thread, NULL);
    }
    usleep((useconds_t)(long)microseconds);
    allocate();
    return NULL;
}

static void *waits(void *microseconds)
{
    usleep((useconds_t)(long)microseconds);
    return NULL;
}

/* libc makes a thread for it, which stays for a second. */
static int has_request;

static void request(void)
{
    static char byte;
    static struct aiocb read_one = {.aio_buf = &byte, .aio_nbytes = 1};
    read_one.aio_fildes = open("/dev/zero", O_RDONLY);
    CHECK(aio_read(&read_one) == 0);
    while (aio_error(&read_one) == EINPROGRESS)
        usleep(1000);
    CHECK(aio_return(&read_one) == 1);
}

/* In a child: so many threads besides main, which ends by pthread_exit before them, or after. */
static void ends(int threads, long main_us, long threads_us)
{
    pthread_t thread;
    GC_INIT();
    atexit(at_exit);
    allocate();
    if (has_request)
        request();
    for (int at = 0; at < threads; at++)
        pthread_create(&thread, NULL, at % 2 ? waits : works, (void *)threads_us);
    usleep((useconds_t)main_us);
    pthread_exit(NULL);
}

int main(void)
{
    static const long cases[][5] = {{0, 0, 0},       {1, 0, 20000},  {1, 30000, 0},
                                    {4, 0, 20000},   {4, 0, 0},      {4, 20000, 20000},
                                    {3, 1000, 900},  {4, 10000, 11000}, {1, 0, 20000, 100},
                                    {1, 0, 20000, 0, 1}, {0, 0, 0, 0, 1}, {1, 20000, 0, 0, 1}};
    for (unsigned at = 0; at < sizeof cases / sizeof *cases; at++) {
        char byte;
        int status = -1;
        pid_t waited = 0;
        CHECK(pipe(told) == 0);
        pid_t child = fork();
        successors = cases[at][3];
        has_request = (int)cases[at][4];
        if (child == 0)
            ends((int)cases[at][0], cases[at][1], cases[at][2]);
        for (int turn = 0; turn < 10000 && waited == 0; turn++) {
            waited = waitpid(child, &status, WNOHANG);
            usleep(1000);
        }
        CHECK(waited == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        if (waited != child)
            kill(child, SIGKILL);
        close(told[1]);
        CHECK(read(told[0], &byte, 1) == 1);
        close(told[0]);
    }
    return finish();
}
