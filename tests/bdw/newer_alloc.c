/* Allocation by names of newer and older versions: pages, resizing and freeing with a difference,
   wide strings, prepared arrays, and the debugging variants. On Neap only. */
#include "newer.h"
#include <limits.h>

static size_t page;
static int allocation_fails;
/* Sizes that no compiler is to see through. */
static volatile size_t all = SIZE_MAX, too_much = (size_t)1 << 62;

static void *no_memory(size_t bytes)
{
    (void)bytes;
    allocation_fails++;
    return NULL;
}

static void check_pages(void)
{
    static const size_t sizes[] = {0, 1, 100, 4095, 4096, 4097, 100000, 1 << 20};
    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        size_t bytes = sizes[index], whole = (bytes + page - 1) / page * page;
        char *one = GC_valloc(bytes), *two = GC_pvalloc(bytes);
        CHECK(one && two && one != two);
        CHECK_EQUAL((uintptr_t)one % page, 0);
        CHECK_EQUAL((uintptr_t)two % page, 0);
        CHECK(GC_base(one) == one && GC_base(two) == two);
        CHECK(GC_size(one) >= bytes);
        CHECK(GC_size(two) >= (whole ? whole : page));
        /* To be written to the end, which valloc(0) has no byte before. */
        for (size_t at = 0; at < bytes; at++)
            CHECK(one[at] == 0 && two[at] == 0);
        if (bytes)
            one[bytes - 1] = two[whole - 1] = 1;
    }
    allocation_fails = 0;
    CHECK(GC_valloc(SIZE_MAX) == NULL);
    CHECK_EQUAL(allocation_fails, 1);
    CHECK(GC_pvalloc(SIZE_MAX) == NULL);
    CHECK_EQUAL(allocation_fails, 2);
    CHECK(GC_pvalloc(SIZE_MAX - page) == NULL);
    CHECK_EQUAL(allocation_fails, 3);
    CHECK(GC_valloc((size_t)LONG_MIN) == NULL);
    CHECK_EQUAL(allocation_fails, 4);
}

/* Whether the object is still there, which a second free would end the program for. */
static int is_live(void *object)
{
    return GC_base(object) == object;
}

static void check_freezero(void)
{
    /* What is freed while a cycle runs goes when the cycle ends. */
    GC_gcollect();
    GC_disable();
    GC_freezero(NULL, 10);
    GC_debug_freezero(NULL, 10);
    for (size_t bytes = 24; bytes <= 1 << 20; bytes *= 8) {
        for (int way = 0; way < 3; way++) {
            unsigned char *volatile object = GC_malloc_atomic(bytes);
            size_t cleared = way == 0 ? bytes / 2 : way == 1 ? bytes : SIZE_MAX;
            memset(object, 0xAB, bytes);
            GC_freezero(object, cleared);
            CHECK(!is_live(object));
            /* Large ones may be unmapped by now, small ones lie where they lay. */
            for (size_t at = 0; bytes < 2000 && at < (cleared < bytes ? cleared : bytes); at++)
                CHECK_EQUAL(object[at], 0);
            if (bytes < 2000 && way == 0)
                CHECK_EQUAL(object[bytes - 1], 0xAB);
        }
    }
    unsigned char *volatile object = GC_debug_malloc_atomic(40, "here.c", 7);
    memset(object, 0xAB, 40);
    GC_debug_freezero(object, SIZE_MAX);
    CHECK(GC_base(object) == NULL);
    for (int at = 0; at < 40; at++)
        CHECK_EQUAL(object[at], 0);
    /* What the debugging allocator did not make. */
    object = GC_malloc_atomic(40);
    memset(object, 0xAB, 40);
    GC_debug_freezero(object, 40);
    CHECK(!is_live(object));
    CHECK_EQUAL(object[39], 0);
    GC_enable();
}

static void overrun(void)
{
    char *object = GC_debug_malloc_atomic(40, "here.c", 7);
    object[40] = 1;
    GC_debug_freezero(object, 40);
}

