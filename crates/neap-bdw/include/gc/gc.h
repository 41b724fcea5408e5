/* The collector's interface for C, as libgc has it: allocation, collection, roots, finalizers,
   links. Settings and figures are in gc_settings.h, the macros that programs allocate with in
   gc_macros.h, threads in gc_threads.h; all of them come with this header.

   Functions whose names end in `_inner` are for a caller that holds the allocator's lock. */
#ifndef GC_H
#define GC_H

#include "gc_version.h"

#include "gc_config_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A word, as large as a pointer. */
typedef unsigned long GC_word;
typedef long GC_signed_word;
typedef void *GC_PTR;

/* Called at the start by GC_INIT; what is called before it initialises too. */
GC_API void GC_CALL GC_init(void);
GC_API int GC_CALL GC_is_init_called(void);
GC_API void GC_CALL GC_deinit(void);
/* (major << 16) | (minor << 8) | micro */
GC_API unsigned GC_CALL GC_get_version(void);

/* Allocation. What is returned is cleared, but for pointer-free ("atomic") objects, which are not
   looked into either. Null, or what GC_set_oom_fn's function returns, where memory is refused. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc(size_t bytes);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_atomic(size_t bytes);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_uncollectable(size_t bytes);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_atomic_uncollectable(size_t bytes);
/* For large objects of which the program keeps a pointer to the first 256 bytes. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_ignore_off_page(size_t bytes);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_atomic_ignore_off_page(size_t bytes);
GC_API GC_ATTR_MALLOC char *GC_CALL GC_strdup(const char *text);
GC_API GC_ATTR_MALLOC char *GC_CALL GC_strndup(const char *text, size_t bytes) GC_ATTR_NONNULL(1);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(2) void *GC_CALL GC_memalign(size_t alignment,
                                                                      size_t bytes);
GC_API int GC_CALL GC_posix_memalign(void **place, size_t alignment, size_t bytes)
    GC_ATTR_NONNULL(1);
GC_API GC_ATTR_MALLOC void *GC_CALL GC_valloc(size_t bytes);
GC_API GC_ATTR_MALLOC void *GC_CALL GC_pvalloc(size_t bytes);
/* The object may move; its kind stays. */
GC_API void *GC_CALL GC_realloc(void *object, size_t bytes) GC_ATTR_ALLOC_SIZE(2);
/* Frees the object where it could not be made as large. */
GC_API void *GC_CALL GC_reallocf(void *object, size_t bytes) GC_ATTR_ALLOC_SIZE(2);
GC_API void GC_CALL GC_free(void *object);
/* Clears so many bytes first. */
GC_API void GC_CALL GC_freezero(void *object, size_t bytes);
/* Objects of one size, a list of which each links to the next by its first word: GC_NEXT. */
GC_API GC_ATTR_MALLOC void *GC_CALL GC_malloc_many(size_t bytes);
#define GC_NEXT(object) (*(void **)(object))

/* Objects that were told of before each change, once; ordinary ones now. */
GC_API GC_ATTR_DEPRECATED void *GC_CALL GC_malloc_stubborn(size_t bytes);
GC_API GC_ATTR_DEPRECATED void GC_CALL GC_change_stubborn(const void *object);
GC_API void GC_CALL GC_end_stubborn_change(const void *object) GC_ATTR_NONNULL(1);
/* Stores the second pointer where the first one points. */
GC_API void GC_CALL GC_ptr_store_and_dirty(void *place, const void *value);
GC_API void GC_CALL GC_debug_ptr_store_and_dirty(void *place, const void *value);

/* Objects by pointers into them. The start of one, or null for what is none; its size. */
GC_API void *GC_CALL GC_base(void *pointer);
GC_API const void *GC_CALL GC_base_C(const void *pointer);
GC_API int GC_CALL GC_is_heap_ptr(const void *pointer);
GC_API size_t GC_CALL GC_size(const void *object) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_register_displacement(size_t offset);
GC_API void GC_CALL GC_debug_register_displacement(size_t offset);

