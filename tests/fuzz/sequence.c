/* A sequence of calls, decided by bytes: what both interfaces have. Invariant: the same bytes do
   the same, but for when threads and collections happen. A sequence leaves nothing registered.
   Called by driver.c or a fuzzer on one thread, and by the threads that it begins itself. */
#include "shadow.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATIC_SHADOWS = 1 + 4 * MOST_THREADS, PAGE = 4096 };
/* Places in static data and in thread-local storage. */
static volatile uintptr_t static_cells[STATIC_SHADOWS][CELLS];
static int static_used[STATIC_SHADOWS];
static __thread volatile uintptr_t thread_cells[CELLS];
enum { ON_STACK, IN_STATIC, IN_THREAD, REGISTERED_RANGE, UNCOLLECTABLE };

static size_t next_bytes(struct input *input)
{
    unsigned sort = next_byte(input);
    if (sort < 128)
        return sort;
    if (sort < 200)
        return next_below(input, 64) * 8 + 128;
    if (sort < 232)
        return next_short(input) % 9000;
    if (sort < 250)
        return next_short(input);
    return (size_t)next_short(input) * (sort < 254 ? 8 : 64);
}

/* Sizes that nobody can have. */
static size_t absurd(struct input *input)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)1 << 47,
                                   (size_t)1 << 56, (size_t)1 << 63};
    size_t size = sizes[next_below(input, sizeof sizes / sizeof *sizes)];
    return size - next_below(input, 32);
}

static void make_room(struct shadow *shadow, struct input *input)
{
    int count = 0;
    for (int index = 0; index < NODES; index++)
        count += shadow->nodes[index].hidden != 0;
    if (count < NODES - 2)
        return;
    unsigned place = next_below(input, PLACES);
    for (unsigned cell = 0; cell < CELLS; cell++)
        set_root(shadow, place, cell, NOBODY, 0);
    for (int index = 0; index < NODES; index++)
        if (shadow->nodes[index].hidden != 0 && shapes[shadow->nodes[index].shape].pinned)
            free_node(shadow, index);
    reach(shadow);
    for (int at = 0; at < REFERENCES; at++)
        look_at(shadow, &shadow->references[at], 0);
    collect(0);
    finalizers_run();
    look_at_finalizers(shadow);
    for (int at = 0; at < REFERENCES; at++)
        look_at(shadow, &shadow->references[at], 0);
    count = 0;
    for (int index = 0; index < NODES; index++)
        count += shadow->nodes[index].hidden != 0;
    if (count < NODES - 2)
        return;
    /* All of it, then. */
    for (place = 0; place < PLACES; place++)
        for (unsigned cell = 0; cell < CELLS; cell++)
            set_root(shadow, place, cell, NOBODY, 0);
    for (int index = 0; index < NODES; index++)
        if (shadow->nodes[index].hidden != 0 && shadow->nodes[index].live)
            drop_references(shadow, index);
    reach(shadow);
}

static size_t some_offset(struct shadow *shadow, int index, struct input *input)
{
    const struct node *node = node_of(shadow, index);
    unsigned way = next_below(input, 8);
    if (way < 6 || node->bytes == 0)
        return 0;
    return way == 6 ? node->bytes - 1 : next_short(input) % node->bytes;
}

/* A further pointer to a node, from a root or another node. */
static void attach(struct shadow *shadow, int index, struct input *input)
{
    unsigned way = next_byte(input);
    size_t offset = some_offset(shadow, index, input);
    int from = way % 2 ? some_node(shadow, input) : NOBODY;
    if (from != NOBODY && shadow->nodes[from].pointers != 0) {
        set_edge(shadow, from, way / 2 % shadow->nodes[from].pointers, index, offset);
        return;
    }
    unsigned place = way / 2 % PLACES;
    if (place == REGISTERED_RANGE && !shadow->registered)
        place = ON_STACK;
    set_root(shadow, place, way / 16 % CELLS, index, offset);
}

/* A new object lives up to here, although its node hides its address. */
static void keep(void *object)
{
    __asm__ volatile("" : : "r"(object) : "memory");
}

