/* What the tests of the C interface share: checks that say where they failed, and ways to see
   objects die. Works in C and C++. A program ends with `return finish();`: status 0 if every check
   held, and at least one ran. */
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <neap.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../checks.h"

static inline int finish(void)
{
    if (checks == 0)
        fprintf(stderr, "no check ran\n");
    return failures != 0 || checks == 0;
}

/* Functions that make objects are kept apart: their frames are where stray pointers stay. */
#define APART __attribute__((noinline, unused))

/* Overwrites what former calls left on the stack below. */
static APART void clear_stack(void)
{
    volatile char room[1 << 14];
    memset((void *)room, 0, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* The test runs finalizers itself. */
static int by_hand __attribute__((unused));

/* Enough collections for all that is dead to be gone, finalizers run. */
static APART void collect(void)
{
    for (int turn = 0; turn < 3; turn++) {
        clear_stack();
        CHECK(neap_collect());
        if (!by_hand)
            neap_finalizers_run();
    }
}

/* Objects come by the hundred, since a conservative stack may keep a few alive by accident. */
enum { MANY = 100, STRAY = 5 };

/* Watching objects die: links to them, which hold them hidden. */
static void *watched[8 * MANY] __attribute__((unused));

static APART void watch(int index, void *object)
{
    watched[index] = neap_hide(object);
    CHECK_EQUAL(neap_link_register(&watched[index], object, NEAP_LINK_LONG), NEAP_OK);
}

/* How many of the MANY objects from `first` on are there still. */
static APART int alive(int first)
{
    int count = 0;
    for (int i = first; i < first + MANY; i++)
        count += watched[i] != NULL;
    return count;
}

#define CHECK_ALL_ALIVE(first) CHECK_EQUAL(alive(first), MANY)
#define CHECK_DEAD(first)                                                                          \
    do {                                                                                           \
        int alive_ = alive(first);                                                                 \
        if (alive_ > STRAY)                                                                        \
            fprintf(stderr, "%d of %d are alive\n", alive_, MANY);                                 \
        CHECK(alive_ <= STRAY);                                                                    \
    } while (0)

/* Allocates and drops, so that cells of dead objects are handed out again and overwritten. */
static APART void churn(size_t bytes, int count)
{
    for (int i = 0; i < count; i++) {
        void *object = neap_alloc(bytes);
        if (object == NULL) {
            CHECK(!"memory for churning");
            return;
        }
        memset(object, 0x5a, bytes);
    }
}

/* Bytes of this process in memory. */
static APART size_t resident_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu %lu", &total, &resident) != 2)
        CHECK(!"reading /proc/self/statm");
    if (file != NULL)
        fclose(file);
    return resident * 4096;
}

/* Waits for a child and says whether it ended with status 0. */
static APART int succeeded(pid_t child)
{
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 0;
    if (WIFSIGNALED(status))
        fprintf(stderr, "child ended by signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#endif
