/* Allocation of every kind: contents, sizes, resizing, alignment, explicit deallocation, no
   memory. */
#include "check.h"
#include <gc/gc_inline.h>
#include <limits.h>

static int is_zero(const void *memory, size_t bytes)
{
    const unsigned char *at = memory;
    for (size_t index = 0; index < bytes; index++)
        if (at[index])
            return 0;
    return 1;
}

static void zeroed_and_apart(void)
{
    for (size_t bytes = 0; bytes < 5000; bytes += bytes < 200 ? 1 : 97) {
        char *first = GC_malloc(bytes), *second = GC_malloc(bytes);
        CHECK(first && second && first != second);
        CHECK(is_zero(first, bytes) && is_zero(second, bytes));
        CHECK(GC_size(first) >= bytes);
        CHECK_EQUAL((uintptr_t)first % GC_GRANULE_BYTES, 0);
        memset(first, 0xFF, bytes);
        CHECK(is_zero(second, bytes));
        GC_free(first);
        CHECK(is_zero(GC_malloc(bytes), bytes));
    }
    char *large = GC_malloc(3 << 20);
    CHECK(is_zero(large, 3 << 20));
    CHECK(GC_base(large + (2 << 20)) == large);
    /* All of what GC_size says is the object. */
    for (size_t bytes = 33000; bytes < 90000; bytes += 777) {
        large = GC_malloc(bytes);
        CHECK(is_zero(large, GC_size(large)));
        CHECK(GC_base(large + GC_size(large) - 1) == large);
    }
}

/* Whatever is handed out is whole granules at a granule, the smallest of them too: runtimes keep
   tags in the four bits. */
static void granules(void)
{
    for (size_t bytes = 0; bytes <= 40; bytes++) {
        void *all[] = {GC_malloc(bytes), GC_malloc_atomic(bytes), GC_malloc_uncollectable(bytes),
                       GC_malloc_atomic_uncollectable(bytes), GC_malloc_ignore_off_page(bytes),
                           GC_memalign(8, bytes),
                       GC_realloc(GC_malloc(100), bytes + 1),
                           GC_strndup("text that is long enough for all", bytes)};
        for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
            CHECK(all[index] && (uintptr_t)all[index] % GC_GRANULE_BYTES == 0);
            CHECK(GC_size(all[index]) >= GC_GRANULE_BYTES &&
                GC_size(all[index]) % GC_GRANULE_BYTES == 0);
        }
    }
    CHECK_EQUAL(GC_size(GC_malloc(0)), GC_GRANULE_BYTES);
    CHECK_EQUAL(GC_size(GC_malloc_atomic(8)), GC_GRANULE_BYTES);
}

static void pointers(void)
{
    char *object = GC_malloc(100), local;
    CHECK(GC_base(object) == object && GC_base(object + 99) == object);
    CHECK(GC_base(&local) == NULL && GC_base(NULL) == NULL);
    CHECK(GC_is_heap_ptr(object) && GC_is_heap_ptr(object + 50) && !GC_is_heap_ptr(&local));
    CHECK(GC_is_visible(object) == (void *)object);
    CHECK(GC_is_valid_displacement(object + 8) == (void *)(object + 8));
    CHECK(GC_same_obj(object + 8, object) == (void *)(object + 8));
    void *walk = object;
    CHECK(GC_pre_incr(&walk, 8) == (void *)(object + 8) && walk == object + 8);
    CHECK(GC_post_incr(&walk, 8) == (void *)(object + 8) && walk == object + 16);
}

static void resizing(void)
{
    char *object = GC_realloc(NULL, 10);
    strcpy(object, "nine char");
    for (size_t bytes = 10; bytes < 200000; bytes = bytes * 3 / 2) {
        object = GC_realloc(object, bytes);
        CHECK(strcmp(object, "nine char") == 0);
        CHECK(is_zero(object + 10, bytes - 10));
    }
    object = GC_realloc(object, 10);
    CHECK(strcmp(object, "nine char") == 0);
    CHECK(GC_realloc(object, 0) == NULL);
    char *leaf = GC_malloc_atomic(16);
    memcpy(leaf, "0123456789abcde", 16);
    leaf = GC_realloc(leaf, 100000);
    CHECK(memcmp(leaf, "0123456789abcde", 16) == 0);
}

static void alignment(void)
{
    for (size_t alignment = 8; alignment <= 4096; alignment *= 2)
        for (size_t bytes = 1; bytes < 10000; bytes = bytes * 5 + 3) {
            char *object = GC_memalign(alignment, bytes);
            CHECK(object && (uintptr_t)object % alignment == 0 && is_zero(object, bytes));
            object[bytes - 1] = 1;
        }
    void *result = NULL;
    CHECK_EQUAL(GC_posix_memalign(&result, 256, 1000), 0);
    CHECK(result && (uintptr_t)result % 256 == 0);
    CHECK_EQUAL(GC_posix_memalign(&result, 24, 1000), EINVAL);
    CHECK_EQUAL(GC_posix_memalign(&result, 4, 1000), EINVAL);
}

