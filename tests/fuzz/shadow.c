/* The shadow heap: objects, what points to what, what has to be there. Invariant: shadow.h states
   it. Called by the thread that the shadow belongs to. */
#include "shadow.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From this size on, only some words are written and looked at. */
enum { SPARSE = 16384, STRIDE = 509 };
/* What no address begins with. */
static const uint64_t tag = UINT64_C(0xF1D5) << 48;
static uint32_t last_id;

void broken(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "fuzz: %s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

struct node *node_of(struct shadow *shadow, int index)
{
    WANT(index >= 0 && index < NODES && shadow->nodes[index].hidden != 0, "no node %d", index);
    return &shadow->nodes[index];
}

uintptr_t address_of(const struct node *node)
{
    return ~node->hidden;
}

uint64_t pattern(uint32_t id, size_t word)
{
    return tag | (uint64_t)id << 16 | ((id * 31 + word * 7919) & 0xffff);
}

uint32_t id_in(const uint64_t *words, size_t count)
{
    for (size_t at = 0; at < count; at++)
        if (words[at] >> 48 == tag >> 48)
            return (uint32_t)(words[at] >> 16);
    return 0;
}

static size_t next_word(size_t word, size_t words)
{
    return words * 8 < SPARSE || word < 8 || word + 8 >= words ? word + 1
        : word + STRIDE < words - 8                           ? word + STRIDE
                                                              : words - 8;
}

/* Which edge lies in a word of the node. */
static int edge_at(const struct node *node, size_t word)
{
    for (unsigned edge = 0; edge < node->pointers; edge++)
        if (node->word[edge] == word)
            return (int)edge;
    return NOBODY;
}

static uint64_t expected(struct shadow *shadow, const struct node *node, size_t word)
{
    int edge = edge_at(node, word);
    if (edge == NOBODY)
        return pattern(node->id, word);
    if (node->edge[edge] == NOBODY)
        return 0;
    return address_of(node_of(shadow, node->edge[edge])) + node->offset[edge];
}

static size_t first_word(const struct node *node)
{
    return shapes[node->shape].starts;
}

/* The bytes behind the last whole word begin here. */
static size_t tail_of(const struct node *node)
{
    size_t words = node->bytes / 8;
    return (words > first_word(node) ? words : first_word(node)) * 8;
}

static void fill(struct shadow *shadow, const struct node *node, size_t from)
{
    volatile uint64_t *words = (volatile uint64_t *)address_of(node);
    size_t count = node->bytes / 8;
    for (size_t word = from; word < count; word = next_word(word, count))
        words[word] = expected(shadow, node, word);
    for (size_t byte = tail_of(node); byte < node->bytes; byte++)
        ((volatile uint8_t *)words)[byte] = (uint8_t)(node->id + byte);
}

int enter(struct shadow *shadow, unsigned shape, void *object, size_t bytes, int zeroed)
{
    int index = 0;
    while (index < NODES && shadow->nodes[index].hidden != 0)
        index++;
    WANT(index < NODES, "the table of nodes is full");
    struct node *node = &shadow->nodes[index];
    *node = (struct node){
        .hidden = ~(uintptr_t)object,
        .bytes = bytes,
        .id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED),
        .shape = shape,
        .live = 1,
    };
    size_t words = bytes / 8;
    if (shapes[shape].scanned && words > 0)
        node->pointers = shapes[shape].pointers(words, node->word);
    for (unsigned edge = 0; edge < EDGES; edge++)
        node->edge[edge] = NOBODY;
    const uint64_t *contents = object;
    for (size_t word = first_word(node); zeroed && word < words; word = next_word(word, words))
        WANT(contents[word] == 0, "%s of %zu bytes at %p: word %zu is new and %#lx",
             shapes[shape].name, bytes, object, word, contents[word]);
    fill(shadow, node, first_word(node));
    return index;
}

void check_node(struct shadow *shadow, int index)
{
    const struct node *node = node_of(shadow, index);
    void *object = (void *)address_of(node);
    const uint64_t *contents = object;
    size_t words = node->bytes / 8;
    const char *name = shapes[node->shape].name;
    size_t within = node->bytes == 0 ? 0 : (node->id * 40503u) % node->bytes;
    void *base = base_of((char *)object + within);
    WANT(base == base_of(object) && base != NULL,
         "%s of %zu bytes at %p: it begins at %p, by byte %zu of it at %p", name, node->bytes,
         object, base_of(object), within, base);
    WANT(size_of(object) >= node->bytes, "%s of %zu bytes at %p has only %zu", name, node->bytes,
         object, size_of(object));
    for (size_t word = first_word(node); word < words; word = next_word(word, words))
        WANT(contents[word] == expected(shadow, node, word),
             "%s %u of %zu bytes at %p: word %zu is %#lx, not %#lx", name, node->id, node->bytes,
             object, word, contents[word], expected(shadow, node, word));
    for (size_t byte = tail_of(node); byte < node->bytes; byte++)
        WANT(((uint8_t *)object)[byte] == (uint8_t)(node->id + byte),
             "%s %u of %zu bytes at %p: byte %zu is %#x", name, node->id, node->bytes, object,
             byte, ((uint8_t *)object)[byte]);
}

