/* GC_FINDLEAK_DELAY_FREE: in the leak-finding mode, what the debugging allocator frees is filled
   and waits for a collection, which says so if the program has written to it since. The program
   runs itself, with the variables and without. */
#define GC_DEBUG
#include "check.h"
#include <sys/wait.h>

enum { MADE_LINE = __LINE__ + 4, BYTES = 100 };
static GC_hidden_pointer hidden;
static APART void make_and_free(int atomic)
{
    void *object = atomic ? GC_MALLOC_ATOMIC(BYTES) : GC_MALLOC(BYTES);
    memset(object, 1, BYTES);
    hidden = GC_HIDE_POINTER(object);
    GC_FREE(object);
}

static APART void write_to(int where)
{
    ((volatile char *)GC_REVEAL_POINTER(hidden))[where] = 1;
}

/* Whether every word of the object is what filled it: all of them are alike. */
static APART int is_filled(void)
{
    uint32_t *volatile words = GC_REVEAL_POINTER(hidden);
    for (int index = 0; index < BYTES / 4; index++)
        if (words[index] != 0xdeadbeef && words[index] != 0xefbeadde)
            return 0;
    return 1;
}

/* Whether the memory is handed out, of which all is kept: nothing leaks. */
static int comes_again(void)
{
    static void *volatile kept[1000];
    for (int turn = 0; turn < 1000; turn++) {
        kept[turn] = GC_MALLOC(BYTES);
        if (GC_HIDE_POINTER(kept[turn]) == hidden)
            return 1;
    }
    return 0;
}

static APART void collect_all(void)
{
    for (int turn = 0; turn < 3; turn++) {
        clear_stack();
        GC_gcollect();
    }
}

static void unchanged(void)
{
    for (int turn = 0; turn < 20; turn++)
        make_and_free(turn % 2);
    collect_all();
}
static void changed(void)
{
    make_and_free(0);
    write_to(BYTES / 2);
    collect_all();
}
static void changed_atomic(void)
{
    make_and_free(1);
    write_to(0);
    collect_all();
}

static int says(void (*does)(void))
{
    char place[40];
    snprintf(place, sizeof place, "freed.c:%d", MADE_LINE);
    const char *text = capture(2, does);
    int said = strstr(text, place) != NULL;
    if (said != (does != unchanged))
        fprintf(stderr, "said: %s\n", text);
    return said;
}

static void delayed(void)
{
    make_and_free(0);
    CHECK(is_filled());
    GC_disable();
    CHECK(!comes_again());
    GC_enable();
    make_and_free(1);
    CHECK(is_filled());
    collect_all();
    CHECK(!says(unchanged));
    CHECK(says(changed));
    CHECK(says(changed_atomic));
    if (on_neap())
        CHECK(!says(unchanged)); /* libgc says it again each time */
}

static void at_once(void)
{
    make_and_free(0);
    GC_disable();
    CHECK(comes_again());
    GC_enable();
    CHECK(!says(unchanged));
}

static void run(char *self, const char *what, const char *first, const char *second)
{
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {self, (char *)what, NULL};
        if (first)
            setenv(first, "1", 1);
        if (second)
            setenv(second, "1", 1);
        execv("/proc/self/exe", arguments);
        _exit(99);
    }
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

int main(int count, char **arguments)
{
    GC_INIT();
    if (count > 1) {
        if (strcmp(arguments[1], "delayed") == 0)
            delayed();
        else
            at_once();
        return finish();
    }
    run(arguments[0], "delayed", "GC_FIND_LEAK", "GC_FINDLEAK_DELAY_FREE");
    run(arguments[0], "at once", "GC_FIND_LEAK", NULL);
    return finish();
}
