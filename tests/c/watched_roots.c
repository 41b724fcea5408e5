/* Large roots while cycles run beside the program: a thread moves the only pointers to objects
   about in static data, in a registered range, on a deep stack and in the data of a library, so
   that a collector that misses a store loses an object. Meanwhile the range is mapped anew,
   protected, taken out and put back, split, the process forked, the library unloaded and loaded
   again; and a deep stack grows and shrinks. The main thread collects all the time: itself, and
   between by making garbage, which brings minor cycles. Usage: watched_roots PLUGIN [GARBAGE]:
   that many pieces of it for each collection. */
#include "check.h"
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#ifndef SLOTS /* more: a root is read in pieces, or left to the child that marks */
#define SLOTS (1 << 15)
#endif
#ifndef SHARING /* of the registered range: a child has no copy of what is shared */
#define SHARING MAP_PRIVATE
#endif

enum { BYTES = SLOTS * sizeof(void *), OBJECTS = SLOTS / 16, MOVES = 8000000,
    PAGE = 4096, FRAME_SLOTS = 2048, LEVELS = 300 };

struct object {
    size_t number, inverse;
    struct object *itself;
};

typedef struct object **slots;

static struct object *in_data[SLOTS];
static slots mapped;
static const char *plugin;
static int running;

static struct object *make(size_t number)
{
    struct object *object = neap_alloc(sizeof *object);
    *object = (struct object){number, ~number, object};
    return object;
}

