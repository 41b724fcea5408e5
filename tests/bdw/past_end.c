/* A pointer one past the end of an object is all that is left of it: the object stays, whatever its
   size and whoever allocated it, and not its neighbour in its place. Objects that a front end takes
   by lists have no byte added: there the pointer is not asked about. */
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

/* Every second object is kept, by its end alone: the end of one that fills its cell is the start of
   the next, which nobody keeps. */
static char *volatile ends[MANY];
static GC_hidden_pointer kept[MANY], dropped[MANY];

static GC_descr words;
static int own_kind;
static struct type { void *first; GC_word descriptor; } type = {NULL, GC_DS_LENGTH | 16};

static void *plain(size_t bytes) { return GC_malloc(bytes); }
static void *leaf(size_t bytes) { return GC_malloc_atomic(bytes); }
/* The promise to keep a pointer to the beginning is for large ones. */
static void *off_page(size_t bytes) { return bytes > 2048 ? plain(bytes)
    : GC_malloc_ignore_off_page(bytes); }
static void *typed(size_t bytes) { return GC_malloc_explicitly_typed(bytes, words); }
static void *typed_array(size_t bytes) { return GC_calloc_explicitly_typed(bytes / 8, 8, words); }
static void *gcj(size_t bytes) { return GC_gcj_malloc(bytes, &type); }
static void *own(size_t bytes) { return GC_generic_malloc(bytes, own_kind); }
static void *resized(size_t bytes) { return GC_realloc(GC_malloc(bytes / 2 + 8), bytes); }
static void *shrunk(size_t bytes) { return GC_realloc(GC_malloc_atomic(bytes + 16), bytes); }
static void *text(size_t bytes)
{
    static char letters[100001];
    memset(letters, 'a', sizeof letters);
    return GC_strndup(letters, bytes - 1);
}

static APART void make(void *(*allocate)(size_t), size_t bytes, int count)
{
    for (int index = 0; index < count; index++) {
        char *object = allocate(bytes), *other = allocate(bytes);
        CHECK(object && other);
        object[bytes - 1] = (char)(index + 1);
        kept[index] = GC_HIDE_POINTER(object);
        dropped[index] = GC_HIDE_POINTER(other);
        GC_general_register_disappearing_link((void **)&kept[index], object);
        GC_general_register_disappearing_link((void **)&dropped[index], other);
        ends[index] = object + bytes;
    }
}

static void check(const char *name, void *(*allocate)(size_t), size_t bytes)
{
    int count = bytes > 5000 ? 10 : MANY, alive = 0, gone = 0;
    make(allocate, bytes, count);
    collect();
    for (int index = 0; index < count; index++) {
        alive += kept[index] == GC_HIDE_POINTER(ends[index] - bytes) &&
            ends[index][-1] == (char)(index + 1);
        gone += dropped[index] == 0;
        GC_unregister_disappearing_link((void **)&kept[index]);
        GC_unregister_disappearing_link((void **)&dropped[index]);
        ends[index] = NULL;
    }
    if (alive != count || (count == MANY && gone < MANY - STRAY))
        fprintf(stderr, "%s, %zu bytes: %d of %d alive, %d of the others gone\n", name, bytes,
            alive, count, gone);
    CHECK_EQUAL(alive, count);
    if (count == MANY)
        CHECK_NEARLY_ALL(gone);
}

int main(void)
{
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, NULL);
    GC_word all = ~(GC_word)0;
    words = GC_make_descriptor(&all, 1);
    own_kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    static const struct { const char *name; void *(*allocate)(size_t); } allocators[] = {
        {"GC_malloc", plain}, {"GC_malloc_atomic", leaf}, {"GC_malloc_ignore_off_page", off_page},
        {"GC_malloc_explicitly_typed", typed},
        {"GC_calloc_explicitly_typed", typed_array}, {"GC_gcj_malloc", gcj},
            {"GC_generic_malloc", own},
        {"GC_realloc", resized}, {"GC_realloc to less", shrunk}, {"GC_strndup", text},
    };
    static const size_t sizes[] = {16, 24, 32, 48, 64, 100, 128, 256, 1024, 2048, 4096, 8192, 32768,
        65536, 100000};
    for (size_t which = 0; which < sizeof allocators / sizeof allocators[0]; which++)
        for (size_t at = 0; at < sizeof sizes / sizeof sizes[0]; at++)
            check(allocators[which].name, allocators[which].allocate, sizes[at]);
    return finish();
}
