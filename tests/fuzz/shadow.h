/* shadow.h: the shadow heap of the fuzzed sequences: what is known of each object, outside the heap
   and without keeping it alive, and what has to hold. Invariant: an object that the shadow reaches
   from its roots is there, with its contents; what it does not reach may go at any time, but is
   whole as long as a weak reference gives it. A shadow belongs to one thread. Included by every
   file of this folder. */
#ifndef SHADOW_H
#define SHADOW_H
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NODES = 160,
    EDGES = 4,       /* pointers that one object holds at most */
    PLACES = 5,      /* sorts of memory whose words are roots */
    CELLS = 8,       /* words of a place */
    REFERENCES = 32,
    RECORDS = 512,   /* finalizers of the process at once */
    MOST_THREADS = 3,
    NOBODY = -1,
};

/* The bytes that decide; at their end everything is 0. */
struct input {
    const uint8_t *at, *end;
};
static inline unsigned next_byte(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}
static inline unsigned next_below(struct input *input, unsigned bound)
{
    return next_byte(input) % bound;
}
static inline unsigned next_short(struct input *input)
{
    unsigned low = next_byte(input);
    return low | next_byte(input) << 8;
}

/* Says what is wrong and ends the process. */
#define WANT(condition, ...) ((condition) ? (void)0 : broken(__FILE__, __LINE__, __VA_ARGS__))
void broken(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

/* A finalizer, as its callback sees it; of a pool. */
struct record {
    int state;              /* atomic: one of the following */
    unsigned resurrects;
    uint32_t id;
    size_t bytes;
    unsigned pointers;
    uint32_t word[EDGES];
};
enum { UNUSED, REGISTERED, RAN, ORPHAN };

struct node {
    uintptr_t hidden;       /* the complement of its address; 0: no node */
    size_t bytes;
    uint32_t id;
    unsigned shape, pointers;
    uint32_t word[EDGES];   /* which of its words may hold pointers */
    int edge[EDGES];        /* the nodes that they point to */
    size_t offset[EDGES];   /* how far into them */
    int live, kept, was_lost;
    struct record *record;
};

/* What refers to a node from outside the heap. */
enum strength {
    NO_REFERENCE,
    SHORT_LINK,
    LONG_LINK,
    STRONG,                 /* keeps its node; what stands above gives it as long as it is there */
    WEAK,
    WEAK_LONG,
    EPHEMERON,              /* keeps `value` while `node` lives */
    NO_WAY_BACK,            /* neither keeps nor gives */
};
struct reference {
    enum strength strength;
    int node, value;
    int was_lost;           /* the node was not reachable since: it may be cleared */
    uint64_t handle;        /* the interface's */
};

struct shadow {
    struct node nodes[NODES];
    struct reference references[REFERENCES];
    volatile uintptr_t *places[PLACES];
    int root[PLACES][CELLS];
    uintptr_t *link_cells;  /* a word for each reference, outside all roots */
    int registered;         /* the place of that sort is a root */
    int disabled;           /* collections that have to be enabled again */
    int limited;            /* memory may be refused */
    int depth;              /* forks and threads above this one */
    pthread_t threads[MOST_THREADS];
    int thread_count;
};

/* ---- shadow.c ---- */
struct node *node_of(struct shadow *shadow, int index);
uintptr_t address_of(const struct node *node);
uint64_t pattern(uint32_t id, size_t word);
/* The number of the object whose contents these are; 0 for others. */
uint32_t id_in(const uint64_t *words, size_t count);
/* Fills a new object and enters it: its node's index. */
int enter(struct shadow *shadow, unsigned shape, void *object, size_t bytes, int zeroed);
/* As it was moved to another place and size. */
void moved(struct shadow *shadow, int index, void *object, size_t bytes);
/* Finds out again what is reachable; forgets what nothing can give back. */
void reach(struct shadow *shadow);
void check_node(struct shadow *shadow, int index);
void check_all(struct shadow *shadow);
void set_edge(struct shadow *shadow, int from, unsigned edge, int to, size_t offset);
void set_root(struct shadow *shadow, unsigned place, unsigned cell, int to, size_t offset);
/* One that is reachable, by chance; NOBODY if there is none. */
int some_node(struct shadow *shadow, struct input *input);
/* Looks at a reference: cleared wrongly, or another object's? If it gives a node that was lost, and
   `take` is not 0, that is reachable again. */
void look_at(struct shadow *shadow, struct reference *reference, int take);
/* A reference that is not used; null if there is none. */
struct reference *free_reference(struct shadow *shadow);
/* Takes away all references to a node that is about to be freed or moved. */
void drop_references(struct shadow *shadow, int index);
/* Frees a node's object: nothing may point to it any more. */
void free_node(struct shadow *shadow, int index);

/* ---- finalize.c ---- */
extern void *volatile resurrected[RECORDS];
/* What the interface's callback calls. */
void finalizer_runs(void *object, struct record *record);
void add_finalizer(struct shadow *shadow, int index, unsigned order, int resurrects);
/* Takes it back where that is possible; 0 if it may run yet. */
int take_finalizer(struct node *node);
/* Brings back what finalizers gave back. */
void look_at_finalizers(struct shadow *shadow);
void leave_finalizers(struct shadow *shadow);

/* ---- sequence.c ---- */
void run_sequence(struct input input, int depth);
/* What all sequences of the process did so far; children of forks count for themselves. An
   operation makes one call of the interface at least; what it allocates only to drop it is counted
   besides. */
extern struct counts {
    unsigned long operations, allocations, forks;
} counts;

/* ---- on_gc.c, on_neap.c: the interface ---- */
struct shape {
    const char *name;
    unsigned scanned : 1, pinned : 1, moves : 1, starts : 1;
    unsigned (*pointers)(size_t words, uint32_t *word);
};
extern const struct shape shapes[];
extern const unsigned shape_count;
void interface_start(void);
unsigned long interface_cycles(void);
void *allocate(unsigned shape, size_t bytes, unsigned detail);
/* Whether it was zeroed as documented. */
int is_zeroed(unsigned shape);
void *resize(unsigned shape, void *object, size_t bytes);
void release(unsigned shape, void *object);
void *base_of(void *address);
size_t size_of(void *object);
void *uncollectable(size_t bytes);
void uncollectable_free(void *object);
void collect(unsigned how);
void roots_add(void *low, void *high);
void roots_remove(void *low, void *high);
void link_add(void **cell, void *object, int is_long);
void link_remove(void **cell, int is_long);
void link_move(void **from, void **to, int is_long);
void *link_read(void **cell);
void finalizer_set(void *object, struct record *record, unsigned order);
void finalizers_run(void);
/* What a reference that is no link gives; for an ephemeron the value, and the key. */
void *reference_read(struct reference *reference, void **key);
void reference_drop(struct reference *reference);
void blocked(void *(*function)(void *), void *argument);
int thread_begin(pthread_t *thread, void *(*function)(void *), void *argument);
void thread_join(pthread_t thread);
/* What only this interface has. */
void own_operation(struct shadow *shadow, struct input *input);
/* Leaves what own operations began. */
void own_end(struct shadow *shadow);
#endif
