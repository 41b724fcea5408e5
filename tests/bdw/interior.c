/* A program that says that interior pointers do not count gets no byte past the end, by the
   function or by the variable (ECL, Guile, Neko): its objects of 16 bytes take 16. What it
   allocated before it changed its mind stays whole. Pointers at registered displacements count. */
#include "check.h"
#include <sys/wait.h>

#define LARGE 100000

static void check_sizes(size_t least)
{
    for (size_t bytes = 16; bytes <= 128; bytes += 16) {
        CHECK_EQUAL(GC_size(GC_malloc(bytes)), bytes + least - 16);
        CHECK_EQUAL(GC_size(GC_malloc_atomic(bytes)), bytes + least - 16);
    }
}

static void by_function(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    CHECK_EQUAL(GC_get_all_interior_pointers(), 0);
    check_sizes(16);
}

static void by_variable(void)
{
    GC_all_interior_pointers = 0;
    GC_INIT();
    CHECK_EQUAL(GC_get_all_interior_pointers(), 0);
    check_sizes(16);
}

static void left_alone(void)
{
    GC_INIT();
    CHECK_EQUAL(GC_get_all_interior_pointers(), 1);
    check_sizes(32);
}

/* Registered displacements count where other interior pointers do not. */
static char *displaced[100];

static APART void make_displaced(void)
{
    for (int index = 0; index < 100; index++) {
        char **holder = GC_malloc(64);
        long *object = GC_malloc(64);
        *object = index;
        *holder = (char *)object + (index % 2 ? 24 : 8);
        displaced[index] = (char *)holder;
    }
}

static void by_displacement(void)
{
    GC_set_all_interior_pointers(0);
    GC_register_displacement(8);
    GC_INIT();
    GC_register_displacement(24);
    make_displaced();
    for (int turn = 0; turn < 3; turn++) {
        clear_stack();
        GC_gcollect();
        for (int index = 0; index < 20000; index++)
            memset(GC_malloc(64), 0x55, 64);
    }
    for (int index = 0; index < 100; index++)
        CHECK_EQUAL(*(long *)(*(char **)displaced[index] - (index % 2 ? 24 : 8)), index);
}

static char *whole(size_t bytes)
{
    char *object = GC_malloc(bytes);
    memset(object, 'x', bytes);
    return object;
}

static APART void grow(char *object, size_t bytes)
{
    for (size_t larger = bytes + 1; larger < 20 * bytes; larger *= 2) {
        object = GC_realloc(object, larger);
        for (size_t at = 0; at < bytes; at++)
            if (object[at] != 'x') {
                CHECK_EQUAL(at, bytes);
                return;
            }
        CHECK_EQUAL(object[bytes], 0);
    }
}

static void changed_later(void)
{
    GC_INIT();
    char *with = whole(LARGE), *with_small = whole(48);
    GC_set_all_interior_pointers(0);
    if (on_neap())
        check_sizes(16);
    char *without = whole(LARGE), *without_small = whole(48);
    GC_set_all_interior_pointers(1);
    check_sizes(32);
    grow(with, LARGE);
    grow(without, LARGE);
    grow(with_small, 48);
    grow(without_small, 48);
    GC_gcollect();
}

int main(void)
{
    static void (*const ways[])(void) = {by_function, by_variable, left_alone,
        changed_later, by_displacement};
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        pid_t child = fork();
        if (child == 0) {
            ways[way]();
            _exit(failures != 0);
        }
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    }
    return finish();
}