static void create(struct shadow *shadow, struct input *input)
{
    make_room(shadow, input);
    unsigned shape = next_below(input, shape_count), detail = next_byte(input);
    size_t bytes = next_bytes(input);
    void *object = allocate(shape, bytes, detail);
    if (object == NULL) {
        WANT(shadow->limited, "%s: no memory for %zu bytes", shapes[shape].name, bytes);
        return;
    }
    WANT((uintptr_t)object % (bytes != 0 && bytes % 16 == 0 ? 16 : bytes >= 8 ? 8 : 1) == 0,
         "%s of %zu bytes at %p", shapes[shape].name, bytes, object);
    int index = enter(shadow, shape, object, bytes, is_zeroed(shape));
    attach(shadow, index, input);
    keep(object);
    reach(shadow);
}

/* Whether a node that may be dead points to it: what it holds cannot be changed. */
static int held_by_lost(struct shadow *shadow, int index)
{
    for (int from = 0; from < NODES; from++) {
        const struct node *other = &shadow->nodes[from];
        for (unsigned edge = 0; other->hidden != 0 && edge < other->pointers; edge++)
            if (other->edge[edge] == index && !other->live)
                return 1;
    }
    for (int at = 0; at < REFERENCES; at++)
        if (shadow->references[at].strength == EPHEMERON && shadow->references[at].value == index &&
            !node_of(shadow, shadow->references[at].node)->live)
            return 1;
    return 0;
}

static void resize_some(struct shadow *shadow, struct input *input)
{
    int index = some_node(shadow, input);
    if (index == NOBODY || held_by_lost(shadow, index))
        return;
    struct node *node = node_of(shadow, index);
    if (!shapes[node->shape].moves || node->record != NULL)
        return;
    unsigned way = next_byte(input);
    size_t bytes = way % 4 == 0 ? node->bytes + way / 4 : next_bytes(input);
    if (way >= 250) {
        void *same = resize(node->shape, (void *)address_of(node), absurd(input));
        WANT(same == NULL, "an absurd size was had");
        return;
    }
    if (bytes == 0)
        return;
    for (unsigned edge = node->pointers; edge-- > 0;) {
        if (node->word[edge] < bytes / 8)
            continue;
        set_edge(shadow, index, edge, NOBODY, 0);
        node->pointers--;
        memmove(&node->word[edge], &node->word[edge + 1],
                (node->pointers - edge) * sizeof *node->word);
        memmove(&node->edge[edge], &node->edge[edge + 1],
                (node->pointers - edge) * sizeof *node->edge);
        memmove(&node->offset[edge], &node->offset[edge + 1],
                (node->pointers - edge) * sizeof *node->offset);
    }
    drop_references(shadow, index);
    void *object = resize(node->shape, (void *)address_of(node), bytes);
    WANT(object != NULL || shadow->limited, "no memory for %zu bytes", bytes);
    if (object != NULL)
        moved(shadow, index, object, bytes);
    else
        check_node(shadow, index);
    keep(object);
    reach(shadow);
}

static void free_some(struct shadow *shadow, struct input *input)
{
    int index = some_node(shadow, input);
    if (index == NOBODY || held_by_lost(shadow, index) || node_of(shadow, index)->was_lost)
        return;
    free_node(shadow, index);
    reach(shadow);
}

static void link_some(struct shadow *shadow, struct input *input)
{
    struct reference *reference = free_reference(shadow);
    int index = some_node(shadow, input);
    unsigned way = next_byte(input);
    if (reference == NULL || index == NOBODY)
        return;
    struct node *node = node_of(shadow, index);
    *reference = (struct reference){
        .strength = way % 2 ? LONG_LINK : SHORT_LINK, .node = index, .value = NOBODY};
    void **cell = (void **)&shadow->link_cells[reference - shadow->references];
    *cell = (void *)node->hidden;
    link_add(cell, (void *)address_of(node), way % 2);
    if (way % 8 == 0)
        link_add(cell, (void *)address_of(node), way % 2);
}

static void change_link(struct shadow *shadow, struct input *input)
{
    struct reference *reference = &shadow->references[next_below(input, REFERENCES)];
    struct reference *other = free_reference(shadow);
    unsigned way = next_below(input, 4);
    int is_long = reference->strength == LONG_LINK;
    if (!is_long && reference->strength != SHORT_LINK) {
        if (reference->strength == NO_REFERENCE || reference->strength == NO_WAY_BACK)
            return;
        if (reference->strength == STRONG || way == 0) {
            reference_drop(reference);
            reference->strength = NO_REFERENCE;
            reach(shadow);
        }
        return;
    }
    void **cell = (void **)&shadow->link_cells[reference - shadow->references];
    if (way == 0) {
        link_remove(cell, is_long);
        reference->strength = NO_REFERENCE;
        reach(shadow);
    } else if (way == 1 && other != NULL && node_of(shadow, reference->node)->live &&
               *cell != NULL) {
        void **to = (void **)&shadow->link_cells[other - shadow->references];
        *to = *cell;
        link_move(cell, to, is_long);
        *other = *reference;
        reference->strength = NO_REFERENCE;
    }
}

