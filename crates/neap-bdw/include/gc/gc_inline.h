/* Allocation from free lists that the program keeps, a table for each thread: GC_MALLOC_WORDS and
   its like take an object from a list, and fill the list when it is empty.

   A word of the table that is smaller than any address counts instead: it starts at 1, and as long
   as it is at most num_direct, objects come from the ordinary allocator. */
#ifndef GC_INLINE_H
#define GC_INLINE_H

#include "gc.h"

#include "gc_tiny_fl.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GC_I_PTRFREE 0
#define GC_I_NORMAL 1

/* Stores a list of objects of the size and kind, or null where memory is refused. */
GC_API void GC_CALL GC_generic_malloc_many(size_t bytes, int kind, void **list)
    GC_ATTR_NONNULL(3);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_kind(size_t bytes, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_kind_global(size_t bytes,
                                                                                int kind);
GC_API void GC_CALL GC_print_free_list(int kind, size_t granules);

#define GC_FAST_MALLOC_GRANS(result, granules, table, num_direct, kind, otherwise, prepare)   \
    do {                                                                                      \
        size_t gc_granules = (granules);                                                      \
        void **gc_list = (table) + gc_granules;                                               \
        if (gc_granules >= GC_TINY_FREELISTS) {                                               \
            (result) = (otherwise);                                                           \
            break;                                                                            \
        }                                                                                     \
        if ((GC_word)*gc_list <= (GC_word)(num_direct) + GC_TINY_FREELISTS + 1) {             \
            if (*gc_list != NULL && (GC_word)*gc_list <= (GC_word)(num_direct)) {             \
                *gc_list = (char *)*gc_list + gc_granules + 1;                                \
                (result) = (otherwise);                                                       \
                break;                                                                        \
            }                                                                                 \
            GC_generic_malloc_many(gc_granules ? GC_RAW_BYTES_FROM_INDEX(gc_granules)         \
                                               : GC_GRANULE_BYTES,                            \
                                   (kind), gc_list);                                          \
            if (*gc_list == NULL) {                                                           \
                (result) = GC_get_oom_fn()(GC_RAW_BYTES_FROM_INDEX(gc_granules));             \
                break;                                                                        \
            }                                                                                 \
        }                                                                                     \
        (result) = *gc_list;                                                                  \
        *gc_list = GC_NEXT(result);                                                           \
        prepare;                                                                              \
    } while (0)

/* n words of the kind; `prepare` is run on an object that comes from the list. */
#define GC_MALLOC_WORDS_KIND(result, n, table, kind, prepare)                                 \
    do {                                                                                      \
        size_t gc_whole = GC_WORDS_TO_WHOLE_GRANULES(n);                                      \
        GC_FAST_MALLOC_GRANS(result, gc_whole, table, 0, kind,                                \
                             GC_malloc_kind(GC_RAW_BYTES_FROM_INDEX(gc_whole), kind),         \
                             prepare);                                                        \
    } while (0)
/* The link to the list's next object is cleared; the rest is clear already. */
#define GC_MALLOC_WORDS(result, n, table) \
    GC_MALLOC_WORDS_KIND(result, n, table, GC_I_NORMAL, GC_NEXT(result) = NULL)
#define GC_MALLOC_ATOMIC_WORDS(result, n, table) \
    GC_MALLOC_WORDS_KIND(result, n, table, GC_I_PTRFREE, (void)0)

/* A pair. */
#define GC_CONS(result, first, second, table)                                                 \
    do {                                                                                      \
        void *gc_first = (void *)(first);                                                     \
        void *gc_second = (void *)(second);                                                   \
        GC_MALLOC_WORDS_KIND(result, 2, table, GC_I_NORMAL, (void)0);                         \
        if ((result) != NULL) {                                                               \
            ((void **)(result))[0] = gc_first;                                                \
            ((void **)(result))[1] = gc_second;                                               \
        }                                                                                     \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
