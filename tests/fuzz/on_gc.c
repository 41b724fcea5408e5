/* The fuzzed sequences on gc.h: sorts of allocation, and what only that interface has. Called by
   sequence.c on every thread; callbacks run where gc.h says. */
#define GC_THREADS
#include <gc/gc.h>
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gc/gc_undeclared.h>
#include "on_gc.h"
#include "shadow.h"
#include <string.h>

enum {
    CONSERVATIVE, ATOMIC, PINNED, PINNED_ATOMIC, OFF_PAGE, ATOMIC_OFF_PAGE, TYPED, TYPED_ARRAY,
    GCJ_BITMAP, GCJ_LENGTH, DEBUG_PLAIN, DEBUG_ATOMIC, DEBUG_PINNED, MEMALIGN, POSIX_MEMALIGN, MANY,
    PROCEDURE, GENERIC, REALLOC_NULL, DEBUG_GCJ,
};

static unsigned any_word(size_t words, uint32_t *word)
{
    word[0] = words > 1;
    if (words < 4)
        return 1;
    word[1] = (uint32_t)(words / 2);
    word[2] = (uint32_t)(words - 1);
    return 3;
}
static unsigned second_and_fourth(size_t words, uint32_t *word)
{
    word[0] = 1;
    word[1] = 3;
    return words < 2 ? 0 : words < 4 ? 1 : 2;
}
static unsigned in_elements(size_t words, uint32_t *word)
{
    unsigned count = second_and_fourth(words, word);
    if (words < 16)
        return count;
    word[2] = (uint32_t)((words / 4 - 1) * 4 + 1);
    word[3] = word[2] + 2;
    return 4;
}
static unsigned second_and_third(size_t words, uint32_t *word)
{
    word[0] = 1;
    word[1] = 2;
    return words < 3 ? 0 : 2;
}

const struct shape shapes[] = {
    [CONSERVATIVE] = {"GC_malloc", 1, 0, 1, 0, any_word},
    [ATOMIC] = {"GC_malloc_atomic", 0, 0, 1, 0, any_word},
    [PINNED] = {"GC_malloc_uncollectable", 1, 1, 1, 0, any_word},
    [PINNED_ATOMIC] = {"GC_malloc_atomic_uncollectable", 0, 1, 1, 0, any_word},
    [OFF_PAGE] = {"GC_malloc_ignore_off_page", 1, 0, 0, 0, any_word},
    [ATOMIC_OFF_PAGE] = {"GC_malloc_atomic_ignore_off_page", 0, 0, 0, 0, any_word},
    [TYPED] = {"GC_malloc_explicitly_typed", 1, 0, 0, 0, second_and_fourth},
    [TYPED_ARRAY] = {"GC_calloc_explicitly_typed", 1, 0, 0, 0, in_elements},
    [GCJ_BITMAP] = {"GC_gcj_malloc", 1, 0, 0, 1, second_and_third},
    [GCJ_LENGTH] = {"GC_gcj_malloc by length", 1, 0, 0, 1, second_and_third},
    [DEBUG_PLAIN] = {"GC_debug_malloc", 1, 0, 1, 0, any_word},
    [DEBUG_ATOMIC] = {"GC_debug_malloc_atomic", 0, 0, 1, 0, any_word},
    [DEBUG_PINNED] = {"GC_debug_malloc_uncollectable", 1, 1, 1, 0, any_word},
    [MEMALIGN] = {"GC_memalign", 1, 0, 1, 0, any_word},
    [POSIX_MEMALIGN] = {"GC_posix_memalign", 1, 0, 1, 0, any_word},
    [MANY] = {"GC_malloc_many", 1, 0, 1, 0, any_word},
    [PROCEDURE] = {"GC_generic_malloc with a procedure", 1, 0, 0, 0, second_and_third},
    [GENERIC] = {"GC_generic_malloc", 1, 0, 1, 0, any_word},
    [REALLOC_NULL] = {"GC_realloc of null", 1, 0, 1, 0, any_word},
    [DEBUG_GCJ] = {"GC_debug_gcj_malloc", 1, 0, 0, 1, second_and_third},
};
const unsigned shape_count = sizeof shapes / sizeof *shapes;

/* Types of gcj objects: the descriptor is their second word. */
static struct {
    void *other;
    GC_word descriptor;
} by_bitmap = {NULL, (GC_word)3 << 61 | GC_DS_BITMAP}, by_length = {NULL, 24 | GC_DS_LENGTH};
int procedure_kind;
static int plain_kind;

static struct GC_ms_entry *mark_two(GC_word *object, struct GC_ms_entry *top,
                                    struct GC_ms_entry *limit, GC_word argument)
{
    WANT(argument == 7, "a mark procedure gets the argument %lu", argument);
    for (int word = 1; word < 3; word++)
        if (object[word] != 0)
            top = GC_MARK_AND_PUSH((void *)object[word], top, limit, (void **)&object[word]);
    return top;
}

