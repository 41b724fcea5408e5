/* What only gc.h has, in the fuzzed sequences: toggle references, settings, questions, further ways
   to collect and wait. Called by sequence.c on every thread. */
#define GC_THREADS
#include <gc/gc.h>
#include <gc/gc_disclaim.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gc/gc_undeclared.h>
#include "on_gc.h"
#include "shadow.h"
#include <errno.h>
#include <string.h>

static int closure_data;
static void disclaimed(void *object, void *data)
{
    WANT(data == &closure_data, "a closure gets other data");
    uint64_t *words = object;
    WANT(words[0] == pattern(1, words[1] & 0xff), "an object of GC_finalized_malloc was changed");
}
static const struct GC_finalizer_closure closure = {disclaimed, &closure_data};

static void add_toggle(struct shadow *shadow, struct input *input)
{
    struct reference *reference = free_reference(shadow);
    int index = some_node(shadow, input);
    unsigned way = next_byte(input);
    if (reference == NULL || index == NOBODY)
        return;
    struct node *node = node_of(shadow, index);
    if (node->bytes < 48 || is_debug(node->shape) || shapes[node->shape].pinned ||
        toggles[node->id % TOGGLES] != 0)
        return;
    *reference = (struct reference){.strength = way % 2 ? STRONG : NO_WAY_BACK,
                                    .node = index,
                                    .value = (int)node->id,
                                    .handle = node->hidden};
    set_toggle(1 + way % 2, node->id);
    WANT(GC_toggleref_add((void *)address_of(node), way / 2 % 2) == GC_SUCCESS, "no toggle");
}

static void change_toggle(struct shadow *shadow, struct input *input)
{
    struct reference *reference = &shadow->references[next_below(input, REFERENCES)];
    if (reference->strength != STRONG && reference->strength != NO_WAY_BACK)
        return;
    struct node *node = node_of(shadow, reference->node);
    if (reference->strength == STRONG) {
        reference->strength = NO_WAY_BACK;
        set_toggle(1, node->id);
    } else if (node->live && !reference->was_lost) {
        reference->strength = STRONG;
        set_toggle(2, node->id);
    }
    reach(shadow);
}

/* Numbers of all sizes. */
static GC_word number(struct input *input)
{
    unsigned bits = next_below(input, 64);
    return ((GC_word)1 << bits) - next_below(input, 3);
}

static void set_something(struct shadow *shadow, struct input *input)
{
    switch (next_below(input, 20)) {
    case 0: GC_set_free_space_divisor(1 + number(input) % 8); break;
    case 1: GC_set_full_freq((int)number(input)); break;
    case 2: GC_set_time_limit(number(input)); break;
    case 3: GC_set_non_gc_bytes(number(input)); break;
    case 4: GC_set_min_bytes_allocd(100000 + number(input) % 1000000); break;
    case 5: GC_set_force_unmap_on_gcollect((int)number(input)); break;
    case 6: GC_set_finalize_on_demand(next_below(input, 2)); break;
    case 7: GC_set_interrupt_finalizers((unsigned)number(input)); break;
    case 8: GC_set_java_finalization(next_below(input, 2)); break;
    case 9: GC_set_rate(1 + (int)(number(input) % 1000)); break;
    case 10: GC_set_max_prior_attempts((int)(number(input) & 0xffff)); break;
    case 11: GC_set_max_retries(next_below(input, 4)); break;
    case 12: GC_set_allocd_bytes_per_finalizer(number(input)); break;
    case 13: GC_set_all_interior_pointers(next_below(input, 2)); break;
    case 14: GC_set_disable_automatic_collection(next_below(input, 2)); break;
    case 15: GC_enable_incremental(); break;
    case 16: {
        struct GC_timeval_s limit = {number(input), number(input) % 1000000};
        GC_set_time_limit_tv(limit);
        break;
    }
    case 17: GC_incr_bytes_allocd(number(input) % 100000); break;
    case 18: GC_incr_bytes_freed(number(input) % 100000); break;
    default:
        GC_disable();
        shadow->disabled++;
        break;
    }
}

static void count_object(void *object, size_t bytes, void *count)
{
    WANT(object != NULL && bytes != 0, "a reachable object %p of %zu bytes", object, bytes);
    ++*(size_t *)count;
}
static void *enumerate(void *count)
{
    GC_enumerate_reachable_objects_inner(count_object, count);
    return NULL;
}

/* The whole of a sequence's objects is looked at by a callback out of a blocked region. */
static void *check_in_callback(void *shadow)
{
    check_all(shadow);
    return NULL;
}
static void *call_back(void *shadow)
{
    GC_call_with_gc_active(check_in_callback, shadow);
    return NULL;
}

