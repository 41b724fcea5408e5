/* What libgc exports without a header of its own that declares it: old names that programs still
   use, and doors of its inside. To be included by its name; gc.h does not, so that programs that
   declare these themselves still compile. docs/boehm-interface.md says what each does. */
#ifndef GC_UNDECLARED_H
#define GC_UNDECLARED_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names before 7.2. */
GC_API GC_ATTR_MALLOC void *GC_CALL GC_local_malloc(size_t bytes);
GC_API GC_ATTR_MALLOC void *GC_CALL GC_local_malloc_atomic(size_t bytes);
GC_API GC_ATTR_MALLOC void *GC_CALL GC_local_gcj_malloc(size_t bytes, void *type);
GC_API void GC_CALL GC_start_blocking(void);
GC_API void GC_CALL GC_end_blocking(void);

/* Does nothing with its argument. */
GC_API void GC_CALL GC_noop1(GC_word word);
GC_API void GC_CALL GC_noop1_ptr(volatile void *pointer);

/* For those who take memory from the collector by other ways than it knows. */
GC_API void GC_CALL GC_incr_bytes_allocd(size_t bytes);
GC_API void GC_CALL GC_incr_bytes_freed(size_t bytes);

/* Calls the function with the heap as a whole and with its parts. */
GC_API void GC_CALL GC_foreach_heap_section_inner(
    void(GC_CALLBACK *function)(void *start, void *end, int type, void *data), void *data);

/* printf to standard output, standard error and the log, without allocating. */
GC_API void GC_printf(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));
GC_API void GC_err_printf(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));
GC_API void GC_log_printf(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));

/* Free lists by the granules of their objects, up to 128: of ordinary ones, of those without
   pointers, of uncollectable ones, and of uncollectable ones without pointers. Nothing is on
   them. */
GC_API void **const GC_objfreelist_ptr;
GC_API void **const GC_aobjfreelist_ptr;
GC_API void **const GC_uobjfreelist_ptr;
GC_API void **const GC_auobjfreelist_ptr;

/* Variables behind setters. */
GC_API void(GC_CALLBACK *GC_push_other_roots)(void);
GC_API void(GC_CALLBACK *GC_on_abort)(const char *text);

#ifdef __cplusplus
}
#endif

#endif
