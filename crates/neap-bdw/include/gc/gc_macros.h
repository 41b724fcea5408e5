/* The macros that programs allocate and register with: GC_DEBUG has them call the debugging
   allocator. And GC_INIT, with settings that a program can be compiled with. gc.h includes it. */
#ifndef GC_H
#include "gc.h"
#elif !defined(GC_MACROS_H)
#define GC_MACROS_H

#define GC_EXTRAS __FILE__, __LINE__
#define GC_EXTRA_PARAMS const char *s, int i

/* GC_DEBUG_REPLACEMENT: as a replacement of malloc, whose calls name no place. */
#ifdef GC_DEBUG_REPLACEMENT
#define GC_MALLOC(bytes) GC_debug_malloc_replacement(bytes)
#define GC_REALLOC(object, bytes) GC_debug_realloc_replacement(object, bytes)
#elif defined(GC_DEBUG)
#define GC_MALLOC(bytes) GC_debug_malloc(bytes, GC_EXTRAS)
#define GC_REALLOC(object, bytes) GC_debug_realloc(object, bytes, GC_EXTRAS)
#else
#define GC_MALLOC(bytes) GC_malloc(bytes)
#define GC_REALLOC(object, bytes) GC_realloc(object, bytes)
#endif

#ifdef GC_DEBUG
#define GC_MALLOC_ATOMIC(bytes) GC_debug_malloc_atomic(bytes, GC_EXTRAS)
#define GC_MALLOC_UNCOLLECTABLE(bytes) GC_debug_malloc_uncollectable(bytes, GC_EXTRAS)
#define GC_MALLOC_ATOMIC_UNCOLLECTABLE(bytes) \
    GC_debug_malloc_atomic_uncollectable(bytes, GC_EXTRAS)
#define GC_MALLOC_IGNORE_OFF_PAGE(bytes) GC_debug_malloc_ignore_off_page(bytes, GC_EXTRAS)
#define GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(bytes) \
    GC_debug_malloc_atomic_ignore_off_page(bytes, GC_EXTRAS)
#define GC_STRDUP(text) GC_debug_strdup(text, GC_EXTRAS)
#define GC_STRNDUP(text, bytes) GC_debug_strndup(text, bytes, GC_EXTRAS)
#define GC_FREE(object) GC_debug_free(object)
#define GC_REGISTER_FINALIZER(object, function, data, old_function, old_data) \
    GC_debug_register_finalizer(object, function, data, old_function, old_data)
#define GC_REGISTER_FINALIZER_IGNORE_SELF(object, function, data, old_function, old_data) \
    GC_debug_register_finalizer_ignore_self(object, function, data, old_function, old_data)
#define GC_REGISTER_FINALIZER_NO_ORDER(object, function, data, old_function, old_data) \
    GC_debug_register_finalizer_no_order(object, function, data, old_function, old_data)
#define GC_REGISTER_FINALIZER_UNREACHABLE(object, function, data, old_function, old_data) \
    GC_debug_register_finalizer_unreachable(object, function, data, old_function, old_data)
#define GC_GENERAL_REGISTER_DISAPPEARING_LINK(link, object) \
    GC_general_register_disappearing_link(link, GC_base((void *)(object)))
#define GC_REGISTER_LONG_LINK(link, object) \
    GC_register_long_link(link, GC_base((void *)(object)))
#define GC_TOGGLEREF_ADD(object, is_strong) GC_debug_toggleref_add(object, is_strong)
#define GC_REGISTER_DISPLACEMENT(offset) GC_debug_register_displacement(offset)
#define GC_END_STUBBORN_CHANGE(object) GC_debug_end_stubborn_change(object)
#define GC_PTR_STORE_AND_DIRTY(place, value) GC_debug_ptr_store_and_dirty(place, value)
#else
#define GC_MALLOC_ATOMIC(bytes) GC_malloc_atomic(bytes)
#define GC_MALLOC_UNCOLLECTABLE(bytes) GC_malloc_uncollectable(bytes)
#define GC_MALLOC_ATOMIC_UNCOLLECTABLE(bytes) GC_malloc_atomic_uncollectable(bytes)
#define GC_MALLOC_IGNORE_OFF_PAGE(bytes) GC_malloc_ignore_off_page(bytes)
#define GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(bytes) GC_malloc_atomic_ignore_off_page(bytes)
#define GC_STRDUP(text) GC_strdup(text)
#define GC_STRNDUP(text, bytes) GC_strndup(text, bytes)
#define GC_FREE(object) GC_free(object)
#define GC_REGISTER_FINALIZER(object, function, data, old_function, old_data) \
    GC_register_finalizer(object, function, data, old_function, old_data)
