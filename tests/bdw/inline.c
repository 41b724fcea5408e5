/* The program's own free lists of gc_inline.h: objects from them are clear, hold what they hold
   through collections, and come from the ordinary allocator first where that is asked for. */
#include "check.h"
#include <gc/gc_inline.h>
#include <gc/gc_typed.h>

static void *lists[GC_TINY_FREELISTS], *leaf_lists[GC_TINY_FREELISTS];

static APART long sum(void **pair)
{
    long total = 0;
    for (; pair != NULL; pair = pair[1])
        total += *(long *)pair[0];
    return total;
}

int main(void)
{
    GC_INIT();
    for (int index = 0; index < GC_TINY_FREELISTS; index++)
        lists[index] = leaf_lists[index] = (void *)1;
    GC_add_roots(lists, lists + GC_TINY_FREELISTS);

    void **list = NULL;
    long expected = 0;
    for (long value = 0; value < 300000; value++) {
        long *leaf;
        GC_MALLOC_ATOMIC_WORDS(leaf, 1, leaf_lists);
        *leaf = value;
        void **garbage;
        GC_MALLOC_WORDS(garbage, 6, lists);
        for (int word = 0; word < 6; word++)
            CHECK(garbage[word] == NULL);
        garbage[3] = list;
        if (value % 100 == 0) {
            GC_CONS(list, leaf, list, lists);
            expected += value;
        }
        if (value % 10000 == 77) /* in the midst of lists */
            GC_gcollect();
    }
    CHECK(GC_get_gc_no() > 0);
    CHECK_EQUAL(sum(list), expected);

    /* Too large for the table. */
    char *large;
    GC_MALLOC_WORDS(large, 1000, lists);
    CHECK(GC_size(large) >= 1000 * sizeof(GC_word));

    /* Two granules: 3 more in the table for each object, the ordinary allocator up to 100. */
    void *counted[GC_TINY_FREELISTS] = {NULL};
    counted[2] = (void *)1;
    int ordinary = 0;
    for (int turn = 0; turn < 60; turn++) {
        void *object;
        GC_FAST_MALLOC_GRANS(object, 2, counted, 100, GC_I_NORMAL,
                             (ordinary++, GC_malloc(2 * GC_GRANULE_BYTES)), GC_NEXT(object) = NULL);
        CHECK(GC_base(object) == object);
    }
    CHECK(ordinary >= 33 && ordinary <= 34);

    GC_word bitmap[GC_BITMAP_SIZE(struct { void *one; long two; })] = {0};
    GC_set_bit(bitmap, 0);
    CHECK_EQUAL(GC_get_bit(bitmap, 0), 1);
    CHECK_EQUAL(GC_get_bit(bitmap, 1), 0);
    return finish();
}
