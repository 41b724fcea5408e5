/* Threads of programs that use the collector: registration, stacks, regions that need not stop,
   forks, the allocator's lock; gc.h includes it. Every thread made by pthread_create is known to
   this library; gc_pthread_redirects.h, for programs that define GC_THREADS, has it say so. */
#ifndef GC_H
#include "gc.h"
#elif !defined(GC_THREADS_H)
#define GC_THREADS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef void *(GC_CALLBACK *GC_fn_type)(void *data);

/* With the allocator's lock held: no object comes or goes meanwhile. It is not taken twice. */
GC_API void *GC_CALL GC_call_with_alloc_lock(GC_fn_type function, void *data) GC_ATTR_NONNULL(1);
/* The same for functions that change nothing; release is for those that wrote after all. */
#ifdef GC_THREADS
GC_API void GC_CALL GC_alloc_lock(void);
GC_API void GC_CALL GC_alloc_unlock(void);
GC_API void *GC_CALL GC_call_with_reader_lock(GC_fn_type function, void *data, int release)
    GC_ATTR_NONNULL(1);
#else
#define GC_alloc_lock() (void)0
#define GC_alloc_unlock() (void)0
#define GC_call_with_reader_lock(function, data, release) ((void)(release), (function)(data))
#endif

/* Where a stack begins: its cold end. */
struct GC_stack_base {
    void *mem_base;
};
typedef void *(GC_CALLBACK *GC_stack_base_func)(struct GC_stack_base *base, void *data);
GC_API void *GC_CALL GC_call_with_stack_base(GC_stack_base_func function, void *data)
    GC_ATTR_NONNULL(1);
GC_API int GC_CALL GC_get_stack_base(struct GC_stack_base *base) GC_ATTR_NONNULL(1);
/* The handle is for GC_set_stackbottom: a coroutine tells where it runs. */
GC_API void *GC_CALL GC_get_my_stackbottom(struct GC_stack_base *base) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_set_stackbottom(void *thread, const struct GC_stack_base *base)
    GC_ATTR_NONNULL(2);

/* Calls the function while collections do not wait for this thread, which must not touch the heap
   in there; and from within, one that may. */
GC_API void *GC_CALL GC_do_blocking(GC_fn_type function, void *data) GC_ATTR_NONNULL(1);
GC_API void *GC_CALL GC_call_with_gc_active(GC_fn_type function, void *data) GC_ATTR_NONNULL(1);

/* Forks: 1 has the library see to them, -1 the program calls the three functions. */
GC_API void GC_CALL GC_set_handle_fork(int value);
GC_API void GC_CALL GC_atfork_prepare(void);
GC_API void GC_CALL GC_atfork_parent(void);
GC_API void GC_CALL GC_atfork_child(void);

#ifdef GC_THREADS
GC_API GC_ATTR_DEPRECATED int GC_parallel;
GC_API int GC_CALL GC_get_parallel(void);
GC_API void GC_CALL GC_set_markers_count(unsigned count);
GC_API void GC_CALL GC_start_mark_threads(void);

/* Threads that the library did not see being made. */
GC_API void GC_CALL GC_allow_register_threads(void);
GC_API int GC_CALL GC_register_my_thread(const struct GC_stack_base *base) GC_ATTR_NONNULL(1);
GC_API int GC_CALL GC_unregister_my_thread(void);
GC_API int GC_CALL GC_thread_is_registered(void);
GC_API void GC_CALL GC_register_altstack(void *stack, GC_word stack_bytes, void *alternate,
                                         GC_word alternate_bytes);

typedef void(GC_CALLBACK *GC_on_thread_event_proc)(GC_EventType event, void *thread);
GC_API void GC_CALL GC_set_on_thread_event(GC_on_thread_event_proc function);
GC_API GC_on_thread_event_proc GC_CALL GC_get_on_thread_event(void);
/* Says for a stopped thread that runs on a stack of its own making where its stack pointer is. */
typedef void(GC_CALLBACK *GC_sp_corrector_proc)(void **position, void *thread);
GC_API void GC_CALL GC_set_sp_corrector(GC_sp_corrector_proc function);
GC_API GC_sp_corrector_proc GC_CALL GC_get_sp_corrector(void);

GC_API void GC_CALL GC_stop_world_external(void);
GC_API void GC_CALL GC_start_world_external(void);
GC_API void GC_CALL GC_set_suspend_signal(int number);
GC_API int GC_CALL GC_get_suspend_signal(void);
GC_API void GC_CALL GC_set_thr_restart_signal(int number);
GC_API int GC_CALL GC_get_thr_restart_signal(void);
#endif

#ifdef __cplusplus
}
#endif

#ifdef GC_PTHREADS
#include "gc_pthread_redirects.h"
#endif

#endif
