/* start REPORT MILLISECONDS RUNNER PROGRAM [ARGUMENT…]: runs a program to its end, reports what it
 * took.
 *
 * A program that takes longer is killed. RUNNER is the process that asks for it. The file REPORT
 * gets a line: `ended` or `late` with the wait status, wall time in nanoseconds, user and system
 * time in microseconds and peak resident memory in KiB; or `cannot` with the number of the error,
 * if it could not be started.
 *
 * The runner starts every program by this one, because Linux counts what a process had before it
 * executed a program as that program's peak, also what its parent had, where the child is made by
 * vfork; so this one is small, and linked statically if that can be had. Invariant: the
 * program leads a process group of its own, none of which is left when this ends, by a signal that
 * asks it to or because the runner died, too. Compiled by build.rs, started by process.rs; one
 * thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int endings[] = {SIGHUP, SIGINT, SIGTERM};
enum { ENDINGS = sizeof endings / sizeof *endings };

static volatile pid_t program;

/* The program's group ends with us. */
static void end(int signal)
{
    if (program > 0)
        kill(-program, SIGKILL);
    _exit(128 + signal);
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static long long microseconds(struct timeval time)
{
    return time.tv_sec * 1000000LL + time.tv_usec;
}

/* Executes the program in a child; its error is seen here, since they share memory until then. */
static int start(char **words)
{
    volatile int error = 0;
    sigset_t ending, before;
    sigemptyset(&ending);
    for (int i = 0; i < ENDINGS; i++)
        sigaddset(&ending, endings[i]);
    /* Until `program` is known. */
    sigprocmask(SIG_BLOCK, &ending, &before);
    pid_t own = getpid(), child = vfork();
    if (child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* As below. */
        if (getppid() != own)
            _exit(127);
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(words[0], words);
        error = errno;
        _exit(127);
    }
    if (child < 0)
        error = errno;
    else if (error != 0)
        waitpid(child, NULL, 0);
    else
        program = child;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Whether the program ends within so many milliseconds; it is not reaped. */
static bool ends_within(int milliseconds)
{
    struct pollfd wanted = {.fd = (int)syscall(SYS_pidfd_open, program, 0), .events = POLLIN};
    int64_t deadline = nanoseconds() + milliseconds * INT64_C(1000000);
    int got = wanted.fd < 0 ? -1 : poll(&wanted, 1, milliseconds);
    if (got >= 0)
        return got > 0;
    /* The kernel is older, or a filter refuses the call: then it is asked again and again. */
    for (;;) {
        siginfo_t ended = {.si_pid = 0};
        if (waitid(P_PID, program, &ended, WEXITED | WNOWAIT | WNOHANG) == 0 && ended.si_pid != 0)
            return true;
        if (nanoseconds() >= deadline)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

int main(int count, char **words)
{
    if (count < 5) {
        fprintf(stderr, "usage: start REPORT MILLISECONDS RUNNER PROGRAM [ARGUMENT…]\n");
        return 2;
    }
    for (int i = 0; i < ENDINGS; i++)
        if (signal(endings[i], end) == SIG_IGN)
            signal(endings[i], SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* It may have died before that, of which no signal tells. */
    if (getppid() != atoi(words[3]))
        return 1;
    int64_t began = nanoseconds();
    int error = start(words + 4);
    int in_time = 1, status = 0;
    struct rusage usage = {0};
    if (error == 0) {
        in_time = ends_within(atoi(words[2]));
        /* It has ended and is not reaped, so the number is still its own; or it is late. */
        kill(-program, SIGKILL);
        while (wait4(program, &status, 0, &usage) < 0 && errno == EINTR)
            ;
    }
    int64_t ended = nanoseconds();
    program = 0;
    FILE *report = fopen(words[1], "w");
    if (report == NULL)
        return 1;
    if (error != 0)
        fprintf(report, "cannot %d\n", error);
    else
        fprintf(report, "%s %d %lld %lld %lld %ld\n", in_time ? "ended" : "late", status,
            (long long)(ended - began), microseconds(usage.ru_utime), microseconds(usage.ru_stime),
            usage.ru_maxrss);
    return fclose(report) == 0 ? 0 : 1;
}