/* What the function of toggle references answers, by object. */
unsigned char toggles[TOGGLES];

static GC_ToggleRefStatus toggle(void *object)
{
    size_t words = GC_size(object) / 8;
    uint32_t id = id_in(object, words < 16 ? words : 16);
    unsigned mode = __atomic_load_n(&toggles[id % TOGGLES], __ATOMIC_RELAXED);
    return mode == 2 ? GC_TOGGLE_REF_STRONG : mode == 1 ? GC_TOGGLE_REF_WEAK : GC_TOGGLE_REF_DROP;
}

unsigned long interface_cycles(void)
{
    return GC_get_gc_no();
}

void interface_start(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_init_gcj_malloc_mp(GC_GCJ_RESERVED_MARK_PROC_INDEX, NULL, sizeof(void *));
    procedure_kind =
        (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark_two), 7), 0, 1);
    plain_kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    GC_init_finalized_malloc();
    GC_set_toggleref_func(toggle);
}

static size_t at_least(size_t bytes, size_t least)
{
    return bytes < least ? least : bytes;
}

static void *typed(size_t bytes, unsigned detail)
{
    size_t words = bytes / 8;
    GC_word bits = 10;
    GC_descr descriptor = GC_make_descriptor(&bits, words < 4 ? words : 4);
    return detail % 2 ? GC_malloc_explicitly_typed(bytes, descriptor)
                      : GC_malloc_explicitly_typed_ignore_off_page(bytes, descriptor);
}

static void *typed_array(size_t bytes, unsigned detail)
{
    GC_word bits = 10;
    GC_descr descriptor = GC_make_descriptor(&bits, 4);
    struct GC_calloc_typed_descr_s prepared;
    if (detail % 2)
        return GC_calloc_explicitly_typed((bytes + 31) / 32, 32, descriptor);
    WANT(GC_calloc_prepare_explicitly_typed(&prepared, sizeof prepared, (bytes + 31) / 32, 32,
                                            descriptor) == 1, "no typed array");
    return GC_calloc_do_explicitly_typed(&prepared, sizeof prepared);
}

static void *aligned(size_t bytes, size_t alignment, int posix)
{
    void *object = NULL;
    if (!posix)
        object = GC_memalign(alignment, bytes);
    else if (GC_posix_memalign(&object, alignment, bytes) != 0)
        return NULL;
    WANT((uintptr_t)object % alignment == 0, "%p is no multiple of %zu", object, alignment);
    return object;
}

/* The first of a list of which the others are dropped. */
static void *of_many(size_t bytes)
{
    void *first = GC_malloc_many(bytes);
    if (first == NULL)
        return NULL;
    int count = 0;
    for (void *object = GC_NEXT(first); object != NULL && count < 10000; object = GC_NEXT(object))
        count++;
    WANT(count < 10000, "a list without end");
    GC_NEXT(first) = NULL;
    return first;
}

void *allocate(unsigned shape, size_t bytes, unsigned detail)
{
    switch (shape) {
    case CONSERVATIVE: return GC_malloc(bytes);
    case ATOMIC: return GC_malloc_atomic(bytes);
    case PINNED: return GC_malloc_uncollectable(bytes);
    case PINNED_ATOMIC: return GC_malloc_atomic_uncollectable(bytes);
    case OFF_PAGE: return GC_malloc_ignore_off_page(bytes);
    case ATOMIC_OFF_PAGE: return GC_malloc_atomic_ignore_off_page(bytes);
    case TYPED: return typed(bytes, detail);
    case TYPED_ARRAY: return typed_array(bytes, detail);
    case GCJ_BITMAP:
        return detail % 2 ? GC_gcj_malloc(at_least(bytes, 24), &by_bitmap)
                          : GC_gcj_malloc_ignore_off_page(at_least(bytes, 24), &by_bitmap);
    case GCJ_LENGTH: return GC_gcj_malloc(at_least(bytes, 24), &by_length);
    case DEBUG_PLAIN: return GC_debug_malloc(bytes, "fuzz", (int)detail);
    case DEBUG_ATOMIC: return GC_debug_malloc_atomic(bytes, "fuzz", (int)detail);
    case DEBUG_PINNED: return GC_debug_malloc_uncollectable(bytes, "fuzz", (int)detail);
    case MEMALIGN: return aligned(bytes, (size_t)8 << detail % 10, 0);
    case POSIX_MEMALIGN: return aligned(bytes, (size_t)8 << detail % 10, 1);
    case MANY: return of_many(bytes);
    case PROCEDURE: return GC_generic_malloc(at_least(bytes, 24), procedure_kind);
    case GENERIC: return GC_generic_malloc(bytes, plain_kind);
    case REALLOC_NULL: return GC_realloc(NULL, bytes);
    default: return GC_debug_gcj_malloc(at_least(bytes, 24), &by_bitmap, "fuzz", (int)detail);
    }
}

