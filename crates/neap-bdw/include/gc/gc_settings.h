/* Settings, figures, callbacks and messages of the collector; gc.h includes it. What a setting does
   here stands in docs/boehm-interface.md where it is not simply what libgc's documents say. The
   variables are for programs of old; a setter can be called at any time. */
#ifndef GC_H
#include "gc.h"
#elif !defined(GC_SETTINGS_H)
#define GC_SETTINGS_H

#ifdef __cplusplus
extern "C" {
#endif

/* How large the heap gets, and when it is collected. */
GC_API void GC_CALL GC_set_max_heap_size(GC_word bytes);
GC_API GC_ATTR_DEPRECATED int GC_dont_expand;
GC_API void GC_CALL GC_set_dont_expand(int value);
GC_API int GC_CALL GC_get_dont_expand(void);
GC_API GC_ATTR_DEPRECATED int GC_use_entire_heap;
GC_API GC_ATTR_DEPRECATED GC_word GC_free_space_divisor;
GC_API void GC_CALL GC_set_free_space_divisor(GC_word divisor);
GC_API GC_word GC_CALL GC_get_free_space_divisor(void);
GC_API GC_ATTR_DEPRECATED GC_word GC_non_gc_bytes;
GC_API void GC_CALL GC_set_non_gc_bytes(GC_word bytes);
GC_API GC_word GC_CALL GC_get_non_gc_bytes(void);
GC_API void GC_CALL GC_set_min_bytes_allocd(size_t bytes);
GC_API size_t GC_CALL GC_get_min_bytes_allocd(void);
GC_API GC_ATTR_DEPRECATED GC_word GC_max_retries;
GC_API void GC_CALL GC_set_max_retries(GC_word count);
GC_API GC_word GC_CALL GC_get_max_retries(void);
GC_API GC_ATTR_DEPRECATED int GC_dont_gc;
GC_API void GC_CALL GC_set_disable_automatic_collection(int value);
GC_API int GC_CALL GC_get_disable_automatic_collection(void);
GC_API GC_ATTR_DEPRECATED int GC_dont_precollect;
GC_API void GC_CALL GC_set_dont_precollect(int value);
GC_API int GC_CALL GC_get_dont_precollect(void);
GC_API void GC_CALL GC_set_force_unmap_on_gcollect(int value);
GC_API int GC_CALL GC_get_force_unmap_on_gcollect(void);
GC_API void GC_CALL GC_set_allocd_bytes_per_finalizer(GC_word bytes);
GC_API GC_word GC_CALL GC_get_allocd_bytes_per_finalizer(void);

/* The incremental mode. */
GC_API GC_ATTR_DEPRECATED int GC_full_freq;
GC_API void GC_CALL GC_set_full_freq(int frequency);
GC_API int GC_CALL GC_get_full_freq(void);
#define GC_TIME_UNLIMITED 999999
GC_API GC_ATTR_DEPRECATED unsigned long GC_time_limit;
GC_API void GC_CALL GC_set_time_limit(unsigned long milliseconds);
GC_API unsigned long GC_CALL GC_get_time_limit(void);
struct GC_timeval_s {
    unsigned long tv_ms;
    unsigned long tv_nsec;
};
GC_API void GC_CALL GC_set_time_limit_tv(struct GC_timeval_s limit);
GC_API struct GC_timeval_s GC_CALL GC_get_time_limit_tv(void);
GC_API void GC_CALL GC_set_rate(int rate);
GC_API int GC_CALL GC_get_rate(void);
GC_API void GC_CALL GC_set_max_prior_attempts(int count);
GC_API int GC_CALL GC_get_max_prior_attempts(void);
/* What protected pages a program might notice: these, added up. */
#define GC_PROTECTS_NONE 0
#define GC_PROTECTS_POINTER_HEAP 1
#define GC_PROTECTS_PTRFREE_HEAP 2
#define GC_PROTECTS_STATIC_DATA 4
#define GC_PROTECTS_STACK 8
GC_API int GC_CALL GC_incremental_protection_needs(void);
/* How writes are watched. */
#define GC_VDB_NONE 0
#define GC_VDB_MPROTECT 0x1
#define GC_VDB_MANUAL 0x2
#define GC_VDB_DEFAULT 0x4
#define GC_VDB_GWW 0x8
#define GC_VDB_PCR 0x10
#define GC_VDB_PROC 0x20
#define GC_VDB_SOFT 0x40
GC_API unsigned GC_CALL GC_get_supported_vdbs(void);
GC_API unsigned GC_CALL GC_get_actual_vdb(void);
GC_API void GC_CALL GC_set_manual_vdb_allowed(int value);
GC_API int GC_CALL GC_get_manual_vdb_allowed(void);
GC_API void GC_CALL GC_set_mprotect_vdb_allowed(int value);
GC_API int GC_CALL GC_get_mprotect_vdb_allowed(void);

/* What counts as a pointer and as a root. */
GC_API GC_ATTR_DEPRECATED int GC_all_interior_pointers;
GC_API void GC_CALL GC_set_all_interior_pointers(int value);
GC_API int GC_CALL GC_get_all_interior_pointers(void);
GC_API int GC_CALL GC_get_dont_add_byte_at_end(void);
GC_API void GC_CALL GC_set_pointer_mask(GC_word mask);
GC_API GC_word GC_CALL GC_get_pointer_mask(void);
GC_API void GC_CALL GC_set_pointer_shift(unsigned shift);
GC_API unsigned GC_CALL GC_get_pointer_shift(void);
GC_API GC_ATTR_DEPRECATED int GC_no_dls;
GC_API void GC_CALL GC_set_no_dls(int value);
GC_API int GC_CALL GC_get_no_dls(void);
GC_API GC_ATTR_DEPRECATED char *GC_stackbottom;
GC_API void GC_CALL GC_set_pages_executable(int value);
GC_API int GC_CALL GC_get_pages_executable(void);

/* Finalizers: only when the program calls GC_invoke_finalizers, with a word to it that there are
   some; in any order by default; so many at most on an allocating thread's way. */
typedef void(GC_CALLBACK *GC_finalizer_notifier_proc)(void);
GC_API GC_ATTR_DEPRECATED int GC_finalize_on_demand;
GC_API void GC_CALL GC_set_finalize_on_demand(int value);
GC_API int GC_CALL GC_get_finalize_on_demand(void);
GC_API GC_ATTR_DEPRECATED GC_finalizer_notifier_proc GC_finalizer_notifier;
GC_API void GC_CALL GC_set_finalizer_notifier(GC_finalizer_notifier_proc function);
GC_API GC_finalizer_notifier_proc GC_CALL GC_get_finalizer_notifier(void);
GC_API GC_ATTR_DEPRECATED int GC_java_finalization;
GC_API void GC_CALL GC_set_java_finalization(int value);
GC_API int GC_CALL GC_get_java_finalization(void);
GC_API void GC_CALL GC_set_interrupt_finalizers(unsigned most);
GC_API unsigned GC_CALL GC_get_interrupt_finalizers(void);

/* Leaks: what is found dead and was never freed is reported. */
GC_API GC_ATTR_DEPRECATED int GC_find_leak;
GC_API void GC_CALL GC_set_find_leak(int value);
GC_API int GC_CALL GC_get_find_leak(void);

/* Figures, in bytes where they are not counts. */
GC_API GC_ATTR_DEPRECATED GC_word GC_gc_no;
GC_API GC_word GC_CALL GC_get_gc_no(void);
GC_API size_t GC_CALL GC_get_heap_size(void);
GC_API size_t GC_CALL GC_get_free_bytes(void);
GC_API size_t GC_CALL GC_get_unmapped_bytes(void);
GC_API size_t GC_CALL GC_get_bytes_since_gc(void);
GC_API size_t GC_CALL GC_get_expl_freed_bytes_since_gc(void);
GC_API size_t GC_CALL GC_get_total_bytes(void);
GC_API size_t GC_CALL GC_get_obtained_from_os_bytes(void);
GC_API size_t GC_CALL GC_get_memory_use(void);
GC_API size_t GC_CALL GC_get_size_map_at(int index);
/* Stores those that a pointer is given for. */
GC_API void GC_CALL GC_get_heap_usage_safe(GC_word *heap, GC_word *free, GC_word *unmapped,
                                           GC_word *since_gc, GC_word *total);
struct GC_prof_stats_s {
    GC_word heapsize_full;
    GC_word free_bytes_full;
    GC_word unmapped_bytes;
    GC_word bytes_allocd_since_gc;
    GC_word allocd_bytes_before_gc;
    GC_word non_gc_bytes;
    GC_word gc_no;
    GC_word markers_m1;
    GC_word bytes_reclaimed_since_gc;
    GC_word reclaimed_bytes_before_gc;
    GC_word expl_freed_bytes_since_gc;
    GC_word obtained_from_os_bytes;
};
/* How many bytes of the structure are known; the rest is filled with ones. */
GC_API size_t GC_CALL GC_get_prof_stats(struct GC_prof_stats_s *result, size_t bytes);
#ifdef GC_THREADS
GC_API size_t GC_CALL GC_get_prof_stats_unsafe(struct GC_prof_stats_s *result, size_t bytes);
#endif
GC_API void GC_CALL GC_start_performance_measurement(void);
/* In milliseconds, and the nanoseconds that are left over. */
GC_API unsigned long GC_CALL GC_get_full_gc_total_time(void);
GC_API unsigned long GC_CALL GC_get_full_gc_total_ns_frac(void);
GC_API unsigned long GC_CALL GC_get_stopped_mark_total_time(void);
GC_API unsigned long GC_CALL GC_get_avg_stopped_mark_time_ns(void);

/* Callbacks: when memory is refused, when the heap has grown, and as a collection goes on. */
typedef void *(GC_CALLBACK *GC_oom_func)(size_t bytes);
GC_API GC_ATTR_DEPRECATED GC_oom_func GC_oom_fn;
GC_API void GC_CALL GC_set_oom_fn(GC_oom_func function) GC_ATTR_NONNULL(1);
GC_API GC_oom_func GC_CALL GC_get_oom_fn(void);
GC_API void GC_CALL GC_abort_on_oom(void);
typedef void(GC_CALLBACK *GC_on_heap_resize_proc)(GC_word bytes);
GC_API GC_ATTR_DEPRECATED GC_on_heap_resize_proc GC_on_heap_resize;
GC_API void GC_CALL GC_set_on_heap_resize(GC_on_heap_resize_proc function);
GC_API GC_on_heap_resize_proc GC_CALL GC_get_on_heap_resize(void);
typedef void(GC_CALLBACK *GC_on_os_get_mem_proc)(void *memory, size_t bytes);
GC_API void GC_CALL GC_set_on_os_get_mem(GC_on_os_get_mem_proc function);
GC_API GC_on_os_get_mem_proc GC_CALL GC_get_on_os_get_mem(void);
typedef enum {
    GC_EVENT_START,
    GC_EVENT_MARK_START,
    GC_EVENT_MARK_END,
    GC_EVENT_RECLAIM_START,
    GC_EVENT_RECLAIM_END,
    GC_EVENT_END,
    GC_EVENT_PRE_STOP_WORLD,
    GC_EVENT_POST_STOP_WORLD,
    GC_EVENT_PRE_START_WORLD,
    GC_EVENT_POST_START_WORLD,
    GC_EVENT_THREAD_SUSPENDED,
    GC_EVENT_THREAD_UNSUSPENDED
} GC_EventType;
typedef void(GC_CALLBACK *GC_on_collection_event_proc)(GC_EventType event);
GC_API void GC_CALL GC_set_on_collection_event(GC_on_collection_event_proc function);
GC_API GC_on_collection_event_proc GC_CALL GC_get_on_collection_event(void);

/* Messages. A warning's text has a place for its word, as printf knows it. */
typedef void(GC_CALLBACK *GC_warn_proc)(char *text, GC_word word);
GC_API void GC_CALL GC_set_warn_proc(GC_warn_proc function) GC_ATTR_NONNULL(1);
GC_API GC_warn_proc GC_CALL GC_get_warn_proc(void);
GC_API void GC_CALLBACK GC_ignore_warn_proc(char *text, GC_word word);
/* Called before the program ends for what the text says. */
typedef void(GC_CALLBACK *GC_abort_func)(const char *text);
GC_API void GC_CALL GC_set_abort_func(GC_abort_func function) GC_ATTR_NONNULL(1);
GC_API GC_abort_func GC_CALL GC_get_abort_func(void);
GC_API void GC_CALL GC_set_log_fd(int descriptor);
GC_API void GC_CALL GC_dump(void);
GC_API void GC_CALL GC_dump_named(const char *name);
GC_API void GC_CALL GC_dump_regions(void);
GC_API void GC_CALL GC_dump_finalization(void);

#ifdef __cplusplus
}
#endif

#endif
