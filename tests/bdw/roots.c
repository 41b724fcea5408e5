/* Roots: data, added and removed ranges, exclusions, the program's own procedure by setter and by
   variable, thread-local storage. */
#include "check.h"
#include <gc/gc_mark.h>
#include <sys/mman.h>

/* Volatile: nobody reads them but the collector. */
static void *volatile in_data = (void *)1, *volatile in_bss;
static __thread void *volatile in_thread;
static GC_hidden_pointer watch[8];

static APART void *make(int index)
{
    void *object = GC_malloc(64);
    watch[index] = GC_HIDE_POINTER(object);
    GC_general_register_disappearing_link((void **)&watch[index], object);
    return object;
}

static APART void place(void **outside)
{
    in_data = make(0);
    in_bss = make(1);
    in_thread = make(2);
    outside[0] = make(3);
}

/* In an array, so that one stray word does not decide. */
static GC_hidden_pointer many[MANY];
static APART void place_many(void **outside)
{
    for (int index = 0; index < MANY; index++) {
        void *object = GC_malloc(64);
        ((void *volatile *)outside)[index] = object;
        many[index] = GC_HIDE_POINTER(object);
        GC_general_register_disappearing_link((void **)&many[index], object);
    }
}
static int alive(void)
{
    int count = 0;
    for (int index = 0; index < MANY; index++) {
        count += many[index] != 0;
        GC_unregister_disappearing_link((void **)&many[index]);
    }
    return count;
}

static void **pushed_range;
static int pushes, chained;
static GC_push_other_roots_proc former;
static void push_roots(void)
{
    pushes++;
    GC_push_all_eager(pushed_range, pushed_range + MANY / 2);
    GC_push_all(pushed_range + MANY / 2, pushed_range + MANY);
    if (former)
        former();
}
static void push_by_variable(void)
{
    chained++;
    GC_push_conditional(pushed_range, pushed_range + MANY, 1);
    if (former)
        former();
}
static void set_bits(void)
{
    for (int index = 0; index < MANY; index++)
        GC_set_mark_bit(pushed_range[index]);
    if (former)
        former();
}

static void *excluded[MANY] __attribute__((used));

int main(void)
{
    GC_INIT();
    void **outside = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(outside != MAP_FAILED);

    GC_add_roots(outside, outside + MANY);
    place(outside);
    collect();
    for (int index = 0; index < 4; index++)
        /* libgc does not look at thread-local storage of the main thread. */
        CHECK(watch[index] != 0 || (index == 2 && !on_neap()));

    place_many(outside);
    collect();
    CHECK_EQUAL(alive(), MANY);
    /* A part of one that was added changes nothing, and no one what another one holds too. */
    GC_remove_roots(outside + 1, outside + MANY);
    GC_add_roots(outside + MANY / 2, outside + MANY + 8);
    GC_add_roots(outside, outside + MANY);
    GC_remove_roots(outside + MANY / 2, outside + MANY + 8);
    place_many(outside);
    collect();
    CHECK_EQUAL(alive(), MANY);
    GC_remove_roots(outside, outside + MANY);
    place_many(outside);
    collect();
    CHECK(alive() <= STRAY);

    /* libgc has looked for data segments by now. */
    static void *inside[MANY];
    GC_set_no_dls(1);
    place_many(inside);
    collect();
    CHECK(alive() <= STRAY || !on_neap());
    GC_set_no_dls(0);
    place_many(inside);
    collect();
    CHECK_EQUAL(alive(), MANY);
    memset(inside, 0, sizeof inside);

    pushed_range = outside;
    former = GC_get_push_other_roots();
    CHECK(former != NULL);
    GC_set_push_other_roots(push_roots);
    CHECK(GC_get_push_other_roots() == push_roots);
    place_many(outside);
    collect();
    CHECK_EQUAL(alive(), MANY);
    CHECK(pushes >= 1);

    extern GC_push_other_roots_proc GC_push_other_roots;
    GC_push_other_roots = push_by_variable;
    place_many(outside);
    collect();
    CHECK_EQUAL(alive(), MANY);
    CHECK(chained >= 1);
    GC_set_push_other_roots(set_bits);
    place_many(outside);
    collect();
    CHECK_EQUAL(alive(), MANY);
    GC_set_push_other_roots(former);
    place_many(outside);
    collect();
    CHECK(alive() <= STRAY);

    place_many(excluded);
    collect();
    CHECK_EQUAL(alive(), MANY);
    GC_exclude_static_roots(excluded, excluded + MANY);
    place_many(excluded);
    collect();
    CHECK(alive() <= STRAY);

    /* Also of what is added, before and afterwards. */
    GC_add_roots(outside, outside + 2 * MANY);
    GC_exclude_static_roots(outside, outside + MANY);
    place_many(outside);
    collect();
    CHECK(alive() <= STRAY);
    place_many(outside + MANY);
    collect();
    CHECK_EQUAL(alive(), MANY);
    GC_exclude_static_roots(outside + 2 * MANY, outside + 3 * MANY);
    GC_add_roots(outside + 2 * MANY, outside + 4 * MANY);
    place_many(outside + 2 * MANY);
    collect();
    CHECK(alive() <= STRAY);
    place_many(outside + 3 * MANY);
    collect();
    CHECK_EQUAL(alive(), MANY);
    if (on_neap()) { /* libgc excludes its own data by the same table */
        GC_clear_exclusion_table();
        place_many(outside);
        collect();
        CHECK_EQUAL(alive(), MANY);
    }
    return finish();
}