static void check_reallocf(void)
{
    char *object = GC_reallocf(NULL, 100);
    CHECK(object && GC_size(object) >= 100);
    strcpy(object, "text");
    object = GC_reallocf(object, 100000);
    CHECK(object && GC_size(object) >= 100000 && !strcmp(object, "text"));
    allocation_fails = 0;
    CHECK(is_live(object));
    CHECK(GC_realloc(object, all) == NULL);
    CHECK_EQUAL(allocation_fails, 1);
    CHECK(is_live(object));
    CHECK(GC_reallocf(object, all) == NULL);
    CHECK_EQUAL(allocation_fails, 2);
    CHECK(!is_live(object));
    object = GC_malloc(100);
    CHECK(GC_reallocf(object, too_much) == NULL);
    CHECK(!is_live(object));
    object = GC_malloc(100);
    CHECK(GC_reallocf(object, 0) == NULL);
    CHECK(!is_live(object));
    CHECK(GC_reallocf(NULL, SIZE_MAX) == NULL);

    object = GC_debug_reallocf(NULL, 10, "here.c", 7);
    strcpy(object, "text");
    object = GC_debug_reallocf(object, 1000, "here.c", 8);
    CHECK(GC_base(object) == object - GC_get_debug_header_size() && !strcmp(object, "text"));
    object = GC_debug_reallocf_replacement(object, 2000);
    CHECK(GC_base(object) == object - GC_get_debug_header_size() && !strcmp(object, "text"));
    CHECK(GC_debug_reallocf(object, SIZE_MAX / 2, "here.c", 9) == NULL);
    CHECK(GC_base(object) == NULL);
    object = GC_debug_reallocf_replacement(NULL, 20);
    CHECK(GC_debug_reallocf_replacement(object, SIZE_MAX) == NULL);
    CHECK(GC_base(object) == NULL);
}

static void check_wide(void)
{
    wchar_t text[1001];
    for (int length = 0; length <= 1000; length += 100) {
        for (int at = 0; at < length; at++)
            text[at] = 0x10FFFF - at;
        text[length] = 0;
        wchar_t *copy = GC_wcsdup(text), *debug = GC_debug_wcsdup(text, "here.c", 7);
        CHECK(copy != text && !wcscmp(copy, text));
        CHECK(GC_size(copy) >= (length + 1) * sizeof *copy);
        CHECK_EQUAL(GC_get_kind_and_size(copy, NULL), GC_I_PTRFREE);
        CHECK(!wcscmp(debug, text));
        CHECK((char *)GC_base(debug) == (char *)debug - GC_get_debug_header_size());
        GC_debug_free(debug);
    }
}

static void check_kinds(void)
{
    int kind = GC_new_kind(GC_new_free_list(), 0, 1, 1);
    char *object = GC_debug_generic_malloc(100, kind, "here.c", 7);
    CHECK_EQUAL(GC_get_kind_and_size(GC_base(object), NULL), kind);
    CHECK(GC_base(object) == object - GC_get_debug_header_size());
    GC_debug_free(object);
    object = GC_debug_malloc_uncollectable_replacement(100);
    CHECK_EQUAL(GC_get_kind_and_size(GC_base(object), NULL), 2);
    CHECK(GC_base(object) == object - GC_get_debug_header_size());
    GC_debug_free(object);
    CHECK(GC_base(object) == NULL);
}

static struct weak inside, outside;
static void **volatile arrays[MANY];
enum { ELEMENTS = 10, WORDS = 3 };

/* Elements of three words, of which only the middle one counts. */
static APART void make_array(int index, const struct GC_calloc_typed_descr_s *prepared)
{
    void **array = GC_calloc_do_explicitly_typed(prepared, sizeof *prepared);
    for (int at = 0; at < ELEMENTS * WORDS; at++)
        CHECK(array[at] == NULL);
    void *followed = GC_malloc_atomic(16), *ignored = GC_malloc_atomic(16);
    array[index % ELEMENTS * WORDS + 1] = followed;
    array[index % ELEMENTS * WORDS + 2] = ignored;
    watch(&inside, index, followed);
    watch(&outside, index, ignored);
    arrays[index] = array;
}

static void check_prepared(void)
{
    GC_word bits[1] = {2};
    GC_descr descriptor = GC_make_descriptor(bits, WORDS);
    struct GC_calloc_typed_descr_s prepared;
    memset(&prepared, 0xFF, sizeof prepared);
    CHECK_EQUAL(GC_calloc_prepare_explicitly_typed(&prepared, sizeof prepared, ELEMENTS,
                                                   WORDS * sizeof(void *), descriptor),
                1);
    for (int index = 0; index < MANY; index++)
        make_array(index, &prepared);
    collect();
    CHECK_EQUAL(count_gone(&inside), 0);
    CHECK_NEARLY_ALL(count_gone(&outside));
    CHECK(GC_size(arrays[0]) >= ELEMENTS * WORDS * sizeof(void *));

    /* Elements without pointers, and of no whole number of words. */
    for (int bytes = 8; bytes <= 12; bytes += 4) {
        CHECK_EQUAL(GC_calloc_prepare_explicitly_typed(&prepared, sizeof prepared, 100, bytes,
                                                       bytes == 8 ? 0 : descriptor),
                    1);
        char *array = GC_calloc_do_explicitly_typed(&prepared, sizeof prepared);
        CHECK(GC_size(array) >= 100u * bytes);
        for (int at = 0; at < 100 * bytes; at++)
            CHECK_EQUAL(array[at], 0);
    }
    /* What overflows is kept as a failure. */
    allocation_fails = 0;
    CHECK_EQUAL(GC_calloc_prepare_explicitly_typed(&prepared, sizeof prepared, SIZE_MAX / 8, 16,
                                                   descriptor),
                0);
    CHECK_EQUAL(allocation_fails, 0);
    CHECK(GC_calloc_do_explicitly_typed(&prepared, sizeof prepared) == NULL);
    CHECK_EQUAL(allocation_fails, 1);
    CHECK_EQUAL(GC_calloc_prepare_explicitly_typed(&prepared, sizeof prepared, 1, SIZE_MAX - 8,
                                                   descriptor),
                1);
    CHECK(GC_calloc_do_explicitly_typed(&prepared, sizeof prepared) == NULL);
    CHECK_EQUAL(allocation_fails, 2);
}

