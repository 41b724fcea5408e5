/* Functions that Debian's gc.h does not declare: of libgc 8.3 and later, and of versions before
   7.2. The programs that include this are linked against Neap's library. */
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <pthread.h>
#include <semaphore.h>
#include <wchar.h>

/* alloc */
void *GC_valloc(size_t bytes);
void *GC_pvalloc(size_t bytes);
void GC_freezero(void *object, size_t bytes);
void *GC_reallocf(void *object, size_t bytes);
wchar_t *GC_wcsdup(const wchar_t *text);
int GC_get_dont_add_byte_at_end(void);
/* pointers */
typedef void (*print_pointer)(void *pointer);
typedef void (*print_pointers)(void *pointer, void *other);
void GC_set_same_obj_print_proc(print_pointers function);
print_pointers GC_get_same_obj_print_proc(void);
void GC_set_is_valid_displacement_print_proc(print_pointer function);
print_pointer GC_get_is_valid_displacement_print_proc(void);
void GC_set_is_visible_print_proc(print_pointer function);
print_pointer GC_get_is_visible_print_proc(void);
/* debugging */
void GC_debug_freezero(void *object, size_t bytes);
void *GC_debug_reallocf(void *object, size_t bytes, const char *file, int line);
void *GC_debug_reallocf_replacement(void *object, size_t bytes);
void *GC_debug_malloc_uncollectable_replacement(size_t bytes);
void *GC_debug_generic_malloc(size_t bytes, int kind, const char *file, int line);
wchar_t *GC_debug_wcsdup(const wchar_t *text, const char *file, int line);
int GC_debug_toggleref_add(void *object, int is_strong);
/* typed and gcj */
struct prepared {
    GC_word opaque[8];
};
int GC_calloc_prepare_explicitly_typed(struct prepared *place, size_t place_bytes, size_t count,
                                       size_t element_bytes, GC_descr descriptor);
void *GC_calloc_do_explicitly_typed(const struct prepared *place, size_t place_bytes);
void GC_init_gcj_malloc_mp(unsigned index, GC_mark_proc procedure, size_t displacement);
/* marking */
typedef struct GC_ms_entry *(*when_empty)(struct GC_ms_entry *stack, struct GC_ms_entry *limit);
void GC_set_on_mark_stack_empty(when_empty function);
when_empty GC_get_on_mark_stack_empty(void);
void GC_push_obj_descr(void *object, GC_word descriptor);
struct GC_ms_entry *GC_ms_push_obj_descr(void *object, GC_word descriptor,
                                         struct GC_ms_entry *stack, struct GC_ms_entry *limit);
struct GC_ms_entry *GC_ms_push_all(void *bottom, void *top, struct GC_ms_entry *stack,
                                   struct GC_ms_entry *limit);
void GC_set_pointer_mask(GC_word mask);
GC_word GC_get_pointer_mask(void);
void GC_set_pointer_shift(unsigned shift);
unsigned GC_get_pointer_shift(void);
/* threads */
typedef void (*sp_corrector)(void **position, void *thread);
void GC_set_sp_corrector(sp_corrector function);
sp_corrector GC_get_sp_corrector(void);
void *GC_call_with_reader_lock(GC_fn_type function, void *data, int release);
/* collections */
void GC_finish_and_disable(void);
void GC_set_interrupt_finalizers(unsigned most);
unsigned GC_get_interrupt_finalizers(void);
unsigned GC_get_supported_vdbs(void);
unsigned GC_get_actual_vdb(void);
void GC_set_mprotect_vdb_allowed(int value);
int GC_get_mprotect_vdb_allowed(void);
unsigned long GC_get_full_gc_total_ns_frac(void);
unsigned long GC_get_stopped_mark_total_time(void);
unsigned long GC_get_avg_stopped_mark_time_ns(void);
/* the heap */
typedef void (*on_memory)(void *space, size_t bytes);
void GC_set_on_os_get_mem(on_memory function);
on_memory GC_get_on_os_get_mem(void);
void GC_incr_bytes_allocd(size_t bytes);
void GC_incr_bytes_freed(size_t bytes);
size_t GC_get_hblk_size(void);
void GC_apply_to_all_blocks(void (*function)(void *block, void *data), void *data);
void GC_iterate_free_hblks(void (*function)(void *block, int list, void *data), void *data);
void GC_foreach_heap_section_inner(void (*function)(void *start, void *end, int type, void *data),
                                   void *data);
void *GC_is_black_listed(void *block, size_t bytes);
unsigned GC_count_set_marks_in_hblk(const void *pointer);
/* old names */
const void *GC_base_C(const void *pointer);
void GC_noop1_ptr(volatile void *pointer);
void *GC_local_malloc(size_t bytes);
void *GC_local_malloc_atomic(size_t bytes);
void *GC_local_gcj_malloc(size_t bytes, void *type);
void GC_start_blocking(void);
void GC_end_blocking(void);

/* Live objects enough that collections run beside the program, where they can. */
static inline void *make_ballast(void)
{
    void **list = NULL;
    for (int index = 0; index < 160000; index++) {
        void **object = GC_malloc(112);
        object[0] = list;
        list = object;
    }
    return list;
}

/* Weak references that tell which objects are gone. */
struct weak {
    GC_hidden_pointer hidden[MANY];
};

static inline void watch(struct weak *weak, int index, void *object)
{
    weak->hidden[index] = GC_HIDE_POINTER(object);
    GC_general_register_disappearing_link((void **)&weak->hidden[index], object);
}

static inline int count_gone(struct weak *weak)
{
    int gone = 0;
    for (int index = 0; index < MANY; index++)
        gone += weak->hidden[index] == 0;
    return gone;
}

static inline void forget(struct weak *weak)
{
    for (int index = 0; index < MANY; index++)
        GC_unregister_disappearing_link((void **)&weak->hidden[index]);
}
