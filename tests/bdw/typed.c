/* gc_typed.h: what a descriptor names is kept alive, what it does not name is not; short and long
   bitmaps, arrays, with pointers or none. */
#include "check.h"
#include "substitute.h"
#include <gc/gc_typed.h>

static GC_hidden_pointer ignored[MANY], followed[MANY];
/* Volatile: nobody reads it but the collector. */
static void **volatile holders[MANY];

static APART void fill(int index, void **holder, size_t first, size_t second)
{
    holders[index] = holder;
    void *one = GC_malloc_atomic(32), *two = GC_malloc_atomic(32);
    holder[first] = one;
    holder[second] = two;
    ignored[index] = GC_HIDE_POINTER(one);
    followed[index] = GC_HIDE_POINTER(two);
    GC_general_register_disappearing_link((void **)&ignored[index], one);
    GC_general_register_disappearing_link((void **)&followed[index], two);
}

static void check_holders(int exact)
{
    collect();
    int gone = 0, kept = 0;
    for (int index = 0; index < MANY; index++) {
        gone += ignored[index] == 0;
        kept += followed[index] != 0;
        GC_unregister_disappearing_link((void **)&ignored[index]);
        GC_unregister_disappearing_link((void **)&followed[index]);
        holders[index] = NULL;
    }
    CHECK_EQUAL(kept, MANY);
    if (exact)
        CHECK_NEARLY_ALL(gone);
}

/* Objects of `words` words of which only `word` may be a pointer. */
static void one_word(size_t words, size_t word, size_t bytes)
{
    GC_word bits[40] = {0};
    GC_set_bit(bits, word);
    GC_descr descriptor = GC_make_descriptor(bits, words);
    for (int index = 0; index < MANY; index++) {
        void **holder = GC_malloc_explicitly_typed(bytes, descriptor);
        for (size_t at = 0; at < words; at++)
            CHECK(holder[at] == NULL);
        fill(index, holder, word == 0 ? 1 : 0, word);
    }
    check_holders(1);
}

static void array(size_t element_words, size_t count)
{
    GC_word bits[40] = {0};
    GC_set_bit(bits, element_words - 1);
    GC_descr descriptor = GC_make_descriptor(bits, element_words);
    for (int index = 0; index < MANY; index++) {
        void **holder = GC_calloc_explicitly_typed(count, element_words * 8, descriptor);
        size_t last = (count - 1) * element_words;
        fill(index, holder, last, last + element_words - 1);
    }
    /* Precision of arrays is the library's choice. */
    check_holders(0);
}

/* Without pointers whatever their elements' size: no whole words, less than one, many. */
static void empty_array(size_t count, size_t element_bytes)
{
    for (int index = 0; index < MANY; index++)
        fill(index, GC_calloc_explicitly_typed(count, element_bytes, 0), 0, 1);
    collect();
    int gone = 0;
    for (int index = 0; index < MANY; index++) {
        gone += ignored[index] == 0;
        GC_unregister_disappearing_link((void **)&ignored[index]);
        GC_unregister_disappearing_link((void **)&followed[index]);
        holders[index] = NULL;
    }
    CHECK_NEARLY_ALL(gone);
}

static APART void fill_and_drop(size_t bytes, GC_descr descriptor)
{
    for (int index = 0; index < MANY; index++) {
        void *object = GC_malloc_explicitly_typed(bytes, descriptor);
        memset(object, 'x', bytes);
    }
}

/* Objects that are not scanned are zero all the same, and what they gain. */
static void cleared(GC_descr descriptor)
{
    fill_and_drop(40, descriptor);
    clear_stack();
    GC_gcollect();
    for (int index = 0; index < MANY; index++) {
        char *object = GC_malloc_explicitly_typed(40, descriptor);
        size_t had = GC_size(object);
        CHECK(all_are(object, had, 0));
        memset(object, 'y', 40);
        object = GC_realloc(object, 200);
        CHECK(all_are(object, 40, 'y') && all_are(object + had, GC_size(object) - had, 0));
        memset(object, 'z', 200);
        GC_free(object);
    }
    if (!on_neap())
        return; /* libgc takes what the function gives for an object of its own */
    static void *volatile given; /* volatile: the compiler takes it for new memory */
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(give_substitute);
    memset(substitute, 's', sizeof substitute);
    given = GC_malloc_explicitly_typed(SIZE_MAX / 4, descriptor);
    CHECK(given == substitute);
    given = GC_calloc_explicitly_typed(SIZE_MAX / 64, 8, descriptor);
    CHECK(given == substitute && all_are(substitute, sizeof substitute, 's'));
}

int main(void)
{
    GC_INIT();
    one_word(2, 0, 16);
    one_word(3, 2, 24);
    one_word(4, 1, 32);
    one_word(62, 60, 62 * 8);
    one_word(100, 99, 800);
    one_word(100, 63, 800);
    one_word(130, 64, 1040);
    one_word(2000, 70, 16000);
    one_word(2, 1, 4000); /* more room than the descriptor speaks of */
    array(2, 1);
    array(3, 10);
    array(4, 500);
    array(70, 30);
    empty_array(10, 16);
    empty_array(10, 12);
    empty_array(100, 4);
    empty_array(3, 5000);

    /* No pointers at all. */
    GC_word nothing[1] = {0};
    GC_descr empty = GC_make_descriptor(nothing, 8);
    for (int index = 0; index < MANY; index++) {
        void **holder = GC_malloc_explicitly_typed(64, empty);
        fill(index, holder, 0, 1);
    }
    collect();
    int gone = 0;
    for (int index = 0; index < MANY; index++)
        gone += ignored[index] == 0;
    CHECK_NEARLY_ALL(gone);
    CHECK(GC_malloc_explicitly_typed_ignore_off_page(200000, empty) != NULL);
    cleared(empty);
    return finish();
}