int is_zeroed(unsigned shape)
{
    return shapes[shape].scanned;
}

int is_debug(unsigned shape)
{
    return shape == DEBUG_PLAIN || shape == DEBUG_ATOMIC || shape == DEBUG_PINNED ||
           shape == DEBUG_GCJ;
}

void *resize(unsigned shape, void *object, size_t bytes)
{
    return is_debug(shape) ? GC_debug_realloc(object, bytes, "fuzz", 1)
                           : GC_realloc(object, bytes);
}

void release(unsigned shape, void *object)
{
    if (is_debug(shape))
        GC_debug_free(object);
    else
        GC_free(object);
}

void *base_of(void *address)
{
    return GC_base(address);
}

size_t size_of(void *object)
{
    char *base = GC_base(object);
    return base == NULL ? 0 : GC_size(base) - (size_t)((char *)object - base);
}

void *uncollectable(size_t bytes)
{
    return GC_malloc_uncollectable(bytes);
}

void uncollectable_free(void *object)
{
    GC_free(object);
}

static int go_on(void)
{
    return 0;
}
static int give_up(void)
{
    return 1;
}

void collect(unsigned how)
{
    switch (how % 8) {
    default: GC_gcollect(); break;
    case 3: GC_gcollect_and_unmap(); break;
    case 4: GC_collect_a_little(); break;
    case 5: GC_try_to_collect(how / 8 % 2 ? go_on : give_up); break;
    case 6: GC_start_incremental_collection(); break;
    case 7: GC_expand_hp((size_t)how * 512); break;
    }
}

void roots_add(void *low, void *high)
{
    GC_add_roots(low, high);
}
void roots_remove(void *low, void *high)
{
    GC_remove_roots(low, high);
}

void link_add(void **cell, void *object, int is_long)
{
    int status = is_long ? GC_register_long_link(cell, object)
                         : GC_general_register_disappearing_link(cell, object);
    WANT(status == GC_SUCCESS || status == GC_DUPLICATE, "a link is refused: %d", status);
}
void link_remove(void **cell, int is_long)
{
    if (is_long)
        GC_unregister_long_link(cell);
    else
        GC_unregister_disappearing_link(cell);
}
void link_move(void **from, void **to, int is_long)
{
    int status = is_long ? GC_move_long_link(from, to) : GC_move_disappearing_link(from, to);
    WANT(status == GC_SUCCESS, "a link cannot be moved: %d", status);
}
static void *reveal(void *cell)
{
    GC_hidden_pointer hidden = *(volatile GC_hidden_pointer *)cell;
    return hidden == 0 ? NULL : GC_REVEAL_POINTER(hidden);
}
void *link_read(void **cell)
{
    return GC_call_with_alloc_lock(reveal, cell);
}

static void finalize(void *object, void *record)
{
    finalizer_runs(object, record);
}
void finalizer_set(void *object, struct record *record, unsigned order)
{
    typedef void set_finalizer(void *, GC_finalization_proc, void *, GC_finalization_proc *,
                               void **);
    static set_finalizer *const plain[] = {
        GC_register_finalizer, GC_register_finalizer_ignore_self, GC_register_finalizer_no_order,
        GC_register_finalizer_unreachable},
        *const debugging[] = {
            GC_debug_register_finalizer, GC_debug_register_finalizer_ignore_self,
            GC_debug_register_finalizer_no_order, GC_debug_register_finalizer_unreachable};
    (GC_base(object) == object ? plain : debugging)[order](
        object, record == NULL ? NULL : finalize, record, NULL, NULL);
}
void finalizers_run(void)
{
    GC_invoke_finalizers();
}

/* Toggle references are the only ones besides links: strong ones give their object. */
void *reference_read(struct reference *reference, void **key)
{
    (void)key;
    return (void *)~reference->handle;
}
void set_toggle(unsigned mode, uint32_t id)
{
    __atomic_store_n(&toggles[id % TOGGLES], (unsigned char)mode, __ATOMIC_RELAXED);
}
void reference_drop(struct reference *reference)
{
    if (reference->strength == STRONG)
        set_toggle(0, (uint32_t)reference->value);
}

void blocked(void *(*function)(void *), void *argument)
{
    GC_do_blocking(function, argument);
}

int thread_begin(pthread_t *thread, void *(*function)(void *), void *argument)
{
    return GC_pthread_create(thread, NULL, function, argument);
}
void thread_join(pthread_t thread)
{
    WANT(GC_pthread_join(thread, NULL) == 0, "a thread cannot be joined");
}