#define GC_REGISTER_FINALIZER_IGNORE_SELF(object, function, data, old_function, old_data) \
    GC_register_finalizer_ignore_self(object, function, data, old_function, old_data)
#define GC_REGISTER_FINALIZER_NO_ORDER(object, function, data, old_function, old_data) \
    GC_register_finalizer_no_order(object, function, data, old_function, old_data)
#define GC_REGISTER_FINALIZER_UNREACHABLE(object, function, data, old_function, old_data) \
    GC_register_finalizer_unreachable(object, function, data, old_function, old_data)
#define GC_GENERAL_REGISTER_DISAPPEARING_LINK(link, object) \
    GC_general_register_disappearing_link(link, object)
#define GC_REGISTER_LONG_LINK(link, object) GC_register_long_link(link, object)
#define GC_TOGGLEREF_ADD(object, is_strong) GC_toggleref_add(object, is_strong)
#define GC_REGISTER_DISPLACEMENT(offset) GC_register_displacement(offset)
#define GC_END_STUBBORN_CHANGE(object) GC_end_stubborn_change(object)
#define GC_PTR_STORE_AND_DIRTY(place, value) GC_ptr_store_and_dirty(place, value)
#endif

#ifdef GC_REQUIRE_WCSDUP
#ifdef GC_DEBUG
#define GC_WCSDUP(text) GC_debug_wcsdup(text, GC_EXTRAS)
#else
#define GC_WCSDUP(text) GC_wcsdup(text)
#endif
#endif

#define GC_NEW(type) ((type *)GC_MALLOC(sizeof(type)))
#define GC_NEW_ATOMIC(type) ((type *)GC_MALLOC_ATOMIC(sizeof(type)))
#define GC_NEW_UNCOLLECTABLE(type) ((type *)GC_MALLOC_UNCOLLECTABLE(sizeof(type)))
#define GC_MALLOC_STUBBORN(bytes) GC_MALLOC(bytes)
#define GC_NEW_STUBBORN(type) GC_NEW(type)
#define GC_CHANGE_STUBBORN(object) GC_change_stubborn(object)

/* Pointer arithmetic, checked with GC_DEBUG. The forms with a 3 are told the result's type. */
#define GC_PTR_ADD3(pointer, count, type) ((type)GC_same_obj((pointer) + (count), (pointer)))
#define GC_PRE_INCR3(pointer, count, type) \
    ((type)GC_pre_incr((void **)(&(pointer)), (ptrdiff_t)((count) * sizeof(*(pointer)))))
#define GC_POST_INCR3(pointer, count, type) \
    ((type)GC_post_incr((void **)(&(pointer)), (ptrdiff_t)((count) * sizeof(*(pointer)))))
#ifdef GC_DEBUG
#define GC_PTR_ADD(pointer, count) GC_PTR_ADD3(pointer, count, __typeof__(pointer))
#define GC_PRE_INCR(pointer, count) GC_PRE_INCR3(pointer, count, __typeof__(pointer))
#define GC_POST_INCR(pointer) GC_POST_INCR3(pointer, 1, __typeof__(pointer))
#define GC_POST_DECR(pointer) GC_POST_INCR3(pointer, -1, __typeof__(pointer))
#define GC_PTR_STORE(place, value) \
    (*(void **)GC_is_visible((void *)(place)) = GC_is_valid_displacement((void *)(value)))
#else
#define GC_PTR_ADD(pointer, count) ((pointer) + (count))
#define GC_PRE_INCR(pointer, count) ((pointer) += (count))
#define GC_POST_INCR(pointer) ((pointer)++)
#define GC_POST_DECR(pointer) ((pointer)--)
#define GC_PTR_STORE(place, value) (*(void **)(place) = (void *)(value))
#endif

/* Settings of a program by macros of their names, which GC_INIT applies. */
#ifdef GC_DONT_EXPAND
#define GC_INIT_CONF_DONT_EXPAND GC_set_dont_expand(1)
#else
#define GC_INIT_CONF_DONT_EXPAND (void)0
#endif
#ifdef GC_FORCE_UNMAP_ON_GCOLLECT
#define GC_INIT_CONF_FORCE_UNMAP_ON_GCOLLECT GC_set_force_unmap_on_gcollect(1)
#else
#define GC_INIT_CONF_FORCE_UNMAP_ON_GCOLLECT (void)0
#endif
#ifdef GC_DONT_GC
#define GC_INIT_CONF_MAX_RETRIES GC_set_max_retries(0), GC_set_disable_automatic_collection(1)
#elif defined(GC_MAX_RETRIES)
#define GC_INIT_CONF_MAX_RETRIES GC_set_max_retries(GC_MAX_RETRIES)
#else
#define GC_INIT_CONF_MAX_RETRIES (void)0
#endif
#ifdef GC_ALLOCD_BYTES_PER_FINALIZER
#define GC_INIT_CONF_ALLOCD_BYTES_PER_FINALIZER \
    GC_set_allocd_bytes_per_finalizer(GC_ALLOCD_BYTES_PER_FINALIZER)
