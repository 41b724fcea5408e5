/* What the tests of the libgc interface share: checks that say where they failed, and ways to let
   objects die. A program ends with `return finish();`: status 0 if every check held. Include before
   gc.h. */
#define _GNU_SOURCE
#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../checks.h"

/* Whether it is Neap that runs us (run.sh says so). */
static inline int on_neap(void)
{
    return getenv("BDW_ON_NEAP") != NULL;
}

static inline int finish(void)
{
    /* The library that run.sh means: only libgc has this symbol. */
    CHECK(on_neap() == (dlsym(RTLD_DEFAULT, "GC_arrays") == NULL));
    if (failures == 0 && checks <= 1) {
        fprintf(stderr, "no check ran\n");
        return 1;
    }
    return failures != 0;
}

/* Functions that make objects must not be inlined: their frames are where stray pointers stay. */
#define APART __attribute__((noinline))

/* Overwrites what former calls left on the stack below. */
static APART __attribute__((unused)) void clear_stack(void)
{
    volatile char room[1 << 14];
    memset((void *)room, 0, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* Enough collections for all that is dead to be gone, finalizers run, but for what a stray word on
   the stack holds. */
static APART __attribute__((unused)) void collect(void)
{
    for (int turn = 0; turn < 3; turn++) {
        clear_stack();
        GC_gcollect();
        GC_invoke_finalizers();
    }
}

/* What a function writes to a file descriptor, up to 60,000 bytes. */
static APART __attribute__((unused)) const char *capture(int descriptor, void (*function)(void))
{
    static char text[60001];
    FILE *file = tmpfile();
    int saved = dup(descriptor);
    fflush(NULL);
    dup2(fileno(file), descriptor);
    function();
    fflush(NULL);
    dup2(saved, descriptor);
    close(saved);
    ssize_t length = pread(fileno(file), text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    fclose(file);
    return text;
}

/* How many of 100 objects a conservative stack may keep alive by accident. */
enum { MANY = 100, STRAY = 5 };
#define CHECK_NEARLY_ALL(count)                                                             \
    do {                                                                                    \
        CHECK((count) >= MANY - STRAY);                                                     \
        CHECK((count) <= MANY);                                                             \
    } while (0)
