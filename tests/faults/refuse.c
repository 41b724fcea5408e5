/* refuse LIBRARY once|on LIMIT MOST PROGRAM ARGUMENT…: runs a program again and again, each time
 * with one system call of the library's refused: the Nth of its name (once), or that and all later
 * ones (on), with each error that its manual names (errors.h), N from 1 until no Nth is made. From
 * LIMIT on N grows by a quarter each time; MOST runs are made at most, spread over all there could
 * be (0: all). LIBRARY is part of its file's name.
 *
 * A call is the library's if the instruction is, or the function that called the libc function with
 * the instruction; a new thread or process is, if a frame near the top of the stack is. Prints a
 * comment for each run that came out wrong, and a line `CALL ERROR RUNS RIGHT TOLD FAILED` for each
 * call and error.
 * right: what the program wrote and its status are as without a refusal; told: it ended with
 * another status and a message; failed: anything else, by name: wrong, silent, signal, panic, hang.
 * With REFUSE_FOLLOWS_NULL in the environment SIGSEGV after the message that there is no memory is
 * told: for a program that does not look at what GC_malloc gives. So is SIGILL after druntime's
 * line of want of memory: it ends so on its own collector too.
 * Status 0 if none failed, 3 where nothing can be traced.
 *
 * The kernel stops the program at a call (seccomp, ptrace), and the call is answered here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "errors.h"

/* A run that takes so many seconds hangs, also on a machine that does much else. */
enum { SECONDS = 150, MOST_PROCESSES = 4096, OUTPUT = 1 << 16 };

static const char *library;
static char **program;
/* Its code, in the process that runs. */
static uintptr_t from, to;
/* What is refused: ALL counts every call. */
enum { ALL = -1 };
static int wanted;
static long wanted_n, seen;
static int wanted_error, and_on;
static long counts[512];
static pid_t processes[MOST_PROCESSES];
static int process_count;
static volatile sig_atomic_t over_time;

static void on_alarm(int number)
{
    (void)number;
    over_time = 1;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void find_library(pid_t process)
{
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/%d/maps", process);
    FILE *maps = fopen(name, "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long low, high;
        char access[5];
        if (strstr(line, library) != NULL &&
            sscanf(line, "%lx-%lx %4s", &low, &high, access) == 3 && access[2] == 'x') {
            from = from == 0 || low < from ? low : from;
            to = high > to ? high : to;
        }
    }
    if (maps != NULL)
        fclose(maps);
}

static int is_library(uintptr_t address) { return address - from < to - from; }

/* The function that called may be that of a thread or process, made some frames further down. */
static int is_the_librarys(pid_t thread, const struct user_regs_struct *registers)
{
    enum { NEAR = 160 };
    uintptr_t stack[NEAR] = {0};
    struct iovec here = {stack, sizeof stack};
    struct iovec there = {(void *)registers->rsp, sizeof stack};
    int looked = 1;
    if (from == 0)
        find_library(thread);
    if (from == 0)
        return 0;
    if (is_library(registers->rip))
        return 1;
    ssize_t got = process_vm_readv(thread, &here, 1, &there, 1, 0);
    if (registers->orig_rax == SYS_clone || registers->orig_rax == SYS_clone3)
        looked = NEAR;
    for (int i = 0; i < looked && (ssize_t)((size_t)i * sizeof *stack) < got; i++)
        if (is_library(stack[i]))
            return 1;
    return 0;
}

/* What no manual has an error for, but that the caller was wrong. */
static int cannot_fail(const struct user_regs_struct *registers)
{
    int operation = (int)registers->rsi & FUTEX_CMD_MASK;
    return registers->orig_rax == SYS_exit_group || registers->orig_rax == SYS_exit ||
        registers->orig_rax == SYS_rt_sigprocmask ||
        (registers->orig_rax == SYS_futex && operation != FUTEX_WAIT &&
            operation != FUTEX_WAIT_BITSET);
}

static void at_call(pid_t thread)
{
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0)
        return;
    long call = (long)registers.orig_rax;
    if (call < 0 || call >= 512 || cannot_fail(&registers) || !is_the_librarys(thread, &registers))
        return;
    counts[call]++;
    if (wanted == ALL || call != wanted || ++seen < wanted_n || (seen > wanted_n && !and_on))
        return;
    registers.orig_rax = (unsigned long long)-1;
    registers.rax = (unsigned long long)-wanted_error;
    ptrace(PTRACE_SETREGS, thread, NULL, &registers);
}

static void child(int ready, int out, int err)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)};
    struct sock_filter one[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)wanted, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {1, all};
    if (wanted != ALL)
        filter = (struct sock_fprog){sizeof one / sizeof *one, one};
    char byte;
    if (read(ready, &byte, 1) != 1)
        _exit(125);
    close(ready);
    dup2(out, 1);
    dup2(err, 2);
    personality(ADDR_NO_RANDOMIZE);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(125);
    execvp(program[0], program);
    _exit(126);
}

static void follow(pid_t thread, int status)
{
    int event = status >> 16, deliver = 0;
    if (event == PTRACE_EVENT_SECCOMP)
        at_call(thread);
    else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
        unsigned long made = 0;
        ptrace(PTRACE_GETEVENTMSG, thread, NULL, &made);
        if (process_count < MOST_PROCESSES)
            processes[process_count++] = (pid_t)made;
    } else if (event == 0)
        deliver = WSTOPSIG(status);
    ptrace(PTRACE_CONT, thread, NULL, deliver);
}

struct run {
    int status, hung;
    char output[OUTPUT], messages[OUTPUT];
};

