/* Objects whose first word points to a table of their type that holds their descriptor, as those of
   Java runtimes. */
#ifndef GC_GCJ_H
#define GC_GCJ_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To be called first: the procedure for types whose descriptor names it, by this index. */
GC_API void GC_CALL GC_init_gcj_malloc(int index, void *procedure);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_gcj_malloc(size_t bytes, void *type);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_gcj_malloc_ignore_off_page(size_t bytes, void *type);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_gcj_malloc(size_t bytes, void *type, const char *file, int line);

/* The kinds that such objects are of. */
GC_API int GC_gcj_kind;
GC_API int GC_gcj_debug_kind;

#ifdef GC_DEBUG
#define GC_GCJ_MALLOC(bytes, type) GC_debug_gcj_malloc(bytes, type, GC_EXTRAS)
#define GC_GCJ_MALLOC_IGNORE_OFF_PAGE(bytes, type) GC_GCJ_MALLOC(bytes, type)
#else
#define GC_GCJ_MALLOC(bytes, type) GC_gcj_malloc(bytes, type)
#define GC_GCJ_MALLOC_IGNORE_OFF_PAGE(bytes, type) GC_gcj_malloc_ignore_off_page(bytes, type)
#endif

#ifdef __cplusplus
}
#endif

#endif
