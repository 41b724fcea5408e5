/* Memory that a program does not use any more goes back to the system. "idle": as soon as the idle
   program was collected, however many cycles it would lie unused otherwise. "child": in the child
   of a fork too, where it was freed before the collector's thread ran there, and not only when the
   child is as old as its parent was. Usage: given_back [idle | child]; both without. */
#include "check.h"

enum { BYTES = 48 << 20, PIECES = 48, PARENT_SECONDS = 3, CHILD_SECONDS = 2 };

static void *pieces[PIECES];

static APART void grow(void)
{
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = neap_alloc(BYTES / PIECES);
        CHECK(pieces[i] != NULL);
        memset(pieces[i], 1, BYTES / PIECES);
    }
}

/* Whether half of the memory is gone within some seconds. */
static int is_given_back(size_t before, int seconds)
{
    for (int turn = 0; turn < seconds * 50; turn++) {
        if (resident_bytes() < before - BYTES / 2)
            return 1;
        usleep(20000);
    }
    fprintf(stderr, "%zu MB in memory, %zu before\n", resident_bytes() >> 20, before >> 20);
    return 0;
}

static void idle(void)
{
    grow();
    size_t before = resident_bytes();
    memset(pieces, 0, sizeof pieces);
    clear_stack();
    CHECK(is_given_back(before, 10));
}

static void child(void)
{
    grow();
    collect();
    sleep(PARENT_SECONDS);
    /* Wakes the thread, which looks at its clock. */
    collect();
    usleep(100000);
    pid_t child = fork();
    if (child == 0) {
        size_t before = resident_bytes();
        for (int i = 0; i < PIECES; i++)
            neap_free(pieces[i]);
        memset(pieces, 0, sizeof pieces);
        CHECK(neap_alloc(64) != NULL);
        collect();
        CHECK(is_given_back(before, CHILD_SECONDS));
        _exit(finish());
    }
    CHECK(succeeded(child));
}

/* This program with other options. */
static int runs(char *what, const char *decay, const char *after, const char *idle)
{
    pid_t child = fork();
    if (child == 0) {
        setenv(decay, after, 1);
        setenv("NEAP_IDLE", idle, 1);
        execv("/proc/self/exe", (char *[]){"given_back", what, NULL});
        _exit(127);
    }
    return succeeded(child);
}

int main(int count, char **arguments)
{
    if (count == 1) {
        CHECK(runs("idle", "NEAP_DECAY_CYCLES", "1000", "200"));
        CHECK(runs("child", "NEAP_DECAY", "200", "0"));
    } else if (strcmp(arguments[1], "idle") == 0)
        idle();
    else
        child();
    return finish();
}
