/* A child of vfork waits in functions of libc and is killed there, also after it had a child of its
   own, executes something, or ends: its maker goes on as a thread that runs, and what only its
   stack has lives. What the child wants done about signals is its own. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

enum { CHILDREN = 30, DEPTH = 40, LENGTH = 5 };

struct cell {
    struct cell *next;
    uintptr_t number, check;
};

static volatile int is_over;
static int never[2];

static APART void allocate(int count)
{
    for (int at = 0; at < count; at++) {
        char *object = neap_alloc(16 + at * 37 % 400);
        memset(object, 0x5a, 16);
    }
}

static void *other(void *argument)
{
    while (!is_over)
        allocate(2000);
    return argument;
}

/* Has a list on its stack alone, and more below. */
static APART void nest(int depth, uintptr_t number)
{
    struct cell *list = NULL;
    for (int at = 0; at < LENGTH; at++) {
        struct cell *cell = neap_alloc(sizeof *cell);
        *cell = (struct cell){list, number + at, ~(number + at)};
        list = cell;
    }
    if (depth > 0) {
        nest(depth - 1, number + 100);
    } else {
        for (int turn = 0; turn < 30; turn++) {
            allocate(300);
            clear_stack();
        }
    }
    int count = 0;
    for (struct cell *cell = list; cell != NULL && count <= LENGTH; cell = cell->next)
        count += cell->number / 100 == number / 100 && cell->check == ~cell->number;
    CHECK(count == LENGTH);
}

static APART void make_child(int way)
{
    pid_t child = vfork();
    if (child == 0) {
        if (way == 3) {
            execl("/bin/true", "true", NULL);
            _exit(9);
        }
        if (way == 2)
            _exit(7);
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 3000}}, NULL);
        char byte;
        if (way == 4 && vfork() == 0)
            _exit(8);
        if (way == 0)
            (void)!read(never[0], &byte, 1);
        else
            sleep(10);
        _exit(9);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    int waits = way < 2 || way == 4;
    CHECK(waits ? WTERMSIG(status) == SIGALRM : WEXITSTATUS(status) == (way == 2 ? 7 : 0));
}

/* It has none of its parent's threads, and would take them for gone. */
static APART void child_collects_nothing(void)
{
    pid_t child = vfork();
    if (child == 0) {
        int collected = neap_collect();
        allocate(20000);
        /* Its `fork` waits for no stop, which waits for its maker. */
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(0);
        int status = 1;
        waitpid(grandchild, &status, 0);
        _exit(collected || status != 0 ? 6 : 5);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    CHECK(neap_collect());
}

static volatile sig_atomic_t heard;

static void hears(int number)
{
    heard += number;
}

static APART void child_sets_action(int number)
{
    signal(number, hears);
    pid_t child = vfork();
    if (child == 0) {
        signal(number, SIG_DFL);
        _exit(0);
    }
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    heard = 0;
    CHECK(signal(number, hears) == hears);
    raise(number);
    CHECK_EQUAL(heard, number);
    signal(number, SIG_DFL);
}

int main(void)
{
    pthread_t thread;
    CHECK(pipe(never) == 0);
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    for (int at = 0; at < CHILDREN; at++) {
        make_child(at % 5);
        nest(DEPTH, at * 10000);
    }
    for (int at = 0; at < 10; at++) {
        child_collects_nothing();
        nest(DEPTH, at * 10000);
    }
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    /* Nobody is stopped by one of them meanwhile. */
    child_sets_action(SIGSEGV);
    child_sets_action(SIGURG);
    child_sets_action(SIGUSR1);
    return finish();
}