static void *differ[2];

static void note_two(void *pointer, void *other)
{
    differ[0] = pointer;
    differ[1] = other;
}

static void note_one(void *pointer)
{
    (void)pointer;
}

static void check_print_procedures(void)
{
    char *object = GC_malloc(100), *other = GC_malloc(100);
    CHECK(GC_get_same_obj_print_proc() == GC_same_obj_print_proc);
    GC_set_same_obj_print_proc(note_two);
    CHECK(GC_get_same_obj_print_proc() == note_two && GC_same_obj_print_proc == note_two);
    CHECK(GC_same_obj(object, object + 99) == object && differ[0] == NULL);
    CHECK(GC_same_obj(object, other) == object);
    CHECK(differ[0] == object && differ[1] == other);
    GC_set_is_valid_displacement_print_proc(note_one);
    CHECK(GC_get_is_valid_displacement_print_proc() == note_one);
    CHECK(GC_is_valid_displacement_print_proc == note_one);
    GC_set_is_visible_print_proc(note_one);
    CHECK(GC_get_is_visible_print_proc() == note_one && GC_is_visible_print_proc == note_one);
}

static void check_old_names(void)
{
    char *object = GC_local_malloc(100), *leaf = GC_local_malloc_atomic(100);
    CHECK_EQUAL(GC_get_kind_and_size(object, NULL), GC_I_NORMAL);
    CHECK_EQUAL(GC_get_kind_and_size(leaf, NULL), GC_I_PTRFREE);
    for (int at = 0; at < 100; at++)
        CHECK_EQUAL(object[at], 0);
    CHECK(GC_base_C(object + 99) == object);
    CHECK(GC_base_C(&page) == NULL && GC_base_C(NULL) == NULL);
    GC_noop1_ptr(object);
    GC_noop1_ptr(NULL);
    CHECK_EQUAL(GC_get_dont_add_byte_at_end(), getenv("NEAP_PAST_END") != NULL);
    CHECK_EQUAL(GC_size(GC_malloc(16)), GC_get_dont_add_byte_at_end() ? 16 : 32);
}

static enum { DROP, STRONG, WEAK } answer;
static void *asked_about[MANY];
static int asked;

static GC_ToggleRefStatus decide(void *object)
{
    if (asked < MANY)
        asked_about[asked++] = (void *)GC_HIDE_POINTER(object);
    return (GC_ToggleRefStatus)answer;
}

static APART void add_toggles(struct weak *weak)
{
    for (int index = 0; index < MANY; index++) {
        char *object = GC_debug_malloc(32, "here.c", 7);
        CHECK_EQUAL(GC_debug_toggleref_add(object, 1), 0);
        watch(weak, index, GC_base(object));
    }
}

static void check_toggles(void)
{
    static struct weak weak;
    CHECK_EQUAL(GC_debug_toggleref_add(GC_debug_malloc(32, "here.c", 7), 1), 0);
    GC_set_toggleref_func(decide);
    answer = STRONG;
    add_toggles(&weak);
    collect();
    CHECK_EQUAL(count_gone(&weak), 0);
    CHECK_EQUAL(asked, MANY);
    for (int index = 0; index < asked; index++) {
        char *base = (char *)GC_HIDE_POINTER(asked_about[index]);
        CHECK(GC_base(base) == base);
    }
    answer = DROP;
    collect();
    CHECK_NEARLY_ALL(count_gone(&weak));
    GC_set_toggleref_func(NULL);
}

int main(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(no_memory);
    page = sysconf(_SC_PAGESIZE);
    check_pages();
    check_freezero();
    CHECK(strstr(capture(2, overrun), "here.c:7"));
    check_reallocf();
    check_wide();
    check_kinds();
    check_prepared();
    check_print_procedures();
    check_old_names();
    check_toggles();
    return finish();
}
