/* entries BYTES THOUSANDS: what an allocation takes by each entry point of the libgc ABI: THOUSANDS
 * thousand objects of BYTES bytes by each, dropped at once, those that live until they are freed
 * freed at once. Prints nanoseconds for an object, the best of three turns. The check: each object
 * is at least as large as it was asked for. */
#include "bench_gc.h"
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

static size_t bytes;
static uint64_t objects;
static GC_descr first_word_points;
static void *free_lists[GC_TINY_FREELISTS];
static int scanned_kind;
static bool ok = true;

static void *by_lists(size_t wanted)
{
    void *object;
    size_t granules = (wanted + GC_GRANULE_BYTES - 1) / GC_GRANULE_BYTES;
    GC_FAST_MALLOC_GRANS(object, granules, free_lists, 0, GC_I_NORMAL, GC_malloc(wanted),
        *(void **)object = NULL);
    return object;
}

static void *by_many(size_t wanted)
{
    static void *list;
    if (list == NULL)
        list = GC_malloc_many(wanted);
    void *object = list;
    list = GC_NEXT(object);
    return object;
}

static void *plain(size_t wanted) { return GC_malloc(wanted); }
static void *atomic(size_t wanted) { return GC_malloc_atomic(wanted); }
static void *ignoring(size_t wanted) { return GC_malloc_ignore_off_page(wanted); }
static void *generic(size_t wanted) { return GC_generic_malloc(wanted, GC_I_NORMAL); }
static void *of_kind(size_t wanted) { return GC_malloc_kind(wanted, GC_I_NORMAL); }
static void *of_own_kind(size_t wanted) { return GC_generic_malloc(wanted, scanned_kind); }
static void *typed(size_t wanted) { return GC_malloc_explicitly_typed(wanted, first_word_points); }
static void *vector(size_t wanted)
{
    return GC_calloc_explicitly_typed(wanted / 16, 16, first_word_points);
}
static void *aligned(size_t wanted) { return GC_memalign(64, wanted); }
static void *text(size_t wanted)
{
    static const char line[] = "a line of text that is copied, over and over and over";
    return GC_strndup(line, wanted < sizeof line ? wanted - 1 : sizeof line - 1);
}
static void *uncollectable(size_t wanted)
{
    void *object = GC_malloc_uncollectable(wanted);
    ok &= object != NULL;
    GC_free(object);
    return NULL;
}
static void *freed(size_t wanted)
{
    void *object = GC_malloc(wanted);
    ok &= object != NULL;
    GC_free(object);
    return NULL;
}

static double of(void *(*allocate)(size_t))
{
    double best = 1e9;
    for (int turn = 0; turn < 3; turn++) {
        double began = bench_seconds();
        for (uint64_t i = 0; i < objects; i++) {
            void *object = allocate(bytes);
            bench_keep(object);
        }
        double each = (bench_seconds() - began) * 1e9 / (double)objects;
        best = each < best ? each : best;
        void *object = allocate(bytes);
        ok &= object == NULL || allocate == text || GC_size(object) >= bytes;
    }
    return best;
}

int main(int argc, char **argv)
{
    bytes = (size_t)bench_argument(argc, argv, 1, "BYTES", 64, 16, 4096) & ~(size_t)15;
    objects = (uint64_t)bench_argument(argc, argv, 2, "THOUSANDS", 2000, 1, 1000000) * 1000u;
    bench_gc_start();
    GC_word pointers[1] = { 1 };
    first_word_points = GC_make_descriptor(pointers, 64);
    scanned_kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    static const struct {
        const char *name;
        void *(*allocate)(size_t);
    } entries[] = {
        { "GC_malloc", plain },
        { "GC_malloc_atomic", atomic },
        { "GC_malloc_ignore_off_page", ignoring },
        { "GC_malloc_kind", of_kind },
        { "GC_generic_malloc", generic },
        { "GC_generic_malloc, a new kind", of_own_kind },
        { "GC_malloc_explicitly_typed", typed },
        { "GC_calloc_explicitly_typed", vector },
        { "GC_malloc_many", by_many },
        { "GC_FAST_MALLOC_GRANS", by_lists },
        { "GC_memalign 64", aligned },
        { "GC_strndup", text },
        { "GC_malloc and GC_free", freed },
        { "GC_malloc_uncollectable and GC_free", uncollectable },
    };
    printf("{\"program\": \"entries\", \"bytes\": %zu", bytes);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        printf(", \"%s\": %.2f", entries[i].name, of(entries[i].allocate));
    return bench_gc_finish(ok);
}