static void ask(struct shadow *shadow, struct input *input)
{
    int index = some_node(shadow, input);
    void *address = (void *)number(input);
    WANT(GC_base(address) == NULL || GC_is_heap_ptr(address), "%p has a base", address);
    if (index == NOBODY)
        return;
    struct node *node = node_of(shadow, index);
    char *object = (char *)address_of(node);
    char *base = GC_base(object);
    size_t bytes = 0;
    WANT(GC_is_heap_ptr(object), "an object is not in the heap");
    GC_get_kind_and_size(base, &bytes);
    WANT(bytes == GC_size(base), "an object has two sizes");
    WANT(GC_base(base + bytes - 1) == base, "the last of %zu bytes is none of the object", bytes);
    WANT(GC_is_valid_displacement(object) == object, "no displacement");
    GC_is_visible(&object);
}

void own_operation(struct shadow *shadow, struct input *input)
{
    switch (next_below(input, 16)) {
    case 0:
    case 1: add_toggle(shadow, input); break;
    case 2: change_toggle(shadow, input); break;
    case 3:
    case 4: set_something(shadow, input); break;
    case 5:
        if (shadow->disabled > 0) {
            GC_enable();
            shadow->disabled--;
        }
        break;
    case 6: {
        size_t count = 0;
        GC_call_with_alloc_lock(enumerate, &count);
        break;
    }
    case 7: blocked(call_back, shadow); break;
    case 8: {
        void *object = (void *)8;
        size_t alignment = number(input);
        int status = GC_posix_memalign(&object, alignment, next_byte(input));
        if (alignment == 0 || alignment % sizeof(void *) != 0 ||
            (alignment & (alignment - 1)) != 0)
            WANT(status == EINVAL, "an alignment of %zu was had", alignment);
        else
            WANT(status == ENOMEM || (uintptr_t)object % alignment == 0, "%p", object);
        break;
    }
    case 9: {
        volatile size_t bytes = SIZE_MAX - number(input) % ((size_t)1 << 62);
        WANT(GC_malloc(bytes) == NULL && GC_malloc_atomic(bytes) == NULL &&
                 GC_debug_malloc(bytes, "fuzz", 1) == NULL &&
                 GC_memalign(64, bytes) == NULL && GC_malloc_many(bytes) == NULL &&
                 GC_malloc_uncollectable(bytes) == NULL &&
                 GC_generic_malloc(bytes, procedure_kind) == NULL &&
                 GC_calloc_explicitly_typed(bytes, bytes, GC_DS_LENGTH) == NULL,
             "%zu bytes were had", bytes);
        break;
    }
    case 10: {
        uint64_t *words = GC_finalized_malloc(16 + next_byte(input), &closure);
        if (words != NULL) {
            words[1] = next_byte(input);
            words[0] = pattern(1, words[1] & 0xff);
        }
        break;
    }
    case 11: {
        struct GC_prof_stats_s figures;
        GC_get_prof_stats(&figures, next_below(input, 2) ? sizeof figures : 8);
        GC_get_heap_usage_safe(NULL, NULL, NULL, NULL, NULL);
        GC_get_memory_use();
        break;
    }
    case 12:
        GC_free(NULL);
        GC_debug_free(NULL);
        WANT(GC_realloc(GC_malloc(next_byte(input)), 0) == NULL, "0 bytes are an object");
        break;
    case 13: {
        char text[64];
        size_t length = next_below(input, sizeof text);
        memset(text, 'x', length);
        char *copy = GC_strndup(text, length);
        WANT(copy != NULL && strlen(copy) == length, "a copy differs");
        break;
    }
    case 14:
        GC_stop_world_external();
        check_all(shadow);
        GC_start_world_external();
        break;
    default: ask(shadow, input); break;
    }
}

void own_end(struct shadow *shadow)
{
    for (; shadow->disabled > 0; shadow->disabled--)
        GC_enable();
    GC_set_disable_automatic_collection(0);
    GC_set_free_space_divisor(3);
    GC_set_full_freq(19);
    GC_set_time_limit(GC_TIME_UNLIMITED);
    GC_set_all_interior_pointers(1);
    for (int at = 0; at < REFERENCES; at++)
        if (shadow->references[at].strength == STRONG ||
            shadow->references[at].strength == NO_WAY_BACK) {
            set_toggle(0, (uint32_t)shadow->references[at].value);
            shadow->references[at].strength = NO_REFERENCE;
        }
    reach(shadow);
}