void check_all(struct shadow *shadow)
{
    for (int index = 0; index < NODES; index++)
        if (shadow->nodes[index].hidden != 0 && shadow->nodes[index].live)
            check_node(shadow, index);
    for (unsigned place = 0; place < PLACES; place++)
        for (unsigned cell = 0; cell < CELLS; cell++)
            WANT((shadow->root[place][cell] == NOBODY) == (shadow->places[place][cell] == 0),
                 "root %u of place %u was changed", cell, place);
}

void moved(struct shadow *shadow, int index, void *object, size_t bytes)
{
    struct node *node = node_of(shadow, index);
    size_t before = node->bytes;
    node->hidden = ~(uintptr_t)object;
    /* What was kept has to be what it was: the bytes behind it are new. */
    node->bytes = bytes < before ? bytes / 8 * 8 : before / 8 * 8;
    for (unsigned edge = 0; edge < node->pointers; edge++)
        if (node->edge[edge] == index)
            set_edge(shadow, index, edge, index, 0);
    if (node->bytes < SPARSE && before < SPARSE)
        check_node(shadow, index);
    node->bytes = bytes;
    fill(shadow, node, first_word(node));
    for (int from = 0; from < NODES; from++)
        for (unsigned edge = 0; edge < shadow->nodes[from].pointers; edge++)
            if (shadow->nodes[from].hidden != 0 && shadow->nodes[from].edge[edge] == index)
                set_edge(shadow, from, edge, index, 0);
    for (unsigned place = 0; place < PLACES; place++)
        for (unsigned cell = 0; cell < CELLS; cell++)
            if (shadow->root[place][cell] == index)
                set_root(shadow, place, cell, index, 0);
}

/* Sets `live` (or `kept`) of a node and of all that it leads to. */
static void spread(struct shadow *shadow, int index, int live)
{
    struct node *node = node_of(shadow, index);
    if (live ? node->live : node->live || node->kept)
        return;
    *(live ? &node->live : &node->kept) = 1;
    for (unsigned edge = 0; edge < node->pointers; edge++)
        if (node->edge[edge] != NOBODY)
            spread(shadow, node->edge[edge], live);
    for (int at = 0; at < REFERENCES; at++) {
        const struct reference *reference = &shadow->references[at];
        /* A finalizer may have brought the key back, when the ephemeron had expired. */
        if (reference->strength == EPHEMERON && reference->node == index &&
            reference->value != NOBODY)
            spread(shadow, reference->value, live && !reference->was_lost);
    }
}

void reach(struct shadow *shadow)
{
    for (int index = 0; index < NODES; index++)
        shadow->nodes[index].live = shadow->nodes[index].kept = 0;
    for (unsigned place = 0; place < PLACES; place++)
        for (unsigned cell = 0; cell < CELLS; cell++)
            if (shadow->root[place][cell] != NOBODY)
                spread(shadow, shadow->root[place][cell], 1);
    for (int at = 0; at < REFERENCES; at++)
        if (shadow->references[at].strength == STRONG)
            spread(shadow, shadow->references[at].node, 1);
    for (int index = 0; index < NODES; index++)
        if (shadow->nodes[index].hidden != 0 && shapes[shadow->nodes[index].shape].pinned)
            spread(shadow, index, 1);
    for (int at = 0; at < REFERENCES; at++) {
        struct reference *reference = &shadow->references[at];
        if (reference->strength == NO_REFERENCE || node_of(shadow, reference->node)->live)
            continue;
        reference->was_lost = 1;
        if (reference->strength != NO_WAY_BACK)
            spread(shadow, reference->node, 0);
    }
    for (int index = 0; index < NODES; index++) {
        struct node *node = &shadow->nodes[index];
        if (node->hidden != 0 && !node->live && node->record != NULL)
            spread(shadow, index, 0);
    }
    for (int index = 0; index < NODES; index++) {
        struct node *node = &shadow->nodes[index];
        if (node->hidden == 0 || node->live)
            continue;
        node->was_lost = 1;
        if (!node->kept) {
            for (int at = 0; at < REFERENCES; at++)
                if (shadow->references[at].strength != NO_REFERENCE &&
                    shadow->references[at].node == index)
                    shadow->references[at].strength = NO_REFERENCE;
            node->hidden = 0;
        }
    }
}

