/* Objects that are asked before they go: a kind's disclaim procedure is called for each of its
   objects that is found dead, and may keep it for once (not 0). */
#ifndef GC_DISCLAIM_H
#define GC_DISCLAIM_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int(GC_CALLBACK *GC_disclaim_proc)(void *object);
/* mark_from_all: what dead objects of the kind point to stays for their procedure. */
GC_API void GC_CALL GC_register_disclaim_proc(int kind, GC_disclaim_proc procedure,
                                              int mark_from_all) GC_ATTR_NONNULL(2);

/* Finalized objects, cheaper than registered ones; the closure has to be there as long as they. */
struct GC_finalizer_closure {
    GC_finalization_proc proc;
    void *cd;
};
GC_API void GC_CALL GC_init_finalized_malloc(void);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_finalized_malloc(size_t bytes, const struct GC_finalizer_closure *closure)
        GC_ATTR_NONNULL(2);

#ifdef __cplusplus
}
#endif

#endif
