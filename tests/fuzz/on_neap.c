/* The fuzzed sequences on neap.h: sorts of allocation, and what only that interface has. Called by
   sequence.c on every thread; callbacks run where neap.h says. */
#include <neap.h>
#include "shadow.h"
#include <stdlib.h>
#include <string.h>

enum {
    PLAIN, LEAF, LEAF_ZEROED, PINNED, PINNED_LEAF, INLINE, ARRAY, LEAF_ARRAY, ALIGNED, BITMAP,
    PREFIX, FUNCTION, LABELLED, REALLOC_NULL,
};
enum { PREFIX_BYTES = 40 };

static unsigned any_word(size_t words, uint32_t *word)
{
    word[0] = words > 1;
    if (words < 4)
        return 1;
    word[1] = (uint32_t)(words / 2);
    word[2] = (uint32_t)(words - 1);
    return 3;
}
/* Of elements of four words the second and the fourth. */
static unsigned in_elements(size_t words, uint32_t *word)
{
    word[0] = 1;
    word[1] = 3;
    if (words < 16)
        return words < 2 ? 0 : words < 4 ? 1 : 2;
    word[2] = (uint32_t)((words / 4 - 1) * 4 + 1);
    word[3] = word[2] + 2;
    return 4;
}
static unsigned in_prefix(size_t words, uint32_t *word)
{
    word[0] = 1;
    word[1] = 4;
    return words < 2 ? 0 : words < 5 ? 1 : 2;
}
static unsigned second_and_last(size_t words, uint32_t *word)
{
    word[0] = 1;
    word[1] = (uint32_t)(words - 1);
    return words < 2 ? 0 : words == 2 ? 1 : 2;
}

const struct shape shapes[] = {
    [PLAIN] = {"neap_alloc_kind", 1, 0, 1, 0, any_word},
    [LEAF] = {"neap_alloc_leaf", 0, 0, 1, 0, any_word},
    [LEAF_ZEROED] = {"neap_alloc_leaf_zeroed", 0, 0, 1, 0, any_word},
    [PINNED] = {"neap_alloc_uncollectable", 1, 1, 1, 0, any_word},
    [PINNED_LEAF] = {"neap_alloc_uncollectable_leaf", 0, 1, 1, 0, any_word},
    [INLINE] = {"neap_alloc", 1, 0, 1, 0, any_word},
    [ARRAY] = {"neap_alloc_array", 1, 0, 1, 0, any_word},
    [LEAF_ARRAY] = {"neap_alloc_array of leaves", 0, 0, 1, 0, any_word},
    [ALIGNED] = {"neap_alloc_aligned", 1, 0, 1, 0, any_word},
    [BITMAP] = {"by a bitmap", 1, 0, 1, 0, in_elements},
    [PREFIX] = {"by a prefix", 1, 0, 1, 0, in_prefix},
    [FUNCTION] = {"by a function", 1, 0, 0, 0, second_and_last},
    [LABELLED] = {"with a label", 1, 0, 1, 0, in_elements},
    [REALLOC_NULL] = {"neap_realloc of null", 1, 0, 1, 0, any_word},
};
const unsigned shape_count = sizeof shapes / sizeof *shapes;
static neap_layout bitmap, prefix, by_function, labelled;

/* The second word, and the last that is not zero: the function hears of the whole cell. */
static void trace(void *object, size_t bytes, void *environment, neap_tracer *tracer)
{
    WANT(environment == &bitmap, "a trace function gets another environment");
    void **words = object;
    for (size_t word = 1; word < bytes / 8; word++)
        if (word == 1 || word + 1 >= bytes / 8 || (uintptr_t)words[word] >> 48 == 0)
            neap_trace_word(tracer, words[word]);
}

static void nothing_said(int status, const char *text, void *environment)
{
    (void)environment;
    WANT(status != NEAP_OK && text != NULL && *text != 0, "wrong use without a word");
}
static void no_warning(const char *text, size_t number, void *environment)
{
    (void)text, (void)number, (void)environment;
}
static void *no_memory(size_t bytes, void *environment)
{
    (void)bytes, (void)environment;
    return NULL;
}

unsigned long interface_cycles(void)
{
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    return statistics.cycles;
}

void interface_start(void)
{
    static const uint64_t second_and_fourth = 10;
    neap_init();
    neap_set_misuse_callback(nothing_said, NULL);
    neap_set_warning_callback(no_warning, NULL);
    neap_set_out_of_memory_callback(no_memory, NULL);
    bitmap = neap_layout_bitmap(4, &second_and_fourth);
    prefix = neap_layout_prefix(PREFIX_BYTES);
    by_function = neap_layout_function(trace, &bitmap);
    labelled = neap_layout_labelled(bitmap, 77);
    WANT(neap_layout_label(labelled) == 77 && labelled != bitmap, "a label is another");
}

