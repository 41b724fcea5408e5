/* For Java runtimes: all finalizers at exit, and threads that are suspended one by one. */
#ifndef GC_JAVAXFC_H
#define GC_JAVAXFC_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs every finalizer that is registered, its object reachable or not. */
GC_API void GC_CALL GC_finalize_all(void);

#ifdef GC_THREADS
/* A suspended thread stands until it is resumed as often; the collector still knows it. */
#ifndef GC_SUSPEND_THREAD_ID
#define GC_SUSPEND_THREAD_ID void *
#endif
GC_API void GC_CALL GC_suspend_thread(GC_SUSPEND_THREAD_ID thread);
GC_API void GC_CALL GC_resume_thread(GC_SUSPEND_THREAD_ID thread);
GC_API int GC_CALL GC_is_thread_suspended(GC_SUSPEND_THREAD_ID thread);
#endif

#ifdef __cplusplus
}
#endif

#endif
