/* For runtimes that lay out their objects themselves: mark procedures, kinds of objects, what may
   be done while a collection marks. */
#ifndef GC_MARK_H
#define GC_MARK_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A descriptor says by its lowest two bits how an object's pointers are found: by its length, a
   bitmap from the highest bit down, a procedure, or a descriptor within the object. */
#define GC_DS_TAG_BITS 2
#define GC_DS_TAGS ((1 << GC_DS_TAG_BITS) - 1)
#define GC_DS_LENGTH 0
#define GC_DS_BITMAP 1
#define GC_DS_PROC 2
#define GC_DS_PER_OBJECT 3
/* Added to what a descriptor of the last form says, to have it mean the object's type instead. */
#define GC_INDIR_PER_OBJ_BIAS 0x10

/* A procedure pushes what the object points to by GC_MARK_AND_PUSH, and returns the stack's new
   top. It should push GC_PROC_BYTES at most, and the object again with another argument where there
   is more. */
struct GC_ms_entry;
typedef struct GC_ms_entry *(*GC_mark_proc)(GC_word *object, struct GC_ms_entry *stack,
                                            struct GC_ms_entry *limit, GC_word argument);
#define GC_LOG_MAX_MARK_PROCS 6
#define GC_MAX_MARK_PROCS (1 << GC_LOG_MAX_MARK_PROCS)
#define GC_RESERVED_MARK_PROCS 8
#define GC_GCJ_RESERVED_MARK_PROC_INDEX 0
#define GC_PROC_BYTES 100
#define GC_MAKE_PROC(index, argument) \
    ((((((GC_word)(argument)) << GC_LOG_MAX_MARK_PROCS) | (index)) << GC_DS_TAG_BITS) | GC_DS_PROC)
GC_API unsigned GC_CALL GC_new_proc(GC_mark_proc procedure);
GC_API unsigned GC_CALL GC_new_proc_inner(GC_mark_proc procedure);

/* As GC_init_gcj_malloc of gc_gcj.h; the descriptor lies at this offset of the type's table. */
GC_API void GC_CALL GC_init_gcj_malloc_mp(unsigned index, GC_mark_proc procedure,
                                          size_t descriptor_offset);

/* No object lies below the first of these or above the second. */
GC_API void *GC_least_plausible_heap_addr;
GC_API void *GC_greatest_plausible_heap_addr;
GC_API struct GC_ms_entry *GC_CALL GC_mark_and_push(void *object, struct GC_ms_entry *stack,
                                                    struct GC_ms_entry *limit, void **from);
#define GC_MARK_AND_PUSH(object, stack, limit, from) \
    ((GC_word)(object) < (GC_word)GC_least_plausible_heap_addr || \
             (GC_word)(object) > (GC_word)GC_greatest_plausible_heap_addr \
         ? (stack) \
         : GC_mark_and_push(object, stack, limit, from))
GC_API struct GC_ms_entry *GC_CALL GC_ms_push_obj_descr(void *object, GC_word descriptor,
                                                        struct GC_ms_entry *stack,
                                                        struct GC_ms_entry *limit);
GC_API struct GC_ms_entry *GC_CALL GC_ms_push_all(void *low, void *high_plus_1,
                                                  struct GC_ms_entry *stack,
                                                  struct GC_ms_entry *limit);

/* Kinds: a free list, a descriptor, whether the size is added to it and objects are cleared. */
GC_API void **GC_CALL GC_new_free_list(void);
GC_API void **GC_CALL GC_new_free_list_inner(void);
GC_API unsigned GC_CALL GC_new_kind(void **free_list, GC_word descriptor, int add_size, int clear)
    GC_ATTR_NONNULL(1);