void *allocate(unsigned shape, size_t bytes, unsigned detail)
{
    size_t alignment = (size_t)1 << detail % 13;
    void *object;
    switch (shape) {
    case PLAIN: return neap_alloc_kind(bytes, NEAP_CONSERVATIVE);
    case LEAF: return neap_alloc_leaf(bytes);
    case LEAF_ZEROED: return neap_alloc_leaf_zeroed(bytes);
    case PINNED: return neap_alloc_uncollectable(bytes);
    case PINNED_LEAF: return neap_alloc_uncollectable_leaf(bytes);
    case INLINE: return neap_alloc(bytes);
    case ARRAY: return neap_alloc_array((bytes + 7) / 8, 8, NEAP_CONSERVATIVE);
    case LEAF_ARRAY: return neap_alloc_array(bytes, 1, NEAP_LEAF);
    case ALIGNED:
        object = neap_alloc_aligned(bytes, alignment, NEAP_CONSERVATIVE);
        WANT((uintptr_t)object % alignment == 0, "%p is no multiple of %zu", object, alignment);
        return object;
    case BITMAP: return neap_alloc_typed(bytes, bitmap);
    case PREFIX: return neap_alloc_typed(bytes, prefix);
    case FUNCTION: return neap_alloc_typed(bytes, by_function);
    case LABELLED: return neap_alloc_typed(bytes, labelled);
    default: return neap_realloc(NULL, bytes);
    }
}

int is_zeroed(unsigned shape)
{
    return shapes[shape].scanned || shape == LEAF_ZEROED || shape == LEAF_ARRAY;
}

void *resize(unsigned shape, void *object, size_t bytes)
{
    (void)shape;
    return neap_realloc(object, bytes);
}
void release(unsigned shape, void *object)
{
    (void)shape;
    neap_status status = neap_free(object);
    WANT(status == NEAP_OK, "an object is not freed: %d", status);
}
void *base_of(void *address)
{
    return neap_base(address);
}
size_t size_of(void *object)
{
    return neap_usable_size(object);
}
void *uncollectable(size_t bytes)
{
    return neap_alloc_uncollectable(bytes);
}
void uncollectable_free(void *object)
{
    neap_free(object);
}

void collect(unsigned how)
{
    switch (how % 8) {
    default: neap_collect(); break;
    case 3: neap_collect_and_release(); break;
    case 4: neap_collect_if_due(); break;
    case 5: neap_release_memory(); break;
    case 6: neap_expand((size_t)how * 512); break;
    case 7:
        neap_hold_collections();
        WANT(neap_collect() == 0, "a collection ran that was held off");
        neap_release_collections();
        break;
    }
}

void roots_add(void *low, void *high)
{
    WANT(neap_roots_add(low, high) == NEAP_OK, "roots are refused");
}
void roots_remove(void *low, void *high)
{
    WANT(neap_roots_remove(low, high) == NEAP_OK, "roots are not found");
}

void link_add(void **cell, void *object, int is_long)
{
    WANT(neap_link_register(cell, object, is_long) == NEAP_OK, "a link is refused");
}
void link_remove(void **cell, int is_long)
{
    neap_link_unregister(cell, is_long);
}
void link_move(void **from, void **to, int is_long)
{
    WANT(neap_link_move(from, to, is_long) == NEAP_OK, "a link cannot be moved");
}
void *link_read(void **cell)
{
    return neap_link_read(cell);
}

static void finalize(void *object, void *record)
{
    finalizer_runs(object, record);
}
void finalizer_set(void *object, struct record *record, unsigned order)
{
    WANT(neap_finalizer_set(object, record == NULL ? NULL : finalize, record, (int)order) ==
             NEAP_OK, "a finalizer is refused");
}
void finalizers_run(void)
{
    neap_finalizers_run();
}

void *reference_read(struct reference *reference, void **key)
{
    if (reference->strength == EPHEMERON)
        return neap_ephemeron_get(reference->handle, key);
    return neap_handle_get(reference->handle);
}
void reference_drop(struct reference *reference)
{
    neap_status status = reference->strength == EPHEMERON
        ? neap_ephemeron_free(reference->handle) : neap_handle_free(reference->handle);
    WANT(status == NEAP_OK, "a handle cannot be freed: %d", status);
    WANT(neap_handle_get(reference->handle) == NULL, "a handle gives an object after its end");
}

void blocked(void *(*function)(void *), void *argument)
{
    neap_blocked(function, argument);
}

int thread_begin(pthread_t *thread, void *(*function)(void *), void *argument)
{
    return pthread_create(thread, NULL, function, argument);
}
void thread_join(pthread_t thread)
{
    WANT(pthread_join(thread, NULL) == 0, "a thread cannot be joined");
}

