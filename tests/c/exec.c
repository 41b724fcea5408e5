/* A program that executes another in the middle of its cycles: the new one begins as if there had
   been no collector. Usage: exec WAY THREADS COUNT runs itself COUNT times; each time it allocates
   for a moment beside THREADS others, and executes the program `true` in the way that is named.
   With `pending` a stop is certainly under way: the thread that executes has blocked its signal,
   past the library. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <time.h>

static char *const true_arguments[] = {"true", NULL};
static char *const environment[] = {NULL};
static const char program[] = "/bin/true";

static long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Lists that stay, and as much that does not: cycles follow each other. */
static void *allocates(void *until)
{
    static __thread void **list;
    for (int i = 0; until == NULL || nanoseconds() < *(long *)until; i++) {
        void **cell = neap_alloc(48);
        if (i % 4 == 0) {
            cell[0] = list;
            list = i % 200000 == 0 ? NULL : cell;
        }
    }
    return list;
}

static int ended_well(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) != child)
        ;
    if (status != 0)
        fprintf(stderr, "ended with status 0x%x\n", status);
    return status == 0;
}

static int execute(const char *way)
{
    pid_t child;
    if (strcmp(way, "execve") == 0)
        return execve(program, true_arguments, environment);
    if (strcmp(way, "execl") == 0)
        return execl(program, "true", NULL);
    if (strcmp(way, "syscall") == 0) {
        /* As a runtime of its own does, past every library. */
        long result;
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(SYS_execve), "D"(program), "S"(true_arguments), "d"(environment)
                         : "rcx", "r11", "memory");
        return (int)result;
    }
    if (strcmp(way, "posix_spawn") == 0) {
        if (posix_spawn(&child, program, NULL, NULL, true_arguments, environment) != 0)
            return 1;
        return !ended_well(child);
    }
    if (strcmp(way, "vfork") == 0) {
        child = vfork();
        if (child == 0) {
            execve(program, true_arguments, environment);
            _exit(1);
        }
        return !ended_well(child);
    }
    if (strcmp(way, "fork") == 0) {
        child = fork();
        if (child == 0) {
            long until = nanoseconds() + 1000000;
            allocates(&until);
            execve(program, true_arguments, environment);
            _exit(1);
        }
        return !ended_well(child);
    }
    return system(program) != 0;
}

static void *collects(void *argument)
{
    for (;;)
        CHECK(neap_collect());
    return argument;
}

static void set_mask(unsigned long mask)
{
    CHECK_EQUAL(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask), 0);
}

/* Executes itself, which lets all signals through. */
static void execute_pending(char **arguments)
{
    pthread_t thread;
    neap_thread_attach();
    set_mask(~0UL);
    CHECK_EQUAL(pthread_create(&thread, NULL, collects, NULL), 0);
    /* Awake: who sleeps is not asked. */
    sigset_t pending;
    long until = nanoseconds() + 20000000000;
    do
        sigpending(&pending);
    while (!sigismember(&pending, neap_stop_signal()) && nanoseconds() < until);
    CHECK(sigismember(&pending, neap_stop_signal()));
    if (failures == 0)
        execl("/proc/self/exe", arguments[0], "pending", "unblocks", NULL);
    _exit(1);
}

int main(int count, char **arguments)
{
    if (count == 3) {
        set_mask(0);
        return 0;
    }
    if (count == 4) {
        int times = atoi(arguments[3]), bad = 0;
        for (int i = 0; i < times; i++) {
            char spent[32];
            snprintf(spent, sizeof spent, "%d", 2000 + i * 7919 % 8000);
            pid_t child = fork();
            if (child == 0) {
                execl("/proc/self/exe", "exec", arguments[1], arguments[2], spent, "run", NULL);
                _exit(99);
            }
            bad += !ended_well(child);
        }
        CHECK_EQUAL(bad, 0);
        return finish();
    }
    pthread_t thread;
    for (int i = 0; i < atoi(arguments[2]); i++)
        CHECK_EQUAL(pthread_create(&thread, NULL, allocates, NULL), 0);
    long until = nanoseconds() + atoi(arguments[3]) * 1000L;
    allocates(&until);
    if (strcmp(arguments[1], "pending") == 0)
        execute_pending(arguments);
    int result = execute(arguments[1]);
    _exit(result != 0 || failures != 0);
}
