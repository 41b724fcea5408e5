/* What keeps an object, for libgc's that are built with back pointers. This library has none of
   these functions, nor has Debian's: a heap snapshot (docs/debugging.md) says what keeps what. */
#ifndef GC_BACKPTR_H
#define GC_BACKPTR_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    GC_UNREFERENCED,
    GC_NO_SPACE,
    GC_REFD_FROM_ROOT,
    GC_REFD_FROM_REG,
    GC_REFD_FROM_HEAP,
    GC_FINALIZER_REFD
} GC_ref_kind;

GC_API GC_ref_kind GC_CALL GC_get_back_ptr_info(void *object, void **base, size_t *offset)
    GC_ATTR_NONNULL(1);
GC_API void *GC_CALL GC_generate_random_heap_address(void);
GC_API void *GC_CALL GC_generate_random_valid_address(void);
GC_API void GC_CALL GC_generate_random_backtrace(void);
GC_API void GC_CALL GC_print_backtrace(void *object) GC_ATTR_NONNULL(1);

#ifdef __cplusplus
}
#endif

#endif
