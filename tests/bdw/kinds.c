/* Kinds of the program's own: mark procedures, descriptors of every tag, lists of objects, kinds of
   objects that exist. */
#include "check.h"
#include "substitute.h"
#include <gc/gc_mark.h>
#include <gc/gc_inline.h>

static long seen_environment, calls;

/* Objects are {ignored pointer, followed pointer}. */
static struct GC_ms_entry *second_word(GC_word *object, struct GC_ms_entry *stack,
                                       struct GC_ms_entry *limit, GC_word environment)
{
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    seen_environment = (long)environment;
    return GC_MARK_AND_PUSH((void *)object[1], stack, limit, (void **)&object[1]);
}

static GC_hidden_pointer ignored[MANY], followed[MANY];
static void **holders[MANY];

static APART void make_pair(int index, int kind, size_t first, size_t second, size_t bytes)
{
    void **holder = GC_generic_malloc(bytes, kind);
    void *one = GC_malloc_atomic(32), *two = GC_malloc_atomic(32);
    if (!holder[0]) /* not where the first word is the descriptor's place */
        holder[first] = one;
    holder[second] = two;
    memset(two, index + 1, 32);
    ignored[index] = GC_HIDE_POINTER(one);
    followed[index] = GC_HIDE_POINTER(two);
    GC_general_register_disappearing_link((void **)&ignored[index], one);
    GC_general_register_disappearing_link((void **)&followed[index], two);
    holders[index] = holder;
}

/* Word `first` of each object must not keep its target alive, word `second` must. */
static void check_kind(int kind, size_t first, size_t second, size_t bytes, int exact)
{
    for (int index = 0; index < MANY; index++)
        make_pair(index, kind, first, second, bytes);
    collect();
    int gone = 0, kept = 0;
    for (int index = 0; index < MANY; index++) {
        gone += ignored[index] == 0;
        kept += followed[index] != 0;
        unsigned char *target = holders[index][second];
        CHECK(target[0] == index + 1 && target[31] == index + 1);
    }
    CHECK_EQUAL(kept, MANY);
    if (exact)
        CHECK_NEARLY_ALL(gone);
    for (int index = 0; index < MANY; index++) {
        size_t size = 0;
        CHECK_EQUAL(GC_get_kind_and_size(holders[index], &size), kind);
        CHECK(size >= bytes);
        GC_unregister_disappearing_link((void **)&followed[index]);
        GC_unregister_disappearing_link((void **)&ignored[index]);
        holders[index] = NULL;
    }
}

struct typed { GC_word descriptor; void *one, *two, *three; };

static APART void per_object(void)
{
    /* The descriptor in the object's first word: the first 24 bytes, so not word 3. */
    unsigned kind = GC_new_kind(GC_new_free_list(), 0 | GC_DS_PER_OBJECT, 0, 1);
    static struct typed *volatile objects[MANY] __attribute__((used));
    static GC_hidden_pointer two[MANY], three[MANY];
    for (int index = 0; index < MANY; index++) {
        struct typed *object = GC_generic_malloc(sizeof *object, kind);
        object->descriptor = 24 | GC_DS_LENGTH;
        object->two = GC_malloc_atomic(16);
        object->three = GC_malloc_atomic(16);
        two[index] = GC_HIDE_POINTER(object->two);
        three[index] = GC_HIDE_POINTER(object->three);
        GC_general_register_disappearing_link((void **)&two[index], object->two);
        GC_general_register_disappearing_link((void **)&three[index], object->three);
        objects[index] = object;
    }
    collect();
    int kept = 0, gone = 0;
    for (int index = 0; index < MANY; index++) {
        kept += two[index] != 0;
        gone += three[index] == 0;
        objects[index] = NULL;
    }
    CHECK_EQUAL(kept, MANY);
    CHECK_NEARLY_ALL(gone);
}

/* Lists, linked through their first words. Of pointer-free objects Neap gives one at a time: they
   do not keep each other alive. */
static void many(void)
{
    for (int kind = 0; kind < 2; kind++) {
        void *list = NULL;
        GC_generic_malloc_many(48, kind, &list);
        int count = 0;
        for (void *at = list; at; at = GC_NEXT(at)) {
            CHECK_EQUAL(GC_size(at), 48); /* no byte behind the end: the caller's matter */
            CHECK_EQUAL(GC_get_kind_and_size(at, NULL), kind);
            count++;
        }
        CHECK(count > 1 || kind == GC_I_PTRFREE);
    }
}

/* The header's own inline allocator. Four words for three: libgc does not look at the last one. */
static void inlined(void)
{
    static void *lists[GC_TINY_FREELISTS];
    void **chain = NULL;
    for (long index = 0; index < 100000; index++) {
        void **cell;
        GC_MALLOC_WORDS(cell, 3, lists);
        cell[0] = (void *)index;
        cell[1] = chain;
        if (index % 3 == 0)
            chain = cell;
    }
    long expected = 99999, length = 0;
    for (void **cell = chain; cell && length < 40000; cell = cell[1], expected -= 3, length++)
        CHECK_EQUAL((long)cell[0], expected);
    CHECK_EQUAL(length, 33334);
}

static int reachable;
static void count_reachable(void *object, size_t bytes, void *data)
{
    CHECK(GC_base(object) == object && bytes > 0);
    reachable += data == &reachable;
}
static void *enumerate(void *nothing)
{
    GC_enumerate_reachable_objects_inner(count_reachable, &reachable);
    return nothing;
}

static APART void fill_and_drop(int kind, size_t bytes)
{
    for (int index = 0; index < MANY; index++) {
        void *object = GC_generic_malloc(bytes, kind);
        memset(object, 'x', GC_size(object));
    }
}