static void cut(struct shadow *shadow, struct input *input)
{
    unsigned way = next_byte(input);
    int from = way % 2 ? some_node(shadow, input) : NOBODY;
    if (from != NOBODY && shadow->nodes[from].pointers != 0)
        set_edge(shadow, from, way / 2 % shadow->nodes[from].pointers, NOBODY, 0);
    else
        set_root(shadow, way / 2 % PLACES, way / 16 % CELLS, NOBODY, 0);
    reach(shadow);
}

static void garbage(struct input *input)
{
    unsigned count = next_byte(input), shape;
    do
        shape = next_below(input, shape_count);
    while (shapes[shape].pinned && input->at < input->end);
    size_t bytes = next_bytes(input) % 4096;
    for (unsigned at = 0; at < count && !shapes[shape].pinned; at++) {
        void *object = allocate(shape, bytes, at);
        __atomic_add_fetch(&counts.allocations, 1, __ATOMIC_RELAXED);
        if (object != NULL && !shapes[shape].scanned)
            memset(object, 0x7f, bytes);
    }
}

static void change_places(struct shadow *shadow)
{
    volatile uintptr_t *range = shadow->places[REGISTERED_RANGE];
    if (shadow->registered) {
        for (unsigned cell = 0; cell < CELLS; cell++)
            set_root(shadow, REGISTERED_RANGE, cell, NOBODY, 0);
        roots_remove((void *)range, (void *)(range + CELLS));
    } else {
        roots_add((void *)range, (void *)(range + CELLS));
    }
    shadow->registered = !shadow->registered;
    reach(shadow);
}

struct part {
    struct input input;
    int depth;
};
static void *thread_main(void *argument)
{
    struct part part = *(struct part *)argument;
    free(argument);
    run_sequence(part.input, part.depth);
    return NULL;
}

static struct input cut_off(struct input *input)
{
    size_t length = next_byte(input) * 4, left = (size_t)(input->end - input->at);
    struct input part = {input->at, input->at + (length < left ? length : left)};
    input->at = part.end;
    return part;
}

static void begin_thread(struct shadow *shadow, struct input *input)
{
    if (shadow->depth > 1 || shadow->thread_count == MOST_THREADS)
        return;
    struct part *part = malloc(sizeof *part);
    WANT(part != NULL, "no memory for a part");
    *part = (struct part){cut_off(input), shadow->depth + 1};
    int error = thread_begin(&shadow->threads[shadow->thread_count], thread_main, part);
    WANT(error == 0, "no thread: %s", strerror(error));
    shadow->thread_count++;
}

static void join_threads(struct shadow *shadow)
{
    while (shadow->thread_count > 0)
        thread_join(shadow->threads[--shadow->thread_count]);
}

static void some_operations(struct shadow *shadow, struct input input);

struct counts counts;

static void fork_some(struct shadow *shadow, struct input *input)
{
    struct input part = cut_off(input);
    if (shadow->depth > 1)
        return;
    pid_t child = fork();
    __atomic_add_fetch(&counts.forks, 1, __ATOMIC_RELAXED);
    WANT(child >= 0, "no child: %s", strerror(errno));
    if (child == 0) {
        shadow->thread_count = 0;
        shadow->depth = 2;
        some_operations(shadow, part);
        collect(0);
        reach(shadow);
        check_all(shadow);
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) != child)
        WANT(errno == EINTR, "no child to wait for");
    WANT(status == 0, "a child ended with %#x", (unsigned)status);
}

static void *wait_a_little(void *argument)
{
    struct timespec time = {0, 1000 * (long)*(unsigned *)argument};
    nanosleep(&time, NULL);
    return NULL;
}