static void add_handle(struct shadow *shadow, struct input *input)
{
    static const enum strength strengths[] = {STRONG, STRONG, WEAK, WEAK_LONG};
    struct reference *reference = free_reference(shadow);
    int index = some_node(shadow, input);
    unsigned way = next_below(input, 4);
    if (reference == NULL || index == NOBODY)
        return;
    void *object = (void *)address_of(node_of(shadow, index));
    *reference = (struct reference){
        .strength = strengths[way], .node = index, .value = NOBODY,
        .handle = neap_handle_alloc(object, (int)way + NEAP_HANDLE_STRONG)};
    WANT(reference->handle != 0, "no handle");
    WANT(neap_handle_kind_of(reference->handle) == (int)way + NEAP_HANDLE_STRONG, "of what kind?");
}

static void add_ephemeron(struct shadow *shadow, struct input *input)
{
    struct reference *reference = free_reference(shadow);
    int key = some_node(shadow, input), value = some_node(shadow, input);
    if (reference == NULL || key == NOBODY)
        return;
    *reference = (struct reference){
        .strength = EPHEMERON, .node = key, .value = value,
        .handle = neap_ephemeron_alloc((void *)address_of(node_of(shadow, key)),
                                       (void *)address_of(node_of(shadow, value)))};
    WANT(reference->handle != 0, "no ephemeron");
}

static void change_handle(struct shadow *shadow, struct input *input)
{
    struct reference *reference = &shadow->references[next_below(input, REFERENCES)];
    int index = some_node(shadow, input);
    unsigned compares = next_below(input, 2);
    if (index == NOBODY || reference->strength < STRONG || reference->strength > EPHEMERON ||
        !node_of(shadow, reference->node)->live || reference->was_lost)
        return;
    void *object = (void *)address_of(node_of(shadow, index));
    neap_status status;
    if (reference->strength == EPHEMERON) {
        void *had = (void *)address_of(node_of(shadow, reference->value));
        status = compares ? neap_ephemeron_compare_and_set(reference->handle, had, object)
                          : neap_ephemeron_set(reference->handle, object);
        reference->value = index;
    } else {
        void *had = (void *)address_of(node_of(shadow, reference->node));
        status = compares ? neap_handle_compare_and_set(reference->handle, had, object)
                          : neap_handle_set(reference->handle, object);
        reference->node = index;
    }
    WANT(status == NEAP_OK, "a handle is not set: %d", status);
    reach(shadow);
}

static void wrong_use(struct shadow *shadow, struct input *input)
{
    int index = some_node(shadow, input);
    uintptr_t number = (uintptr_t)next_short(input) << next_below(input, 48);
    static uint64_t outside[4];
    void *object = next_below(input, 2) || index == NOBODY
        ? (void *)(number | 1) : (char *)address_of(node_of(shadow, index)) + 8;
    if (neap_base(object) == object)
        return;
    switch (next_below(input, 10)) {
    case 0: WANT(neap_free(object) != NEAP_OK, "%p was freed", object); break;
    case 1: WANT(neap_free(outside) == NEAP_NOT_IN_HEAP, "static data were freed"); break;
    case 2: WANT(neap_handle_free(number) != NEAP_OK || number == 0, "no handle"); break;
    case 3: neap_handle_get(number); neap_ephemeron_get(number, NULL); break;
    case 4: WANT(neap_monitor_exit(outside) != NEAP_OK, "a monitor of nothing"); break;
    case 5: WANT(neap_finalizer_set(object, finalize, NULL, 0) != NEAP_OK, "a finalizer"); break;
    case 6: WANT(neap_alloc_typed(16, (neap_layout)number | 1 << 30) == NULL, "a layout"); break;
    case 7: WANT(neap_alloc_aligned(16, number | 3, 0) == NULL, "an alignment"); break;
    case 8: WANT(neap_alloc_kind(16, (int)number + 4) == NULL || (int)number + 4 < 4, "a kind");
        break;
    default: WANT(neap_handle_alloc(outside, NEAP_HANDLE_WEAK) == 0, "a handle of static data");
    }
}

static void enter_monitor(struct shadow *shadow, struct input *input)
{
    int index = some_node(shadow, input);
    if (index == NOBODY)
        return;
    void *object = (void *)address_of(node_of(shadow, index));
    unsigned times = 1 + next_below(input, 3);
    for (unsigned time = 0; time < times; time++)
        WANT(neap_monitor_enter(object) == NEAP_OK, "a monitor cannot be entered");
    if (next_below(input, 2))
        WANT(neap_monitor_wait_timed(object, 1000) != NEAP_NOT_OWNER, "not its owner");
    WANT(neap_monitor_notify(object, 1) == NEAP_OK, "nobody can be notified");
    if (next_below(input, 4) == 0)
        neap_collect();
    for (unsigned time = 0; time < times; time++)
        WANT(neap_monitor_exit(object) == NEAP_OK, "a monitor cannot be left");
    WANT(neap_monitor_exit(object) == NEAP_NOT_OWNER, "a monitor was left twice");
}

