// Runs a program and lists the functions of a shared library that it calls, in the order of their
// first calls: a breakpoint stands on each of them until it is reached.
//
// Usage: first_calls [run [OPTIONS] --] PROGRAM ARGUMENTS (as the clients' scripts call `neap`).
// Environment: FIRST_CALLS_LIBRARY, the library's path; FIRST_CALLS_SYMBOLS, a file of lines
// "address name"; FIRST_CALLS_LISTS, the folder that the list goes to, named by its process. Exit
// status: the program's.
// Invariant: a breakpoint that was reached is gone before its thread goes on. Children, of whatever
// call, are let go without any. One process, one thread; called by order.py.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

// A function of the library. Addresses are from the library's first byte.
struct function {
    uintptr_t address;
    char *name;
    uint8_t first_byte; // of its code, where the breakpoint stands
    bool armed, reached;
};

static struct function *functions; // by address
static size_t count;
static uintptr_t base; // where the library is mapped; 0 as long as it is not
static const char *library;
static const uint8_t breakpoint = 0xcc;

static void give_up(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("first_calls: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(2);
}

static const char *setting(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) {
        give_up("%s is not set", name);
    }
    return value;
}

static int by_address(const void *one, const void *other) {
    uintptr_t first = ((const struct function *)one)->address;
    uintptr_t second = ((const struct function *)other)->address;
    return first < second ? -1 : first > second;
}

static void read_functions(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        give_up("%s: %s", path, strerror(errno));
    }
    uintptr_t address;
    char *name;
    size_t room = 0;
    while (fscanf(file, "%lx %ms", &address, &name) == 2) {
        if (count == room) {
            room = room * 2 + 1024;
            functions = realloc(functions, room * sizeof *functions);
            if (functions == NULL) {
                give_up("no memory for the functions of %s", library);
            }
        }
        functions[count++] = (struct function){.address = address, .name = name};
    }
    fclose(file);
    qsort(functions, count, sizeof *functions, by_address);
}

// Where the library is in the process, if the loader has mapped all of it; else 0.
static uintptr_t find_library(pid_t process) {
    char line[4600], path[64], permissions[5];
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE *maps = fopen(path, "r");
    uintptr_t start, first = 0;
    bool writable = false;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *file = strchr(line, '/');
        if (file != NULL && strcmp(file, library) == 0 &&
            sscanf(line, "%lx-%*x %4s", &start, permissions) == 2) {
            first = first != 0 ? first : start;
            // The last part that is mapped.
            writable = writable || strcmp(permissions, "rw-p") == 0;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return writable ? first : 0;
}

static int open_memory(pid_t process) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    return open(path, O_RDWR | O_CLOEXEC);
}

static void arm(pid_t process) {
    int memory = open_memory(process);
    for (size_t i = 0; i < count; i++) {
        struct function *function = &functions[i];
        off_t at = (off_t)(base + function->address);
        // Two names of one place have one breakpoint, the first's.
        function->armed = (i == 0 || function[-1].address != function->address) &&
                          pread(memory, &function->first_byte, 1, at) == 1 &&
                          pwrite(memory, &breakpoint, 1, at) == 1;
    }
    close(memory);
}

static void remove_breakpoint(int memory, const struct function *function) {
    if (pwrite(memory, &function->first_byte, 1, (off_t)(base + function->address)) != 1) {
        give_up("%s: its breakpoint can't be removed", function->name);
    }
}

// Whether it is a thread of the process: a child that clone(2) made is told of like one.
static bool is_thread_of(pid_t process, pid_t thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", process, thread);
    return access(path, F_OK) == 0;
}

static void let_child_go(pid_t child) {
    int memory = open_memory(child);
    for (size_t i = 0; i < count; i++) {
        if (functions[i].armed && !functions[i].reached) {
            remove_breakpoint(memory, &functions[i]);
        }
    }
    close(memory);
    ptrace(PTRACE_DETACH, child, NULL, NULL);
}

// Whether the thread stopped at one of our breakpoints; it stands before it then.
static bool reach(pid_t process, pid_t thread, FILE *list) {
    struct user_regs_struct registers;
    ptrace(PTRACE_GETREGS, thread, NULL, &registers);
    struct function key = {.address = registers.rip - 1 - base};
    struct function *function = bsearch(&key, functions, count, sizeof key, by_address);
    if (function == NULL) {
        return false;
    }
    while (function > functions && function[-1].address == function->address) {
        function--;
    }
    if (!function->armed) {
        return false;
    }
    // Another thread may have reached it at the same time.
    if (!function->reached) {
        function->reached = true;
        int memory = open_memory(process);
        remove_breakpoint(memory, function);
        close(memory);
        fprintf(list, "%s\n", function->name);
    }
    registers.rip--;
    ptrace(PTRACE_SETREGS, thread, NULL, &registers);
    return true;
}

// Follows the program to its end, and returns its status as wait(2) has it.
static int follow(pid_t process, FILE *list) {
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) {
            return 0; // It left its process to a child, as daemons do.
        }
        if (!WIFSTOPPED(status)) {
            if (thread == process) {
                return status;
            }
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16, passed = 0;
        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
            event == PTRACE_EVENT_CLONE) {
            unsigned long made;
            ptrace(PTRACE_GETEVENTMSG, thread, NULL, &made);
            if (event != PTRACE_EVENT_CLONE || !is_thread_of(process, (pid_t)made)) {
                waitpid((pid_t)made, NULL, __WALL);
                // One of vfork has its parent's memory, which loses its breakpoints too.
                let_child_go((pid_t)made);
            }
        } else if (signal == (SIGTRAP | 0x80)) {
            // A system call: only the loader's are waited for, which map the library.
            base = find_library(process);
            if (base != 0) {
                arm(process);
            }
        } else if (event == 0 && signal != SIGSTOP &&
                   !(signal == SIGTRAP && base != 0 && reach(process, thread, list))) {
            passed = signal;
        }
        ptrace(base == 0 ? PTRACE_SYSCALL : PTRACE_CONT, thread, NULL, passed);
    }
}

int main(int argc, char **argv) {
    char **program = argv + 1;
    if (argc > 1 && strcmp(argv[1], "run") == 0) {
        while (*program != NULL && strcmp(*program, "--") != 0) {
            program++;
        }
        program += *program != NULL;
    }
    if (*program == NULL) {
        give_up("no program");
    }
    library = setting("FIRST_CALLS_LIBRARY");
    read_functions(setting("FIRST_CALLS_SYMBOLS"));
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", setting("FIRST_CALLS_LISTS"), getpid());
    FILE *list = fopen(path, "we");
    if (list == NULL) {
        give_up("%s: %s", path, strerror(errno));
    }
    // A script may end this process with its program: whole lines are there then.
    setvbuf(list, NULL, _IOLBF, 0);
    pid_t process = fork();
    if (process == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execvp(program[0], program);
        _exit(127);
    }
    waitpid(process, NULL, 0);
    if (ptrace(PTRACE_SETOPTIONS, process, NULL,
               PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
                   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
        give_up("the program can't be traced: %s", strerror(errno));
    }
    ptrace(PTRACE_SYSCALL, process, NULL, NULL);
    int status = follow(process, list);
    fclose(list);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