static void strings(void)
{
    char *copy = GC_strdup("hello");
    CHECK(strcmp(copy, "hello") == 0);
    CHECK(strcmp(GC_strndup("hello", 3), "hel") == 0);
    CHECK(strcmp(GC_strndup("hello", 30), "hello") == 0);
    CHECK(GC_strdup(NULL) == NULL);
}

static APART uintptr_t hidden_uncollectable(int atomic)
{
    uintptr_t *object = atomic ? GC_malloc_atomic_uncollectable(64) : GC_malloc_uncollectable(64);
    uintptr_t *held = GC_malloc_atomic(64);
    held[0] = 12345;
    object[0] = (uintptr_t)held;
    object[1] = 777;
    return ~(uintptr_t)object;
}

static void uncollectable(void)
{
    uintptr_t hidden[MANY];
    for (int index = 0; index < MANY; index++)
        hidden[index] = hidden_uncollectable(0);
    collect();
    for (int round = 0; round < 20000; round++)
        ((uintptr_t *)GC_malloc_atomic(64))[0] = 1;
    for (int index = 0; index < MANY; index++) {
        uintptr_t *object = (uintptr_t *)~hidden[index];
        CHECK_EQUAL(object[1], 777);
        CHECK_EQUAL(((uintptr_t *)object[0])[0], 12345);
        CHECK(GC_base(object) == object);
        GC_free(object);
    }
    uintptr_t *leaf = (uintptr_t *)~hidden_uncollectable(1);
    collect();
    CHECK_EQUAL(leaf[1], 777);
    GC_free(leaf);
}

static void lists(void)
{
    for (size_t bytes = 8; bytes < 9000; bytes *= 3) {
        void *list = GC_malloc_many(bytes);
        int count = 0;
        CHECK(list != NULL);
        for (void *next; list; list = next, count++) {
            next = GC_NEXT(list);
            CHECK(is_zero((void **)list + 1, bytes - sizeof(void *)));
            memset(list, 0xFF, bytes);
        }
        CHECK(count >= 1 && count * bytes <= 8192 + bytes);
    }
}

static size_t asked;
static void *none(size_t bytes)
{
    asked = bytes;
    return NULL;
}

static char said[400];
static void remember(char *format, GC_word number)
{
    snprintf(said, sizeof said, format, number);
}

static void no_memory(void)
{
    GC_oom_func old = GC_get_oom_fn();
    CHECK(old != NULL);
    GC_set_oom_fn(none);
    CHECK(GC_get_oom_fn() == none && GC_oom_fn == none);
    GC_set_warn_proc(GC_ignore_warn_proc);
    volatile size_t absurd[] = {SIZE_MAX, SIZE_MAX - 7, (size_t)-100, (size_t)1 << 62};
    for (unsigned index = 0; index < sizeof absurd / sizeof *absurd; index++) {
        asked = 0;
        CHECK(GC_malloc(absurd[index]) == NULL);
        CHECK(asked != 0);
        CHECK(GC_malloc_atomic(absurd[index]) == NULL);
    }
    GC_set_warn_proc(remember);
    CHECK(GC_malloc((size_t)1 << 46) == NULL);
    if (on_neap()) {
        CHECK(strncmp(said, "neap: no memory: ", 17) == 0);
        CHECK(strstr(said, "(70368744177664)") != NULL); /* the bytes asked for */
    }
    GC_set_warn_proc(GC_ignore_warn_proc);
    char *object = GC_malloc(50);
    strcpy(object, "kept");
    CHECK(GC_realloc(object, absurd[3]) == NULL);
    CHECK(strcmp(object, "kept") == 0);
    void *aligned = object;
    CHECK_EQUAL(GC_posix_memalign(&aligned, 24, absurd[3]), EINVAL);
    CHECK(aligned == object);
    CHECK_EQUAL(GC_posix_memalign(&aligned, 64, absurd[3]), ENOMEM);
    CHECK(aligned == NULL);
    GC_set_oom_fn(old);
}

/* Not a static array: the compiler would know that GC_malloc, which gives fresh memory, cannot give
   it. */
static char *reserve;
static void *from_reserve(size_t bytes)
{
    (void)bytes;
    return reserve;
}

static void memory_from_the_program(void)
{
    GC_oom_func old = GC_get_oom_fn();
    volatile size_t absurd = (size_t)1 << 62;
    GC_oom_fn = from_reserve;
    reserve = calloc(1, 64);
    CHECK_EQUAL((intptr_t)GC_malloc(absurd), (intptr_t)reserve);
    free(reserve);
    GC_set_oom_fn(old);
}

int main(void)
{
    GC_INIT();
    zeroed_and_apart();
    granules();
    pointers();
    resizing();
    alignment();
    strings();
    uncollectable();
    lists();
    no_memory();
    memory_from_the_program();
    GC_free(NULL);
    CHECK_EQUAL(GC_get_size_map_at(1 << 30), SIZE_MAX);
    CHECK(GC_get_size_map_at(100) >= 100 && GC_get_size_map_at(100) <= 128);
    CHECK_EQUAL(GC_get_version() >> 16, 8);
    return finish();
}