/* Collection. The function is asked whether to give up (not 0); the answer is 0 if it was. */
typedef int(GC_CALLBACK *GC_stop_func)(void);
GC_API void GC_CALL GC_gcollect(void);
GC_API void GC_CALL GC_gcollect_and_unmap(void);
GC_API int GC_CALL GC_try_to_collect(GC_stop_func stop) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_set_stop_func(GC_stop_func stop) GC_ATTR_NONNULL(1);
GC_API GC_stop_func GC_CALL GC_get_stop_func(void);
/* No collections until as many calls of GC_enable have come. */
GC_API void GC_CALL GC_disable(void);
GC_API void GC_CALL GC_enable(void);
GC_API int GC_CALL GC_is_disabled(void);
/* Runs the finalizers that there are, and collects nothing any more. */
GC_API void GC_CALL GC_finish_and_disable(void);
GC_API void GC_CALL GC_enable_incremental(void);
GC_API int GC_CALL GC_is_incremental_mode(void);
GC_API void GC_CALL GC_start_incremental_collection(void);
/* Not 0 if there is more to do. */
GC_API int GC_CALL GC_collect_a_little(void);
GC_API int GC_CALL GC_expand_hp(size_t bytes);

/* Roots: ranges outside the heap in which pointers are looked for. */
GC_API void GC_CALL GC_add_roots(void *low, void *high_plus_1);
GC_API void GC_CALL GC_remove_roots(void *low, void *high_plus_1);
GC_API void GC_CALL GC_clear_roots(void);
GC_API void GC_CALL GC_exclude_static_roots(void *low, void *high_plus_1);
GC_API void GC_CALL GC_clear_exclusion_table(void);
/* Says by the name of a library which of its writable segments are roots (not 0). */
typedef int(GC_CALLBACK *GC_has_static_roots_func)(const char *name, void *segment, size_t bytes);
GC_API void GC_CALL GC_register_has_static_roots_callback(GC_has_static_roots_func function);

/* Finalizers, one to an object; a null one takes it away. What was there before is stored by the
   last two arguments, where they are not null. Ordered: an object is finalized after those that
   point to it; one that reaches itself never is, unless by its own words (ignore_self). */