static int is_right(const struct object *object)
{
    return object->itself == object && object->inverse == ~object->number &&
        object->number < OBJECTS;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Moves pointers about in `table`, replaces some, makes garbage; 0 if one was wrong. Its frame
   holds none when it returns. */
static APART int move(slots table, int moves, uint64_t *state)
{
    for (int turn = 0; turn < moves; turn++) {
        size_t from = next(state) % SLOTS, to = next(state) % SLOTS;
        if (table[from] == NULL || table[to] != NULL)
            continue;
        if (!is_right(table[from]))
            return 0;
        if (turn % 4 == 0) {
            table[to] = make(table[from]->number);
        } else
            table[to] = table[from];
        table[from] = NULL;
    }
    return 1;
}

static APART void fill(slots table)
{
    memset(table, 0, BYTES);
    for (size_t number = 0; number < OBJECTS; number++)
        table[number * 16] = make(number);
}

/* Whether each object is there once. */
static APART int complete(slots table)
{
    static __thread unsigned char seen[OBJECTS];
    size_t count = 0;
    memset(seen, 0, sizeof seen);
    for (size_t slot = 0; slot < SLOTS; slot++)
        if (table[slot] != NULL) {
            if (!is_right(table[slot]) || seen[table[slot]->number]++)
                return 0;
            count++;
        }
    return count == OBJECTS;
}

/* Has `disturb` take the pointers in `table` away and put them back, between the moves. */
static void exercise(slots table, slots (*disturb)(slots, slots), int times)
{
    uint64_t state = (uintptr_t)table;
    slots aside = neap_alloc_uncollectable(BYTES);
    fill(table);
    for (int turn = 0; turn < times; turn++) {
        if (!move(table, MOVES / times, &state)) {
            CHECK(!"an object is what it was");
            break;
        }
        table = disturb(table, aside);
    }
    CHECK(complete(table));
    memset(table, 0, BYTES);
    neap_free(aside);
}

static slots leave(slots table, slots aside)
{
    (void)aside;
    return table;
}

static void copy(slots to, slots from)
{
    memcpy(to, from, BYTES);
}

static slots map_anew(slots table, slots aside)
{
    copy(aside, table);
    CHECK(mmap((char *)table + 5 * PAGE, BYTES / 2, PROT_READ | PROT_WRITE, SHARING
        | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    copy(table, aside);
    memset(aside, 0, BYTES);
    return table;
}

static slots protect(slots table, slots aside)
{
    (void)aside;
    char *part = (char *)table + 7 * PAGE;
    CHECK_EQUAL(mprotect(part, 9 * PAGE, PROT_READ), 0);
    CHECK_EQUAL(mprotect(part, 9 * PAGE, PROT_READ | PROT_WRITE), 0);
    return table;
}

static slots take_out(slots table, slots aside)
{
    copy(aside, table);
    CHECK_EQUAL(neap_roots_remove(table, table + SLOTS), NEAP_OK);
    /* Not unmapped: another thread could get the addresses, and lose them in the next call. */
    CHECK(mmap(table, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
          MAP_FAILED);
    CHECK(mmap(table, BYTES, PROT_READ | PROT_WRITE, SHARING | MAP_ANONYMOUS | MAP_FIXED, -1,
        0) != MAP_FAILED);
    CHECK_EQUAL(neap_roots_add(table, table + SLOTS), NEAP_OK);
    copy(table, aside);
    memset(aside, 0, BYTES);
    return table;
}

/* The root is several for a moment. */
static slots split(slots table, slots aside)
{
    (void)aside;
    size_t slot = SLOTS / 2;
    while (table[slot] != NULL)
        slot++;
    CHECK_EQUAL(neap_roots_remove(table + slot, table + slot + 1), NEAP_OK);
    CHECK_EQUAL(neap_roots_add(table, table + SLOTS), NEAP_OK);
    return table;
}

static slots fork_off(slots table, slots aside)
{
    (void)aside;
    pid_t child = fork();
    if (child == 0) {
        uint64_t state = (uint64_t)getpid();
        int right = 1;
        for (int turn = 0; turn < 3 && right; turn++)
            right = move(table, 2000, &state) && neap_collect();
        _exit(right && complete(table) ? 0 : 1);
    }
    CHECK(succeeded(child));
    return table;
}

static void *library;

static slots load(void)
{
    library = dlopen(plugin, RTLD_NOW);
    slots table = library == NULL ? NULL : dlsym(library, "plugin_large");
    if (table == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return table;
}

static slots load_again(slots table, slots aside)
{
    copy(aside, table);
    CHECK_EQUAL(dlclose(library), 0);
    table = load();
    copy(table, aside);
    memset(aside, 0, BYTES);
    return table;
}

/* Frames with pointers in them, `depth` of them at most; each is checked when it is the last. */
static APART int descend(size_t depth, uint64_t *state)
{
    struct object *frame[FRAME_SLOTS] = {0};
    for (size_t number = 0; number < FRAME_SLOTS / 64; number++)
        frame[number * 64 + next(state) % 64] = make(number);
    int right = depth == 0 || descend(depth - 1, state);
    /* Down again from here, to places where frames were before. */
    if (right && depth > 0 && next(state) % 16 == 0)
        right = descend(next(state) % depth / 4, state);
    for (size_t slot = 0; slot < FRAME_SLOTS && right; slot++)
        right = frame[slot] == NULL ||
            (is_right(frame[slot]) && frame[slot]->number == slot / 64);
    return right;
}

static void grow_and_shrink(void)
{
    uint64_t state = 1;
    int right = 1;
    for (int turn = 0; turn < 1000 && right; turn++)
        right = descend(next(&state) % LEVELS, &state);
    CHECK(right);
}

static void *work(void *which)
{
    switch (*(const char *)which) {
    case 's': exercise(in_data, leave, 10); break;
    case 'r':
        exercise(mapped, leave, 5);
        exercise(mapped, map_anew, 2000);
        exercise(mapped, protect, 200);
        exercise(mapped, take_out, 400);
        exercise(mapped, split, 2000);
        break;
    case 'f': exercise(in_data, fork_off, 10); break;
    case 'd': exercise(alloca(BYTES), leave, 10); break;
    case 'g': grow_and_shrink(); break;
    case 'l': exercise(load(), load_again, 400); break;
    }
    __atomic_store_n(&running, 0, __ATOMIC_RELEASE);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 || argc == 3);
    int garbage = argc == 3 ? atoi(argv[2]) : 0;
    plugin = argv[1];
    mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, SHARING | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    CHECK_EQUAL(neap_roots_add(mapped, mapped + SLOTS), NEAP_OK);
    for (const char *which = "srfdgl"; *which != 0; which++) {
        pthread_t thread;
        running = 1;
        CHECK_EQUAL(pthread_create(&thread, NULL, work, (void *)which), 0);
        while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
            CHECK(neap_collect());
            churn(sizeof(struct object), garbage);
        }
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        /* The first thread's own deep stack, too. */
        if (*which == 'd')
            work((void *)which);
    }
    return finish();
}
