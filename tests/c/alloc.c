/* Every function that allocates, and what can be asked of an object: sizes, alignment, zeroing,
   kinds, realloc, free. */
#include "check.h"

static int is_zero(const void *memory, size_t bytes)
{
    const unsigned char *byte = memory;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != 0)
            return 0;
    return 1;
}

static void object_is(void *object, size_t bytes, int kind)
{
    neap_object_info info = {0};
    CHECK(object != NULL);
    CHECK((uintptr_t)object % (bytes % 16 == 0 && bytes > 0 ? 16 : 8) == 0);
    CHECK(neap_usable_size(object) >= bytes);
    CHECK(neap_object_at(object, &info));
    CHECK(info.start == object);
    CHECK(neap_is_heap_address(object));
    CHECK_EQUAL(info.kind, kind);
    CHECK_EQUAL(info.layout, NEAP_NO_LAYOUT);
    CHECK_EQUAL(info.bytes, neap_usable_size(object));
    CHECK_EQUAL(neap_good_size(bytes), info.bytes);
    if (bytes > 0)
        CHECK(neap_base((char *)object + bytes - 1) == object);
    /* All of what it has is its own. */
    CHECK(neap_base((char *)object + info.bytes - 1) == object);
    memset(object, 0xa5, bytes);
}

static void every_kind(size_t bytes)
{
    void *object = neap_alloc(bytes);
    CHECK(is_zero(object, bytes));
    object_is(object, bytes, NEAP_CONSERVATIVE);
    object_is(neap_alloc_leaf(bytes), bytes, NEAP_LEAF);
    object = neap_alloc_leaf_zeroed(bytes);
    CHECK(is_zero(object, bytes));
    object_is(object, bytes, NEAP_LEAF);
    object = neap_alloc_uncollectable(bytes);
    CHECK(is_zero(object, bytes));
    object_is(object, bytes, NEAP_UNCOLLECTABLE);
    CHECK_EQUAL(neap_free(object), NEAP_OK);
    object = neap_alloc_uncollectable_leaf(bytes);
    object_is(object, bytes, NEAP_UNCOLLECTABLE_LEAF);
    CHECK_EQUAL(neap_free(object), NEAP_OK);
    for (int kind = NEAP_CONSERVATIVE; kind <= NEAP_UNCOLLECTABLE_LEAF; kind++) {
        object = neap_alloc_kind(bytes, kind);
        object_is(object, bytes, kind);
        CHECK_EQUAL(neap_free(object), NEAP_OK);
        object = neap_alloc_array(3, bytes, kind);
        CHECK(is_zero(object, 3 * bytes));
        object_is(object, 3 * bytes, kind);
        CHECK_EQUAL(neap_free(object), NEAP_OK);
        for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
            object = neap_alloc_aligned(bytes, alignment, kind);
            CHECK((uintptr_t)object % alignment == 0);
            CHECK(kind == NEAP_LEAF || kind == NEAP_UNCOLLECTABLE_LEAF || is_zero(object, bytes));
            CHECK(neap_usable_size(object) >= bytes);
            CHECK(neap_base((char *)object + (bytes > 0 ? bytes - 1 : 0)) == object);
            memset(object, 0x3c, bytes);
            CHECK_EQUAL(neap_free(object), NEAP_OK);
        }
    }
}

static void realloc_keeps_contents(int kind)
{
    static const size_t sizes[] = {1, 8, 24, 25, 100, 1000, 5000, 40000, 300000, 200000, 3000000,
        70000, 300, 40, 3};
    size_t had = 0;
    unsigned char *object = neap_alloc_kind(1, kind);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        object = neap_realloc(object, sizes[i]);
        CHECK(object != NULL);
        CHECK(neap_usable_size(object) >= sizes[i]);
        neap_object_info info;
        CHECK(neap_object_at(object, &info) && info.kind == kind);
        for (size_t k = 0; k < had && k < sizes[i]; k++)
            if (object[k] != (unsigned char)(k * 7)) {
                CHECK(!"contents kept");
                break;
            }
        had = sizes[i];
        for (size_t k = 0; k < had; k++)
            object[k] = (unsigned char)(k * 7);
    }
    /* An explicit free is a hint while a cycle marks beside the program; after this one none
       does. */
    CHECK(neap_collect());
    CHECK(neap_realloc(object, 0) == NULL);
    CHECK_EQUAL(neap_usable_size(object), 0);
    CHECK(neap_realloc(NULL, 10) != NULL);
}

int main(void)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 24, 32, 48, 64, 127, 128, 129, 144,
        160, 1000, 1024, 4096, 5000,
                                   32767, 32768, 32769, 65536, 100000, 1 << 20, 10000000};
    for (int turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            every_kind(sizes[i]);
        CHECK(neap_collect());
    }
    for (int kind = NEAP_CONSERVATIVE; kind <= NEAP_UNCOLLECTABLE_LEAF; kind++)
        realloc_keeps_contents(kind);

    /* Objects of no bytes are different objects. */
    CHECK(neap_alloc(0) != neap_alloc(0));
    /* What is no object has no size and no base. */
    int local = 0;
    CHECK_EQUAL(neap_usable_size(&local), 0);
    CHECK(neap_base(&local) == NULL && neap_base(NULL) == NULL);
    CHECK(!neap_object_at(&local, NULL) && !neap_is_heap_address(&local));
    CHECK_EQUAL(neap_usable_size((char *)neap_alloc(64) + 8), 0);
    CHECK_EQUAL(neap_free(NULL), NEAP_OK);
    /* The addresses of the inline functions are the library's. */
    void *(*volatile allocate)(size_t) = neap_alloc,
        *(*volatile allocate_leaf)(size_t) = neap_alloc_leaf;
    object_is(allocate(40), 40, NEAP_CONSERVATIVE);
    object_is(allocate_leaf(40), 40, NEAP_LEAF);
    return finish();
}
