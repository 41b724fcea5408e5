/* The free lists of libgc's own allocator, which programs built against its private headers use:
   who takes what is there, and asks the allocator where nothing is, gets objects that are apart and
   stay, and gets back what it puts there. */
#include "check.h"
#include <string.h>

/* Weak: later versions of libgc may lack them. */
#define LISTS extern __attribute__((weak)) void **const
LISTS GC_objfreelist_ptr;
LISTS GC_aobjfreelist_ptr;
LISTS GC_uobjfreelist_ptr;
LISTS GC_auobjfreelist_ptr;

#define GRANULE 16
#define MOST_GRANULES 128

struct taken {
    void **list;
    void *object;
};

static void *GC_CALLBACK take(void *argument)
{
    struct taken *taken = argument;
    taken->object = *taken->list;
    if (taken->object != NULL)
        *taken->list = *(void **)taken->object;
    return NULL;
}

static void *GC_CALLBACK put(void *argument)
{
    struct taken *taken = argument;
    *(void **)taken->object = *taken->list;
    *taken->list = taken->object;
    return NULL;
}

/* An object of so many granules, as such a program makes it. */
static APART void **allocate(size_t granules)
{
    struct taken taken = {GC_objfreelist_ptr + granules, NULL};
    GC_call_with_alloc_lock(take, &taken);
    if (taken.object == NULL)
        return GC_malloc(granules * GRANULE - 1);
    return memset(taken.object, 0, granules * GRANULE);
}

static void **kept;

int main(void)
{
    GC_INIT();
    int has_lists = &GC_objfreelist_ptr != NULL && &GC_aobjfreelist_ptr != NULL &&
                    &GC_uobjfreelist_ptr != NULL && &GC_auobjfreelist_ptr != NULL;
    CHECK(has_lists || !on_neap());
    if (!has_lists)
        return 0;
    for (long turn = 0; turn < 200000; turn++) {
        void **object = allocate(2 + turn % (MOST_GRANULES - 3));
        CHECK(object[0] == NULL && object[1] == NULL && object[2] == NULL);
        object[1] = (void *)turn;
        if (turn % 100 == 0) {
            object[0] = kept;
            kept = object;
        }
    }
    GC_gcollect();
    long next = 199900;
    for (void **object = kept; object != NULL; object = object[0], next -= 100)
        CHECK_EQUAL((long)object[1], next);
    CHECK_EQUAL(next, -100);

    /* Of each kind the last list is there too. */
    void **const lists[] = {GC_objfreelist_ptr, GC_aobjfreelist_ptr, GC_uobjfreelist_ptr,
                            GC_auobjfreelist_ptr};
    for (int kind = 0; kind < 4; kind++) {
        struct taken given = {lists[kind] + MOST_GRANULES, GC_malloc_uncollectable(GRANULE)};
        struct taken back = given;
        GC_call_with_alloc_lock(put, &given);
        GC_call_with_alloc_lock(take, &back);
        CHECK(back.object == given.object);
        GC_free(back.object);
        for (int other = 0; other < kind; other++)
            CHECK(lists[other] != lists[kind]);
    }
    return finish();
}
