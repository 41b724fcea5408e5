/* While collections are disabled none begins or ends: what only hidden pointers lead to meanwhile
   is there when they are revealed, whatever another thread allocates. And what is freed by hand is
   used again, though a collection was under way. */
#include "check.h"
#include <pthread.h>
#include <time.h>

enum { OBJECTS = 400, ROUNDS = 600 };

static long **shown;
static GC_hidden_pointer *hidden;
static volatile int is_over;

static APART void allocate(int count)
{
    for (int at = 0; at < count; at++)
        memset(GC_MALLOC(16 + at * 37 % 400), 0x5a, 16);
}

static void *other(void *argument)
{
    while (!is_over)
        allocate(500);
    return argument;
}

static APART void make(void)
{
    for (int at = 0; at < OBJECTS; at++) {
        shown[at] = GC_MALLOC(4 * sizeof(long));
        shown[at][1] = ~at;
    }
}

static APART void hide(void)
{
    for (int at = 0; at < OBJECTS; at++) {
        hidden[at] = GC_HIDE_POINTER(shown[at]);
        shown[at] = NULL;
    }
}

static APART void reveal(void)
{
    for (int at = 0; at < OBJECTS; at++)
        shown[at] = GC_REVEAL_POINTER(hidden[at]);
}

/* Allocates and frees for so many milliseconds; gives the heap's size. */
static APART size_t by_hand(int milliseconds)
{
    for (int turn = 0; turn < milliseconds; turn++) {
        for (int at = 0; at < 1000; at++)
            GC_FREE(GC_MALLOC(256));
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return GC_get_heap_size();
}

/* A collection begins beside the program, where the library has such, and finds them disabled. */
static void free_while_disabled(void)
{
    void (*begin)(void) = dlsym(RTLD_DEFAULT, "GC_start_incremental_collection");
    static void **list;
    for (int at = 0; at < 1000000; at++) {
        void **cell = GC_MALLOC(64);
        cell[0] = list;
        list = cell;
    }
    if (begin != NULL)
        begin();
    /* It marks by now, and for longer. */
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    GC_disable();
    size_t before = by_hand(1500), after = by_hand(300);
    GC_enable();
    CHECK(after <= before + (4 << 20));
    CHECK(list != NULL);
}

int main(void)
{
    GC_INIT();
    shown = GC_MALLOC_UNCOLLECTABLE(OBJECTS * sizeof *shown);
    hidden = GC_malloc_atomic_uncollectable(OBJECTS * sizeof *hidden);
    /* Of newer versions of libgc. */
    void (*finish_and_disable)(void) = dlsym(RTLD_DEFAULT, "GC_finish_and_disable");
    CHECK(!on_neap() || finish_and_disable != NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    make();
    int changed = 0, ended = 0;
    for (int round = 0; round < ROUNDS; round++) {
        allocate(100);
        if (round % 50 == 49 && finish_and_disable != NULL)
            finish_and_disable();
        else
            GC_disable();
        GC_word number = GC_get_gc_no();
        hide();
        clear_stack();
        nanosleep(&(struct timespec){0, 500000}, NULL);
        allocate(50);
        ended += GC_get_gc_no() != number;
        reveal();
        GC_enable();
        clear_stack();
        for (int at = 0; at < OBJECTS; at++)
            changed += shown[at][1] != ~at;
    }
    CHECK(changed == 0);
    CHECK(ended == 0);
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(GC_get_gc_no() > 0);
    free_while_disabled();
    return finish();
}