void set_edge(struct shadow *shadow, int from, unsigned edge, int to, size_t offset)
{
    struct node *node = node_of(shadow, from);
    node->edge[edge] = to;
    node->offset[edge] = offset;
    ((volatile uint64_t *)address_of(node))[node->word[edge]] =
        expected(shadow, node, node->word[edge]);
}

void set_root(struct shadow *shadow, unsigned place, unsigned cell, int to, size_t offset)
{
    shadow->root[place][cell] = to;
    shadow->places[place][cell] = to == NOBODY ? 0 : address_of(node_of(shadow, to)) + offset;
}

int some_node(struct shadow *shadow, struct input *input)
{
    int start = (int)next_below(input, NODES);
    for (int at = 0; at < NODES; at++) {
        int index = (start + at) % NODES;
        if (shadow->nodes[index].hidden != 0 && shadow->nodes[index].live)
            return index;
    }
    return NOBODY;
}

struct reference *free_reference(struct shadow *shadow)
{
    for (int at = 0; at < REFERENCES; at++)
        if (shadow->references[at].strength == NO_REFERENCE)
            return &shadow->references[at];
    return NULL;
}

static void **cell_of(struct shadow *shadow, const struct reference *reference)
{
    return (void **)&shadow->link_cells[reference - shadow->references];
}

static int is_link(const struct reference *reference)
{
    return reference->strength == SHORT_LINK || reference->strength == LONG_LINK;
}

void look_at(struct shadow *shadow, struct reference *reference, int take)
{
    if (reference->strength == NO_REFERENCE || reference->strength == NO_WAY_BACK)
        return;
    struct node *node = node_of(shadow, reference->node);
    void *key = NULL, *object;
    if (is_link(reference)) {
        object = link_read(cell_of(shadow, reference));
    } else {
        object = reference_read(reference, &key);
        if (reference->strength == EPHEMERON) {
            WANT(key != NULL || object == NULL, "an ephemeron without its key has a value");
            WANT(key == NULL || reference->value == NOBODY ||
                     object == (void *)address_of(node_of(shadow, reference->value)),
                 "an ephemeron has another value");
            object = key;
        }
    }
    if (object == NULL) {
        WANT(!node->live || reference->was_lost, "a reference of strength %d to %s %u, which lives,"
             " was cleared", reference->strength, shapes[node->shape].name, node->id);
        if (!is_link(reference))
            reference_drop(reference);
        reference->strength = NO_REFERENCE;
        reach(shadow);
        return;
    }
    WANT(object == (void *)address_of(node), "a reference of strength %d gives %p, not %p",
         reference->strength, object, (void *)address_of(node));
    if (!node->live && take) {
        set_root(shadow, 0, 0, reference->node, 0);
        reference->was_lost = 0;
        reach(shadow);
        check_all(shadow);
    } else if (!node->live) {
        check_node(shadow, reference->node);
    }
    /* What was given is alive until here. */
    __asm__ volatile("" : : "r"(object), "r"(key) : "memory");
}

void drop_references(struct shadow *shadow, int index)
{
    for (int at = 0; at < REFERENCES; at++) {
        struct reference *reference = &shadow->references[at];
        if (reference->strength == NO_REFERENCE ||
            (reference->node != index &&
             (reference->strength != EPHEMERON || reference->value != index)))
            continue;
        if (is_link(reference))
            link_remove(cell_of(shadow, reference), reference->strength == LONG_LINK);
        else
            reference_drop(reference);
        reference->strength = NO_REFERENCE;
    }
}

void free_node(struct shadow *shadow, int index)
{
    struct node *node = node_of(shadow, index);
    /* Nothing else keeps it until it is freed. */
    void *volatile object = (void *)address_of(node);
    for (int from = 0; from < NODES; from++) {
        const struct node *other = &shadow->nodes[from];
        for (unsigned edge = 0; other->hidden != 0 && edge < other->pointers; edge++)
            if (other->edge[edge] == index) {
                if (!other->live)
                    return;
                set_edge(shadow, from, edge, NOBODY, 0);
            }
    }
    for (unsigned place = 0; place < PLACES; place++)
        for (unsigned cell = 0; cell < CELLS; cell++)
            if (shadow->root[place][cell] == index)
                set_root(shadow, place, cell, NOBODY, 0);
    drop_references(shadow, index);
    if (take_finalizer(node)) {
        unsigned shape = node->shape;
        node->hidden = 0;
        release(shape, object);
    }
}