GC_API unsigned GC_CALL GC_new_kind_inner(void **free_list, GC_word descriptor, int add_size,
                                          int clear) GC_ATTR_NONNULL(1);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_generic_malloc(size_t bytes, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_generic_malloc_ignore_off_page(size_t bytes, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_generic_malloc_uncollectable(size_t bytes, int kind);
/* Of built-in kinds too. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_generic_or_special_malloc(size_t bytes, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_generic_or_special_malloc(size_t bytes, int kind, const char *file, int line);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_generic_malloc(size_t bytes, int kind, const char *file, int line);
#ifdef GC_DEBUG
#define GC_GENERIC_OR_SPECIAL_MALLOC(bytes, kind) \
    GC_debug_generic_or_special_malloc(bytes, kind, GC_EXTRAS)
#define GC_GENERIC_MALLOC(bytes, kind) GC_debug_generic_malloc(bytes, kind, GC_EXTRAS)
#else
#define GC_GENERIC_OR_SPECIAL_MALLOC(bytes, kind) GC_generic_or_special_malloc(bytes, kind)
#define GC_GENERIC_MALLOC(bytes, kind) GC_generic_malloc(bytes, kind)
#endif
GC_API int GC_CALL GC_get_kind_and_size(const void *object, size_t *bytes) GC_ATTR_NONNULL(1);

/* What the debugging allocator puts before an object. */
GC_API GC_ATTR_CONST size_t GC_CALL GC_get_debug_header_size(void);
GC_API GC_ATTR_DEPRECATED
#ifdef GC_BUILD
    const
#endif
    size_t GC_debug_header_size;
#define GC_USR_PTR_FROM_BASE(base) ((void *)((char *)(base) + GC_get_debug_header_size()))
/* Writes an object's type, of GC_TYPE_DESCR_LEN characters at most, for messages. */
#define GC_TYPE_DESCR_LEN 40
typedef void(GC_CALLBACK *GC_describe_type_fn)(void *object, char *text);
GC_API void GC_CALL GC_register_describe_type_fn(int kind, GC_describe_type_fn function);

/* Blocks of the heap: each that is in use, each row of free ones; the caller sees to it that the
   heap does not change meanwhile. */
struct GC_hblk_s;
typedef void(GC_CALLBACK *GC_walk_hblk_fn)(struct GC_hblk_s *block, void *data);
typedef void(GC_CALLBACK *GC_walk_free_blk_fn)(struct GC_hblk_s *block, int list, void *data);
GC_API GC_ATTR_CONST size_t GC_CALL GC_get_hblk_size(void);
GC_API void GC_CALL GC_apply_to_all_blocks(GC_walk_hblk_fn function, void *data)
    GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_iterate_free_hblks(GC_walk_free_blk_fn function, void *data)
    GC_ATTR_NONNULL(1);
GC_API struct GC_hblk_s *GC_CALL GC_is_black_listed(struct GC_hblk_s *block, size_t bytes);
GC_API unsigned GC_CALL GC_count_set_marks_in_hblk(const void *pointer);

/* Overwrites the stack below, and returns the argument. */
GC_API void *GC_CALL GC_clear_stack(void *argument);

/* At a collection's start; and at its roots, where the function pushes what it knows. */
typedef void(GC_CALLBACK *GC_start_callback_proc)(void);
GC_API void GC_CALL GC_set_start_callback(GC_start_callback_proc function);
GC_API GC_start_callback_proc GC_CALL GC_get_start_callback(void);
typedef void(GC_CALLBACK *GC_push_other_roots_proc)(void);
GC_API void GC_CALL GC_set_push_other_roots(GC_push_other_roots_proc function);
GC_API GC_push_other_roots_proc GC_CALL GC_get_push_other_roots(void);
GC_API void GC_CALL GC_push_all(void *low, void *high_plus_1);
GC_API void GC_CALL GC_push_all_eager(void *low, void *high_plus_1);
GC_API void GC_CALL GC_push_conditional(void *low, void *high_plus_1, int all);
GC_API void GC_CALL GC_push_finalizer_structures(void);
GC_API void GC_CALL GC_push_obj_descr(void *object, GC_word descriptor);
/* When marking has come to an end; what the function pushes is marked too. */
typedef struct GC_ms_entry *(GC_CALLBACK *GC_on_mark_stack_empty_proc)(struct GC_ms_entry *stack,
                                                                       struct GC_ms_entry *limit);
GC_API void GC_CALL GC_set_on_mark_stack_empty(GC_on_mark_stack_empty_proc function);
GC_API GC_on_mark_stack_empty_proc GC_CALL GC_get_on_mark_stack_empty(void);

/* Mark bits. */
GC_API int GC_CALL GC_is_marked(const void *object) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_clear_mark_bit(const void *object) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_set_mark_bit(const void *object) GC_ATTR_NONNULL(1);
typedef void(GC_CALLBACK *GC_reachable_object_proc)(void *object, size_t bytes, void *data);
GC_API void GC_CALL GC_enumerate_reachable_objects_inner(GC_reachable_object_proc function,
                                                         void *data) GC_ATTR_NONNULL(1);
GC_API int GC_CALL GC_is_tmp_root(void *pointer);

#ifdef __cplusplus
}
#endif

#endif