static void one_operation(struct shadow *shadow, struct input *input)
{
    unsigned way = next_byte(input), detail;
    look_at_finalizers(shadow);
    switch (way % 32) {
    default: create(shadow, input); break;
    case 10:
    case 11:
    case 12: {
        int index = some_node(shadow, input);
        if (index != NOBODY)
            attach(shadow, index, input);
        reach(shadow);
        break;
    }
    case 13:
    case 14:
    case 15: cut(shadow, input); break;
    case 16: resize_some(shadow, input); break;
    case 17: free_some(shadow, input); break;
    case 18: link_some(shadow, input); break;
    case 19: change_link(shadow, input); break;
    case 20:
    case 21:
        look_at(shadow, &shadow->references[next_below(input, REFERENCES)], way / 32 % 2);
        break;
    case 22: {
        int index = some_node(shadow, input);
        detail = next_byte(input);
        if (index != NOBODY && !shapes[shadow->nodes[index].shape].pinned)
            add_finalizer(shadow, index, detail % 4, detail / 4 % 2);
        break;
    }
    case 23:
        garbage(input);
        break;
    case 24:
        collect(next_byte(input));
        check_all(shadow);
        break;
    case 25: change_places(shadow); break;
    case 26:
        /* Seldom: these take a thousand times as long as the others. */
        if (way / 32 == 0)
            fork_some(shadow, input);
        else if (way / 32 < 4)
            begin_thread(shadow, input);
        else if (way / 32 == 4)
            join_threads(shadow);
        break;
    case 27:
        detail = next_byte(input);
        blocked(wait_a_little, &detail);
        break;
    case 28: finalizers_run(); break;
    case 29:
    case 30:
    case 31: own_operation(shadow, input); break;
    }
}

static void some_operations(struct shadow *shadow, struct input input)
{
    while (input.at < input.end) {
        one_operation(shadow, &input);
        __atomic_add_fetch(&counts.operations, 1, __ATOMIC_RELAXED);
    }
}

static void end_of(struct shadow *shadow)
{
    join_threads(shadow);
    own_end(shadow);
    look_at_finalizers(shadow);
    check_all(shadow);
    for (int at = 0; at < REFERENCES; at++)
        look_at(shadow, &shadow->references[at], 0);
    leave_finalizers(shadow);
    for (int at = 0; at < REFERENCES; at++)
        if (shadow->references[at].strength != NO_REFERENCE)
            drop_references(shadow, shadow->references[at].node);
    for (int index = 0; index < NODES; index++)
        if (shadow->nodes[index].hidden != 0 && shapes[shadow->nodes[index].shape].pinned)
            free_node(shadow, index);
    if (shadow->registered)
        change_places(shadow);
}

void run_sequence(struct input input, int depth)
{
    struct shadow *shadow = calloc(1, sizeof *shadow);
    WANT(shadow != NULL, "no memory for a shadow");
    shadow->depth = depth;
    volatile uintptr_t cells[CELLS] = {0};
    int number = 0, wanted = 0;
    while (!__atomic_compare_exchange_n(&static_used[number], &wanted, 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
        wanted = 0;
        number = (number + 1) % STATIC_SHADOWS;
    }
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WANT(pages != MAP_FAILED, "no memory for places");
    shadow->link_cells = (uintptr_t *)pages;
    shadow->places[ON_STACK] = cells;
    shadow->places[IN_STATIC] = static_cells[number];
    shadow->places[IN_THREAD] = thread_cells;
    shadow->places[REGISTERED_RANGE] = (volatile uintptr_t *)(pages + PAGE);
    shadow->places[UNCOLLECTABLE] = uncollectable(CELLS * sizeof(uintptr_t));
    WANT(shadow->places[UNCOLLECTABLE] != NULL, "no memory for a place");
    for (unsigned place = 0; place < PLACES; place++)
        for (unsigned cell = 0; cell < CELLS; cell++) {
            shadow->places[place][cell] = 0;
            shadow->root[place][cell] = NOBODY;
        }
    some_operations(shadow, input);
    end_of(shadow);
    uncollectable_free((void *)shadow->places[UNCOLLECTABLE]);
    for (unsigned cell = 0; cell < CELLS; cell++)
        cells[cell] = static_cells[number][cell] = thread_cells[cell] = 0;
    munmap(pages, 2 * PAGE);
    __atomic_store_n(&static_used[number], 0, __ATOMIC_RELEASE);
    free(shadow);
}