/* Of a kind whose objects are cleared all bytes are, also those behind what was asked for, and
   those that an object gains. */
static void cleared(int kind, size_t bytes)
{
    fill_and_drop(kind, bytes);
    clear_stack();
    GC_gcollect();
    for (int index = 0; index < MANY; index++) {
        char *object = GC_generic_malloc(bytes, kind);
        CHECK(all_are(object, GC_size(object), 0));
        memset(object, 'y', bytes);
        size_t had = GC_size(object);
        object = GC_realloc(object, 5 * bytes);
        CHECK_EQUAL(GC_get_kind_and_size(object, NULL), kind);
        CHECK(all_are(object, bytes, 'y'));
        CHECK(all_are(object + had, GC_size(object) - had, 0));
        memset(object, 'z', GC_size(object));
        GC_free(object);
    }
}

/* Kinds without pointers are told apart by nothing but what was asked for. */
static void pointer_free(void)
{
    int clears = GC_new_kind(GC_new_free_list(), 0, 0, 1);
    int other = GC_new_kind(GC_new_free_list(), 0, 0, 1);
    int plain = GC_new_kind(GC_new_free_list(), 0, 0, 0);
    int kinds[] = {clears, other, plain};
    for (int index = 0; index < 3; index++) {
        CHECK_EQUAL(GC_get_kind_and_size(GC_generic_malloc(40, kinds[index]), NULL), kinds[index]);
        CHECK_EQUAL(GC_get_kind_and_size(GC_generic_malloc(9000, kinds[index]), NULL),
                    kinds[index]);
        static GC_hidden_pointer links[MANY];
        for (int turn = 0; turn < MANY; turn++) {
            void **object = GC_generic_malloc(40, kinds[index]);
            object[1] = GC_malloc_atomic(32);
            links[turn] = GC_HIDE_POINTER(object[1]);
            GC_general_register_disappearing_link((void **)&links[turn], object[1]);
            holders[turn] = object;
        }
        collect();
        int gone = 0;
        for (int turn = 0; turn < MANY; turn++) {
            gone += links[turn] == 0;
            GC_unregister_disappearing_link((void **)&links[turn]);
            holders[turn] = NULL;
        }
        CHECK_NEARLY_ALL(gone);
    }
    cleared(clears, 40);
    cleared(other, 5000);

    /* What the function for lack of memory gives is left as it is. */
    GC_warn_proc warn = GC_get_warn_proc();
    GC_oom_func former = GC_get_oom_fn();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(give_substitute);
    memset(substitute, 's', sizeof substitute);
    /* Volatile: the compiler takes what an allocator gives for new. */
    static void *volatile given;
    given = GC_generic_malloc(SIZE_MAX / 4, clears);
    CHECK(given == substitute);
    CHECK(all_are(substitute, sizeof substitute, 's'));
    GC_set_oom_fn(former);
    GC_set_warn_proc(warn);
}

/* One list for each size of small objects, all empty, and nobody else's memory. */
static void free_lists(void)
{
    enum { LISTS = 129 };
    void **one = GC_new_free_list(), **two = GC_new_free_list();
    CHECK(one && two);
    CHECK((one < two ? two - one : one - two) >= LISTS);
    for (int index = 0; index < LISTS; index++)
        CHECK(one[index] == NULL && two[index] == NULL);
}

int main(void)
{
    GC_INIT();
    free_lists();
    unsigned proc = GC_new_proc(second_word);
    CHECK(proc >= GC_RESERVED_MARK_PROCS);
    int kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 77), 0, 1);
    CHECK(kind > 3);
    check_kind(kind, 0, 1, 16, 1);
    CHECK_EQUAL(seen_environment, 77);
    CHECK(calls >= MANY);

    /* Bitmaps: most significant bit first. */
    GC_word third_of_four = (GC_word)1 << 61 | GC_DS_BITMAP;
    check_kind(GC_new_kind(GC_new_free_list(), third_of_four, 0, 1), 3, 2, 32, 1);
    check_kind(GC_new_kind(GC_new_free_list(), third_of_four, 0, 1), 1, 2, 64, 1);
    /* A length without the object's size: a prefix. */
    check_kind(GC_new_kind(GC_new_free_list(), 16 | GC_DS_LENGTH, 0, 1), 2, 1, 32, 1);
    /* With it: all. */
    check_kind(GC_new_kind(GC_new_free_list(), 0 | GC_DS_LENGTH, 1, 1), 0, 1, 32, 0);
    check_kind(1, 0, 1, 16, 0);
    per_object();
    pointer_free();

    void *leaf = GC_malloc_atomic(20), *normal = GC_malloc(20);
    void *fixed = GC_malloc_uncollectable(20), *fixed_leaf = GC_MALLOC_ATOMIC_UNCOLLECTABLE(20);
    CHECK_EQUAL(GC_get_kind_and_size(leaf, NULL), 0);
    CHECK_EQUAL(GC_get_kind_and_size(normal, NULL), 1);
    CHECK_EQUAL(GC_get_kind_and_size(fixed, NULL), 2);
    CHECK_EQUAL(GC_get_kind_and_size(fixed_leaf, NULL), 3);
    CHECK_EQUAL(GC_get_kind_and_size(GC_malloc_kind(20, 0), NULL), 0);
    many();
    inlined();
    static void *volatile held[10] __attribute__((used));
    for (int index = 0; index < 10; index++)
        held[index] = GC_malloc(500);
    GC_gcollect();
    GC_call_with_alloc_lock(enumerate, NULL);
    CHECK(reachable >= 10);
    CHECK(GC_least_plausible_heap_addr <= normal && GC_greatest_plausible_heap_addr >= normal);
    return finish();
}