static void set_option(struct input *input)
{
    static const char *const options[][2] = {
        {"growth", "0.05"}, {"growth", "100"}, {"growth", "1"}, {"min_trigger", "4KiB"},
        {"min_trigger", "256K"}, {"max_pause", "0"}, {"max_pause", "1"}, {"markers", "1"},
        {"markers", "4"}, {"decay", "0"}, {"decay", "4000"}, {"idle", "1"}, {"idle", "2000"},
        {"minor_cycles", "always"}, {"minor_cycles", "never"}, {"minor_cycles", "auto"},
        {"check", "1"}, {"check", "3"}, {"check", "0"}, {"finalizer_backlog", "1"},
        {"finalizer_backlog", "1000000"}, {"sample", "1K"}, {"sample", "0"}, {"huge_pages", "all"},
        {"prefork", "on-fork"}, {"prefork", "never"}, {"past_end", "false"}, {"soft_limit", "1MiB"},
        {"soft_limit", "none"}, {"watch", "none"}, {"busy_trigger", "1M"}, {"no_such", "1"},
    };
    unsigned which = next_below(input, sizeof options / sizeof *options);
    neap_option_set(options[which][0], options[which][1]);
    if (next_below(input, 4) == 0) {
        char name[20] = "max_pause", value[20];
        for (unsigned at = 0; at < 19; at++)
            value[at] = (char)next_byte(input);
        value[19] = 0;
        /* Only what is refused: a value by chance could be a limit. */
        if (value[0] < '0' || value[0] > '9')
            WANT(neap_option_set(name, value) != NULL, "max_pause is '%s'", value);
    }
}

static void visit(void *object, size_t bytes, int kind, void *count)
{
    WANT(object != NULL && bytes > 0 && kind >= 0 && kind < 4, "visited %p", object);
    ++*(size_t *)count;
}
static void *visit_all(void *count)
{
    neap_for_each_object(visit, count);
    return NULL;
}

static void *check_back(void *shadow)
{
    check_all(shadow);
    return NULL;
}
static void *call_back(void *shadow)
{
    neap_unblocked(check_back, shadow);
    return NULL;
}

static void in_place(struct shadow *shadow, struct input *input)
{
    int index = some_node(shadow, input);
    if (index == NOBODY)
        return;
    struct node *node = node_of(shadow, index);
    void *object = (void *)address_of(node);
    size_t wanted = node->bytes + next_short(input), had = neap_usable_size(object);
    size_t has = neap_resize_in_place(object, wanted);
    WANT(has == 0 || has >= wanted, "%zu bytes became %zu, not %zu", had, has, wanted);
    WANT(neap_usable_size(object) == (has == 0 ? had : has), "%zu bytes of %p are %zu", has,
         object, neap_usable_size(object));
    check_node(shadow, index);
}

void own_operation(struct shadow *shadow, struct input *input)
{
    switch (next_below(input, 20)) {
    case 0:
    case 1:
    case 2: add_handle(shadow, input); break;
    case 3:
    case 4: add_ephemeron(shadow, input); break;
    case 5: change_handle(shadow, input); break;
    case 6:
    case 7: wrong_use(shadow, input); break;
    case 8: enter_monitor(shadow, input); break;
    case 9: set_option(input); break;
    case 10: {
        size_t count = 0;
        neap_with_stopped_world(visit_all, &count);
        break;
    }
    case 11: blocked(call_back, shadow); break;
    case 12: in_place(shadow, input); break;
    case 13:
        neap_disable();
        shadow->disabled++;
        break;
    case 14:
        if (shadow->disabled > 0) {
            neap_enable();
            shadow->disabled--;
        }
        break;
    case 15: neap_freeze(); break;
    case 16: neap_unfreeze(); break;
    case 17: neap_prefork(); break;
    case 18: neap_finalizers_set_automatic((int)next_below(input, 2)); break;
    default: {
        neap_statistics figures;
        neap_statistics_read(&figures, next_byte(input) % sizeof figures);
        volatile size_t bytes = SIZE_MAX - next_short(input);
        WANT(neap_alloc_kind(bytes, (int)next_below(input, 4)) == NULL &&
                 neap_alloc_array(bytes, bytes, 0) == NULL &&
                 neap_alloc_typed(bytes, bitmap) == NULL,
             "%zu bytes were had", bytes);
    }
    }
}

void own_end(struct shadow *shadow)
{
    for (; shadow->disabled > 0; shadow->disabled--)
        neap_enable();
    neap_unfreeze();
    neap_finalizers_set_automatic(1);
}