static void contents(int file, char *text)
{
    ssize_t got = pread(file, text, OUTPUT - 1, 0);
    text[got > 0 ? got : 0] = 0;
}

/* One run; the call is refused as said. */
static void run(struct run *result)
{
    int ready[2], out = memfd_create("output", MFD_CLOEXEC);
    int err = memfd_create("errors", MFD_CLOEXEC);
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
        PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (out < 0 || err < 0 || pipe2(ready, O_CLOEXEC) != 0)
        die("refuse: cannot begin");
    from = to = 0;
    seen = 0;
    over_time = 0;
    memset(counts, 0, sizeof counts);
    pid_t first = fork();
    if (first == 0)
        child(ready[0], out, err);
    if (first < 0 || ptrace(PTRACE_SEIZE, first, NULL, options) != 0) {
        perror("refuse: cannot trace");
        exit(3);
    }
    processes[0] = first;
    process_count = 1;
    if (write(ready[1], "", 1) != 1)
        die("refuse: cannot begin");
    alarm(SECONDS);
    result->status = -1;
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (over_time) {
            for (int i = 0; i < process_count; i++)
                kill(processes[i], SIGKILL);
            over_time = 0;
            result->hung = 1;
        }
        if (thread < 0 && errno == EINTR)
            continue;
        if (thread < 0)
            break;
        if (WIFSTOPPED(status))
            follow(thread, status);
        else if (thread == first)
            result->status = status;
    }
    alarm(0);
    contents(out, result->output);
    contents(err, result->messages);
    close(out);
    close(err);
    close(ready[0]);
    close(ready[1]);
}

static const struct run *expected;

static const char *outcome(const struct run *run)
{
    if (run->hung)
        return "hang";
    if (strstr(run->messages, "panicked at") != NULL)
        return "panic";
    if (run->status == expected->status)
        return strcmp(run->output, expected->output) == 0 ? "right" : "wrong";
    int is_druntimes = strstr(run->messages, "core.exception.OutOfMemoryError") != NULL;
    int is_told = is_druntimes || strstr(run->messages, "neap: ") != NULL ||
        strstr(run->messages, "program: ") != NULL || strstr(run->messages, "GC ") != NULL;
    /* Guile follows the null that it is given where there is no memory. */
    int follows_null = getenv("REFUSE_FOLLOWS_NULL") != NULL &&
        WIFSIGNALED(run->status) && WTERMSIG(run->status) == SIGSEGV &&
        strstr(run->messages, "no memory") != NULL;
    if (follows_null)
        return "told";
    if (WIFSIGNALED(run->status) && !(WTERMSIG(run->status) == SIGABRT && is_told) &&
        !(WTERMSIG(run->status) == SIGILL && is_druntimes))
        return "signal";
    if (!WIFSIGNALED(run->status) && WEXITSTATUS(run->status) == 0)
        return "wrong";
    return is_told ? "told" : "silent";
}

/* What says that the call is to be made again says nothing if it is said for ever. */
static int is_tried(const struct refusal *refusal, int call)
{
    int again = refusal->error == EINTR || call == SYS_futex ||
        (call == SYS_ioctl && refusal->error == EAGAIN);
    return refusal->call == call && !(and_on && again);
}

static long after(long n, long limit) { return n < limit ? n + 1 : n + (n + 3) / 4; }

int main(int count, char **arguments)
{
    static struct run without, refused;
    static long made[512];
    long limit, most, all = 0, index = 0, step = 1;
    int failed = 0;
    if (count < 6) {
        fprintf(stderr, "usage: refuse LIBRARY once|on LIMIT MOST PROGRAM ARGUMENT...\n");
        return 2;
    }
    library = arguments[1];
    and_on = strcmp(arguments[2], "on") == 0;
    limit = atol(arguments[3]);
    most = atol(arguments[4]);
    program = arguments + 5;
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    wanted = ALL;
    run(&without);
    if (without.hung || without.status != 0) {
        printf("the program fails by itself, status %#x:\n%s%s", (unsigned)without.status,
            without.output, without.messages);
        return 2;
    }
    expected = &without;
    memcpy(made, counts, sizeof made);
    for (int call = 0; call < 512; call++)
        for (const struct refusal *one = errors; one->name != NULL; one++)
            for (long n = 1; is_tried(one, call) && n <= made[call]; n = after(n, limit))
                all++;
    if (most > 0 && all > most)
        step = (all + most - 1) / most;
    for (int call = 0; call < 512; call++) {
        int known = 0;
        for (const struct refusal *one = errors; one->name != NULL; one++) {
            known |= one->call == call;
            if (!is_tried(one, call))
                continue;
            long runs = 0, right = 0, told = 0;
            for (long n = 1; n <= made[call]; n = after(n, limit)) {
                if (index++ % step != 0)
                    continue;
                wanted = call;
                wanted_n = n;
                wanted_error = one->error;
                memset(&refused, 0, sizeof refused);
                run(&refused);
                const char *what = outcome(&refused);
                runs++;
                right += strcmp(what, "right") == 0;
                told += strcmp(what, "told") == 0;
                if (strcmp(what, "right") == 0 || strcmp(what, "told") == 0)
                    continue;
                failed = 1;
                printf("# %s %s %ld %s, status %#x: %.400s\n", one->name, one->error_name, n, what,
                    (unsigned)refused.status, refused.messages);
            }
            if (runs > 0)
                printf("%s %s %ld %ld %ld %ld\n", one->name, one->error_name, runs, right, told,
                    runs - right - told);
            fflush(stdout);
        }
        if (!known && made[call] > 0)
            printf("# %ld calls of number %d, for which errors.h has no error\n", made[call], call);
    }
    return failed;
}