typedef void(GC_CALLBACK *GC_finalization_proc)(void *object, void *data);
GC_API void GC_CALL GC_register_finalizer(void *object, GC_finalization_proc function, void *data,
                                          GC_finalization_proc *old_function, void **old_data)
    GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_register_finalizer(void *object, GC_finalization_proc function,
                                                void *data, GC_finalization_proc *old_function,
                                                void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_register_finalizer_ignore_self(void *object, GC_finalization_proc function,
                                                      void *data,
                                                      GC_finalization_proc *old_function,
                                                      void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_register_finalizer_ignore_self(void *object,
                                                            GC_finalization_proc function,
                                                            void *data,
                                                            GC_finalization_proc *old_function,
                                                            void **old_data) GC_ATTR_NONNULL(1);
/* In any order. */
GC_API void GC_CALL GC_register_finalizer_no_order(void *object, GC_finalization_proc function,
                                                   void *data,
                                                   GC_finalization_proc *old_function,
                                                   void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_register_finalizer_no_order(void *object,
                                                         GC_finalization_proc function, void *data,
                                                         GC_finalization_proc *old_function,
                                                         void **old_data) GC_ATTR_NONNULL(1);
/* When no other finalizer can reach it either. */
GC_API void GC_CALL GC_register_finalizer_unreachable(void *object, GC_finalization_proc function,
                                                      void *data,
                                                      GC_finalization_proc *old_function,
                                                      void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_register_finalizer_unreachable(void *object,
                                                            GC_finalization_proc function,
                                                            void *data,
                                                            GC_finalization_proc *old_function,
                                                            void **old_data) GC_ATTR_NONNULL(1);
GC_API int GC_CALL GC_should_invoke_finalizers(void);
/* How many it ran. */
GC_API int GC_CALL GC_invoke_finalizers(void);
/* Told of each object whose finalizer is about to run. */
typedef void(GC_CALLBACK *GC_await_finalize_proc)(void *object);
GC_API void GC_CALL GC_set_await_finalize_proc(GC_await_finalize_proc function);
GC_API GC_await_finalize_proc GC_CALL GC_get_await_finalize_proc(void);

/* Links: words that are cleared when an object is gone. They must not keep it: hidden pointers, or
   in pointer-free objects. Long links are cleared only after the finalizers. */
#define GC_SUCCESS 0
#define GC_DUPLICATE 1
#define GC_NO_MEMORY 2
#define GC_UNIMPLEMENTED 3
#define GC_NOT_FOUND 4
GC_API int GC_CALL GC_register_disappearing_link(void **link) GC_ATTR_NONNULL(1);
GC_API int GC_CALL GC_general_register_disappearing_link(void **link, const void *object)
    GC_ATTR_NONNULL(1) GC_ATTR_NONNULL(2);
GC_API int GC_CALL GC_move_disappearing_link(void **link, void **new_link) GC_ATTR_NONNULL(2);
GC_API int GC_CALL GC_unregister_disappearing_link(void **link);
GC_API int GC_CALL GC_register_long_link(void **link, const void *object) GC_ATTR_NONNULL(1)
    GC_ATTR_NONNULL(2);
GC_API int GC_CALL GC_move_long_link(void **link, void **new_link) GC_ATTR_NONNULL(2);
GC_API int GC_CALL GC_unregister_long_link(void **link);
typedef GC_word GC_hidden_pointer;
#define GC_HIDE_POINTER(pointer) (~(GC_hidden_pointer)(pointer))
#define GC_REVEAL_POINTER(hidden) ((void *)GC_HIDE_POINTER(hidden))
#if defined(I_HIDE_POINTERS) || defined(GC_I_HIDE_POINTERS)
#define HIDE_POINTER(pointer) GC_HIDE_POINTER(pointer)
#define REVEAL_POINTER(hidden) GC_REVEAL_POINTER(hidden)
#endif

/* References that a function says the strength of, object by object, at each collection. */
typedef enum { GC_TOGGLE_REF_DROP, GC_TOGGLE_REF_STRONG, GC_TOGGLE_REF_WEAK } GC_ToggleRefStatus;
typedef GC_ToggleRefStatus(GC_CALLBACK *GC_toggleref_func)(void *object);
GC_API void GC_CALL GC_set_toggleref_func(GC_toggleref_func function);
GC_API GC_toggleref_func GC_CALL GC_get_toggleref_func(void);
GC_API int GC_CALL GC_toggleref_add(void *object, int is_strong) GC_ATTR_NONNULL(1);
GC_API int GC_CALL GC_debug_toggleref_add(void *object, int is_strong) GC_ATTR_NONNULL(1);

/* The debugging allocator: objects know where they were made, overruns and double frees are
   reported. GC_DEBUG has the macros call it. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_debug_malloc(size_t bytes,
                                                                          const char *file,
                                                                          int line);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_atomic(size_t bytes, const char *file, int line);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_uncollectable(size_t bytes, const char *file, int line);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_atomic_uncollectable(size_t bytes, const char *file, int line);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_ignore_off_page(size_t bytes, const char *file, int line);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_atomic_ignore_off_page(size_t bytes, const char *file, int line);
GC_API GC_ATTR_DEPRECATED void *GC_CALL GC_debug_malloc_stubborn(size_t bytes, const char *file,
                                                                 int line);
GC_API GC_ATTR_DEPRECATED void GC_CALL GC_debug_change_stubborn(const void *object);
GC_API void GC_CALL GC_debug_end_stubborn_change(const void *object) GC_ATTR_NONNULL(1);
GC_API GC_ATTR_MALLOC char *GC_CALL GC_debug_strdup(const char *text, const char *file, int line);
GC_API GC_ATTR_MALLOC char *GC_CALL GC_debug_strndup(const char *text, size_t bytes,
                                                     const char *file, int line)
    GC_ATTR_NONNULL(1);
GC_API void *GC_CALL GC_debug_realloc(void *object, size_t bytes, const char *file, int line)
    GC_ATTR_ALLOC_SIZE(2);
GC_API void *GC_CALL GC_debug_reallocf(void *object, size_t bytes, const char *file, int line)
    GC_ATTR_ALLOC_SIZE(2);
GC_API void GC_CALL GC_debug_free(void *object);
GC_API void GC_CALL GC_debug_freezero(void *object, size_t bytes);
/* For code that stands in for malloc and has no place to tell of. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_replacement(size_t bytes);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_uncollectable_replacement(size_t bytes);
GC_API GC_ATTR_ALLOC_SIZE(2) void *GC_CALL GC_debug_realloc_replacement(void *object,
                                                                        size_t bytes);
GC_API GC_ATTR_ALLOC_SIZE(2) void *GC_CALL GC_debug_reallocf_replacement(void *object,
                                                                         size_t bytes);
#ifdef GC_REQUIRE_WCSDUP
GC_API GC_ATTR_MALLOC wchar_t *GC_CALL GC_wcsdup(const wchar_t *text) GC_ATTR_NONNULL(1);
GC_API GC_ATTR_MALLOC wchar_t *GC_CALL GC_debug_wcsdup(const wchar_t *text, const char *file,
                                                       int line) GC_ATTR_NONNULL(1);
#endif

/* Checks of pointer arithmetic: the first pointer if both lie in one object, a message and the end
   of the program otherwise. The functions behind them say what happens instead. */
GC_API void *GC_CALL GC_same_obj(void *pointer, void *other);
GC_API void *GC_CALL GC_pre_incr(void **pointer, ptrdiff_t bytes) GC_ATTR_NONNULL(1);
GC_API void *GC_CALL GC_post_incr(void **pointer, ptrdiff_t bytes) GC_ATTR_NONNULL(1);
/* The pointer, if the collector sees what is stored there, or if it keeps its object. */
GC_API void *GC_CALL GC_is_visible(void *pointer);
GC_API void *GC_CALL GC_is_valid_displacement(void *pointer);
typedef void(GC_CALLBACK *GC_same_obj_print_proc_t)(void *pointer, void *other);
typedef void(GC_CALLBACK *GC_valid_ptr_print_proc_t)(void *pointer);
GC_API void(GC_CALLBACK *GC_same_obj_print_proc)(void *pointer, void *other);
GC_API void(GC_CALLBACK *GC_is_valid_displacement_print_proc)(void *pointer);
GC_API void(GC_CALLBACK *GC_is_visible_print_proc)(void *pointer);
GC_API void GC_CALL GC_set_same_obj_print_proc(GC_same_obj_print_proc_t function);
GC_API GC_same_obj_print_proc_t GC_CALL GC_get_same_obj_print_proc(void);
GC_API void GC_CALL GC_set_is_valid_displacement_print_proc(GC_valid_ptr_print_proc_t function);
GC_API GC_valid_ptr_print_proc_t GC_CALL GC_get_is_valid_displacement_print_proc(void);
GC_API void GC_CALL GC_set_is_visible_print_proc(GC_valid_ptr_print_proc_t function);
GC_API GC_valid_ptr_print_proc_t GC_CALL GC_get_is_visible_print_proc(void);

/* Keeps what the compiler would take for dead before here. */
#define GC_reachable_here(pointer) __asm__ volatile("" : : "X"(pointer) : "memory")

#ifdef __cplusplus
}
#endif

#include "gc_settings.h"

#include "gc_threads.h"

#include "gc_macros.h"

#endif
