/* Every form of the debugging allocator, as programs use it: by the macros of GC_DEBUG and by name.
   Objects are those of the form without GC_debug_, with a header before them. */
#define GC_DEBUG
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

#define BYTES 200

static int finalized;
static void finalize(void *object, void *data)
{
    CHECK_EQUAL(*(int *)object, 77);
    CHECK_EQUAL(*(int *)data, 3);
    finalized++;
}

/* An object of the size, clear unless it is pointer-free. */
static void check_object(char *object, size_t size, int clear)
{
    CHECK(object != NULL);
    CHECK(GC_base(object) == object - GC_get_debug_header_size());
    CHECK(GC_USR_PTR_FROM_BASE(GC_base(object)) == object);
    CHECK(GC_size(GC_base(object)) >= size + GC_get_debug_header_size());
    for (size_t at = 0; clear && at < size; at++)
        CHECK_EQUAL(object[at], 0);
    memset(object, 0x5A, size);
}

static void check_allocation(void)
{
    check_object(GC_MALLOC(BYTES), BYTES, 1);
    check_object(GC_MALLOC_ATOMIC(BYTES), BYTES, 0);
    check_object(GC_MALLOC_IGNORE_OFF_PAGE(BYTES), BYTES, 1);
    check_object(GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(BYTES), BYTES, 0);
    check_object(GC_MALLOC_STUBBORN(BYTES), BYTES, 1);
    check_object(GC_debug_malloc_stubborn(BYTES, "here", 1), BYTES, 1);
    check_object(GC_debug_malloc_ignore_off_page(BYTES, "here", 1), BYTES, 1);
    check_object(GC_debug_malloc_atomic_ignore_off_page(BYTES, "here", 1), BYTES, 0);
    char *uncollectable = GC_MALLOC_UNCOLLECTABLE(BYTES);
    check_object(uncollectable, BYTES, 1);
    GC_FREE(uncollectable);
    uncollectable = GC_debug_malloc_uncollectable(BYTES, "here", 1);
    check_object(uncollectable, BYTES, 1);
    GC_debug_free(uncollectable);
    uncollectable = GC_debug_malloc_atomic_uncollectable(BYTES, "here", 1);
    check_object(uncollectable, BYTES, 0);
    GC_debug_free(uncollectable);
}

static void check_texts(void)
{
    char *text = GC_STRDUP("twelve");
    CHECK(strcmp(text, "twelve") == 0);
    CHECK(strcmp(GC_STRNDUP("twelve", 4), "twel") == 0);
    CHECK(strcmp(GC_debug_strdup("a", "here", 2), "a") == 0);
    CHECK(strcmp(GC_debug_strndup("abc", 2, "here", 2), "ab") == 0);
    text = GC_REALLOC(text, 500);
    CHECK(strcmp(text, "twelve") == 0);
    text = GC_debug_realloc(text, 20, "here", 3);
    CHECK(strcmp(text, "twelve") == 0);
    text = GC_debug_realloc_replacement(text, 2000);
    CHECK(strcmp(text, "twelve") == 0);
    GC_FREE(text);
    GC_FREE(NULL);
}

static void check_kinds(void)
{
    unsigned kind = GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    check_object(GC_GENERIC_OR_SPECIAL_MALLOC(BYTES, (int)kind), BYTES, 1);
    check_object(GC_debug_generic_or_special_malloc(BYTES, (int)kind, "here", 1), BYTES, 1);
    GC_word bitmap[1] = {1};
    GC_descr descriptor = GC_make_descriptor(bitmap, 2);
    CHECK(GC_MALLOC_EXPLICITLY_TYPED(BYTES, descriptor) != NULL);
    CHECK(GC_CALLOC_EXPLICITLY_TYPED(10, 16, descriptor) != NULL);
}

static APART void make_finalized(int *data)
{
    for (int index = 0; index < MANY; index++) {
        int *objects[4];
        for (int form = 0; form < 4; form++) {
            objects[form] = GC_MALLOC(BYTES);
            *objects[form] = 77;
        }
        GC_finalization_proc old;
        void *old_data;
        GC_REGISTER_FINALIZER(objects[0], finalize, data, NULL, NULL);
        GC_REGISTER_FINALIZER_IGNORE_SELF(objects[1], finalize, data, NULL, NULL);
        *(void **)(objects[1] + 2) = objects[1];
        GC_REGISTER_FINALIZER_NO_ORDER(objects[2], finalize, data, NULL, NULL);
        GC_debug_register_finalizer_unreachable(objects[3], finalize, data, NULL, NULL);
        GC_debug_register_finalizer(objects[0], finalize, data, &old, &old_data);
        CHECK(old == finalize && old_data == data);
        if (index == 0) {
            /* The others by name; none is left afterwards. */
            GC_debug_register_finalizer_ignore_self(objects[1], finalize, data, &old, &old_data);
            GC_debug_register_finalizer_no_order(objects[2], finalize, data, &old, &old_data);
            CHECK(old == finalize && old_data == data);
            GC_REGISTER_FINALIZER_UNREACHABLE(objects[3], finalize, data, &old, &old_data);
            CHECK(old == finalize && old_data == data);
        }
    }
}

static void check_links(void)
{
    struct {
        GC_hidden_pointer weak, long_weak;
    } *links = GC_MALLOC_ATOMIC(sizeof *links);
    void *volatile object = GC_MALLOC(BYTES);
    links->weak = links->long_weak = GC_HIDE_POINTER(object);
    CHECK_EQUAL(GC_GENERAL_REGISTER_DISAPPEARING_LINK((void **)&links->weak, object), GC_SUCCESS);
    CHECK_EQUAL(GC_GENERAL_REGISTER_DISAPPEARING_LINK((void **)&links->weak, object),
                GC_DUPLICATE);
    CHECK_EQUAL(GC_REGISTER_LONG_LINK((void **)&links->long_weak, object), GC_SUCCESS);
    collect();
    CHECK(GC_REVEAL_POINTER(links->weak) == object);
    CHECK(GC_REVEAL_POINTER(links->long_weak) == object);
}

static void check_pointers(void)
{
    long *numbers = GC_MALLOC(10 * sizeof(long));
    long *at = numbers;
    CHECK(GC_PTR_ADD(at, 3) == numbers + 3);
    CHECK(GC_PRE_INCR(at, 2) == numbers + 2);
    CHECK(GC_POST_INCR(at) == numbers + 2 && at == numbers + 3);
    CHECK(GC_POST_DECR(at) == numbers + 3 && at == numbers + 2);
    void **place = GC_MALLOC(sizeof(void *));
    GC_PTR_STORE(place, numbers);
    CHECK(*place == numbers);
    GC_PTR_STORE_AND_DIRTY(place, NULL);
    GC_END_STUBBORN_CHANGE(place);
    CHECK(*place == NULL);
    GC_debug_ptr_store_and_dirty(place, numbers);
    GC_debug_change_stubborn(place);
    GC_debug_end_stubborn_change(place);
    CHECK(*place == numbers);
    GC_ptr_store_and_dirty(place, at);
    GC_CHANGE_STUBBORN(place);
    CHECK(*place == at);
}

int main(void)
{
    GC_INIT();
    GC_REGISTER_DISPLACEMENT(8);
    GC_debug_register_displacement(16);
    GC_register_displacement(24);
    check_allocation();
    check_texts();
    check_kinds();
    check_links();
    check_pointers();
    static int data = 3;
    make_finalized(&data);
    collect();
    collect();
    CHECK(finalized >= 4 * (MANY - STRAY) && finalized <= 4 * MANY);
    return finish();
}
