/* A program that allocates a little and ends does without what cycles need: no watch is open before
   the first one, few pages are touched, and few system calls are made. `start asked`: with
   NEAP_WATCH=pagemap it is open at once, so that a refusal is told where the program starts. `start
   little`: one that keeps little is collected in short stops, and needs no watch and no thread of
   the collector's until it asks for a cycle, so that it can be asked for its heap; `start much`:
   there is so much static data that a stop would be long, which only the first stop can find
   out. */
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    /* Of the pages that start-up and a thousand objects touch; 38 on x86-64. */
    MOST_FAULTS = 80,
    /* Of the system calls of both, the process's end included; 32 on Linux 6.18. */
    MOST_CALLS = 32,
    /* How a process ends that may not be traced. */
    UNTRACED = 77,
};

/* Whether the process has a descriptor open that only a watch needs. */
static int watches(void)
{
    int found = 0;
    DIR *open_files = opendir("/proc/self/fd");
    CHECK(open_files != NULL);
    for (struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        char link[300], target[300] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        found += readlink(link, target, sizeof target - 1) > 0 && strstr(target, "userfaultfd");
    }
    closedir(open_files);
    return found;
}

static long faults(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static void start(void)
{
    neap_init();
    for (int i = 0; i < 1000; i++)
        CHECK(neap_alloc(32) != NULL);
}

/* System calls of a start in another process; -1 where nothing may be traced. */
static int calls(void)
{
    int status = 0, stops = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(UNTRACED);
        raise(SIGSTOP);
        start();
        _exit(0);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        /* Before each call and after it; the first stop is the signal. */
        stops += WSTOPSIG(status) == SIGTRAP;
        CHECK(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNTRACED)
        return -1;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return (stops + 1) / 2;
}

/* Threads of the process. */
static int threads(void)
{
    int found = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    while (readdir(tasks) != NULL)
        found++;
    closedir(tasks);
    return found;
}

/* Allocates until there were some cycles. */
static neap_statistics collected(void)
{
    neap_statistics now;
    do {
        for (int i = 0; i < 1000; i++)
            CHECK(neap_alloc(32) != NULL);
        CHECK(neap_statistics_read(&now, sizeof now) == sizeof now);
    } while (now.cycles < 4);
    return now;
}

/* The collector has short stops only. */
static void check_little(void)
{
    collected();
    CHECK(watches() == 0 && threads() == 1);
    neap_collect();
    CHECK(threads() == 2);
}

/* Static data, of which the program may be built with so much that a stop may not take so long. */
#ifndef DATA_BYTES
#define DATA_BYTES 64
#endif
static char data[DATA_BYTES];

static uint64_t nanoseconds(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void check_much(void)
{
    for (size_t at = 0; at < sizeof data; at += 64)
        data[at] = 1;
    uint64_t began = nanoseconds(), sum = 0;
    for (size_t at = 0; at < sizeof data; at += 64)
        sum += ((volatile char *)data)[at];
    uint64_t took = nanoseconds() - began;
    neap_statistics now = collected();
    printf("longest stop %.2f ms, reading all takes %.2f\n", now.pause_max_ns / 1e6, took / 1e6);
    CHECK(sum > 0 && watches() == 1 && now.pause_max_ns < took / 2);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "little") == 0)
        return check_little(), finish();
    if (argc > 1 && strcmp(argv[1], "much") == 0)
        return check_much(), finish();
    int asked = argc > 1 && strcmp(argv[1], "asked") == 0;
    int made = calls();
    printf("%d system calls\n", made);
    CHECK(asked || made <= MOST_CALLS);
    long before = faults();
    start();
    printf("%ld page faults\n", faults() - before);
    CHECK(asked || faults() - before < MOST_FAULTS);
    CHECK(watches() == asked);
    neap_collect();
    CHECK(watches() == 1);
    return finish();
}