#else
#define GC_INIT_CONF_ALLOCD_BYTES_PER_FINALIZER (void)0
#endif
#ifdef GC_FREE_SPACE_DIVISOR
#define GC_INIT_CONF_FREE_SPACE_DIVISOR GC_set_free_space_divisor(GC_FREE_SPACE_DIVISOR)
#else
#define GC_INIT_CONF_FREE_SPACE_DIVISOR (void)0
#endif
#ifdef GC_FULL_FREQ
#define GC_INIT_CONF_FULL_FREQ GC_set_full_freq(GC_FULL_FREQ)
#else
#define GC_INIT_CONF_FULL_FREQ (void)0
#endif
#ifdef GC_TIME_LIMIT
#define GC_INIT_CONF_TIME_LIMIT GC_set_time_limit(GC_TIME_LIMIT)
#else
#define GC_INIT_CONF_TIME_LIMIT (void)0
#endif
#if defined(GC_MARKERS) && defined(GC_THREADS)
#define GC_INIT_CONF_MARKERS GC_set_markers_count(GC_MARKERS)
#else
#define GC_INIT_CONF_MARKERS (void)0
#endif
#if defined(GC_SIG_SUSPEND) && defined(GC_THREADS)
#define GC_INIT_CONF_SUSPEND_SIGNAL GC_set_suspend_signal(GC_SIG_SUSPEND)
#else
#define GC_INIT_CONF_SUSPEND_SIGNAL (void)0
#endif
#if defined(GC_SIG_THR_RESTART) && defined(GC_THREADS)
#define GC_INIT_CONF_THR_RESTART_SIGNAL GC_set_thr_restart_signal(GC_SIG_THR_RESTART)
#else
#define GC_INIT_CONF_THR_RESTART_SIGNAL (void)0
#endif
#ifdef GC_MAXIMUM_HEAP_SIZE
#define GC_INIT_CONF_MAXIMUM_HEAP_SIZE GC_set_max_heap_size(GC_MAXIMUM_HEAP_SIZE)
#else
#define GC_INIT_CONF_MAXIMUM_HEAP_SIZE (void)0
#endif
#ifdef GC_IGNORE_WARN
#define GC_INIT_CONF_IGNORE_WARN GC_set_warn_proc(GC_ignore_warn_proc)
#else
#define GC_INIT_CONF_IGNORE_WARN (void)0
#endif
#ifdef GC_INITIAL_HEAP_SIZE
#define GC_INIT_CONF_INITIAL_HEAP_SIZE gc_grow_to(GC_INITIAL_HEAP_SIZE)
static inline void gc_grow_to(size_t bytes)
{
    size_t now = GC_get_heap_size();
    if (now < bytes)
        (void)GC_expand_hp(bytes - now);
}
#else
#define GC_INIT_CONF_INITIAL_HEAP_SIZE (void)0
#endif
#define GC_INIT_CONF_ROOTS (void)0

/* A statement of its own, as libgc's: some programs write no semicolon behind it. */
#define GC_INIT()                                                                           \
    {                                                                                       \
        GC_INIT_CONF_DONT_EXPAND, GC_INIT_CONF_FORCE_UNMAP_ON_GCOLLECT;                      \
        GC_INIT_CONF_MAX_RETRIES, GC_INIT_CONF_ALLOCD_BYTES_PER_FINALIZER;                   \
        GC_INIT_CONF_FREE_SPACE_DIVISOR, GC_INIT_CONF_FULL_FREQ, GC_INIT_CONF_TIME_LIMIT;    \
        GC_INIT_CONF_MARKERS, GC_INIT_CONF_SUSPEND_SIGNAL, GC_INIT_CONF_THR_RESTART_SIGNAL;  \
        GC_INIT_CONF_MAXIMUM_HEAP_SIZE;                                                      \
        GC_init();                                                                          \
        GC_INIT_CONF_ROOTS, GC_INIT_CONF_IGNORE_WARN, GC_INIT_CONF_INITIAL_HEAP_SIZE;        \
    }

#endif
