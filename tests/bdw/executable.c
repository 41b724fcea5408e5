/* An executable heap: code in objects runs, wherever they lie and while their pages are watched;
   without being asked for it none is executable. `refused`: the system refuses such memory; that is
   said, and the program goes on without. `refuses`: whether it can. */
#include "check.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
/* Has the system refuse memory that is writable and executable; false where it cannot. */
static int refuse(void)
{
    return prctl(PR_SET_MDWE, 1UL, 0UL, 0UL, 0UL) == 0;
}

typedef int (*code)(void);

/* mov eax, NUMBER; ret */
static void write_code(unsigned char *place, int number)
{
    place[0] = 0xb8;
    memcpy(place + 1, &number, sizeof number);
    place[5] = 0xc3;
}

static int run(void *object)
{
    code function;
    memcpy(&function, &object, sizeof function);
    return function();
}

/* How a child ends that runs it: the signal, or 0. */
static int signal_of(void *object)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(run(object) != 7);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static int warnings;
static void warned(char *text, GC_word word)
{
    (void)text;
    (void)word;
    warnings++;
}

int main(int argc, char **argv)
{
    enum { COUNT = 300 };
    static unsigned char *objects[COUNT];
    if (argc > 1 && strcmp(argv[1], "refuses") == 0)
        return !refuse();
    int refused = argc > 1, asked = refused || fork() != 0;
    if (refused)
        CHECK(refuse());
    CHECK_EQUAL(GC_get_pages_executable(), 0);
    if (asked) {
        GC_set_warn_proc(warned);
        GC_set_pages_executable(1);
        CHECK_EQUAL(GC_get_pages_executable(), !refused);
        CHECK_EQUAL(warnings, refused);
    }
    GC_INIT();
    if (!asked || refused) {
        unsigned char *object = GC_malloc(64);
        write_code(object, 7);
        CHECK_EQUAL(signal_of(object), SIGSEGV);
        return finish();
    }
    /* Small ones and large ones, over some megabytes. */
    for (int index = 0; index < COUNT; index++) {
        objects[index] = index % 3 ? GC_malloc_atomic(64) : GC_malloc(100000);
        write_code(objects[index], index);
        CHECK_EQUAL(run(objects[index]), index);
    }
    for (int turn = 0; turn < 3; turn++) {
        GC_gcollect();
        for (int index = 0; index < COUNT; index++) {
            CHECK_EQUAL(run(objects[index]), index);
            if (turn == index % 2)
                write_code(objects[index], index);
        }
        /* So that collections run beside this. */
        for (int index = 0; index < 200000; index++)
            *(void **)GC_malloc(64) = objects[index % COUNT];
    }
    int status;
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return finish();
}
