/* What gc_disclaim.h says of procedures that are asked before an object goes: parents before
   children, mark_from_all, what GC_is_marked says inside, weak maps that are built on it, and what
   it has to do with GC_free, GC_realloc and finalizers. */
#include "check.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_mark.h>
#include <pthread.h>

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

static int new_kind(GC_disclaim_proc procedure, int mark_from_all)
{
    int kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    GC_register_disclaim_proc(kind, procedure, mark_from_all);
    return kind;
}

/* Two collections: libgc asks for what one has found by the time the next has begun. */
static APART void collect_twice(void)
{
    for (int turn = 0; turn < 2; turn++) {
        clear_stack();
        GC_gcollect();
        GC_invoke_finalizers();
    }
}

/* A graph of nodes with closures: what a node's finalizer reaches is as it was, also where its
   children die with it. */
enum { WHOLE = 0x600D, FINALIZED = 0xDEAD };
struct node { struct node *left, *right; long state, sum; };
static int nodes_finalized, nodes_wrong;

static void finalize_node(void *object, void *data)
{
    struct node *node = object;
    long sum = 1;
    for (int side = 0; side < 2; side++) {
        struct node *child = side ? node->right : node->left;
        if (child && child->state != WHOLE)
            __atomic_add_fetch(&nodes_wrong, 1, __ATOMIC_RELAXED);
        sum += child ? child->sum : 0;
    }
    if (node->state != WHOLE || node->sum != sum || data != &nodes_wrong || !GC_base(object))
        __atomic_add_fetch(&nodes_wrong, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&nodes_finalized, 1, __ATOMIC_RELAXED);
    *node = (struct node){NULL, NULL, FINALIZED, 0};
}

static void *change_graph(void *number)
{
    enum { HELD = 500, TURNS = 100000 };
    static const struct GC_finalizer_closure closure = {finalize_node, &nodes_wrong};
    struct node *held[HELD] = {NULL};
    unsigned seed = 77 + (unsigned)(intptr_t)number;
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned at = next_random(&seed) % HELD;
        struct node *node = held[at];
        if (next_random(&seed) % 5 < 2) {
            struct node *left = held[next_random(&seed) % HELD],
                *right = held[next_random(&seed) % HELD];
            node = GC_finalized_malloc(sizeof *node, &closure);
            node->left = left;
            node->right = right;
            node->sum = 1 + (left ? left->sum : 0) + (right ? right->sum : 0);
            node->state = WHOLE;
            held[at] = node;
        } else if (node) {
            held[at] = next_random(&seed) % 2 ? node->left : node->right;
        }
        for (node = held[next_random(&seed) % HELD]; node; node = node->right)
            if (node->state != WHOLE)
                __atomic_add_fetch(&nodes_wrong, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void parents_before_children(void)
{
    pthread_t threads[3];
    for (intptr_t index = 0; index < 3; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, change_graph, (void *)index), 0);
    for (int index = 0; index < 3; index++)
        CHECK_EQUAL(pthread_join(threads[index], NULL), 0);
    collect();
    CHECK(nodes_finalized > 1000);
    CHECK_EQUAL(nodes_wrong, 0);
}

/* Chains. With mark_from_all one object of each goes in a collection, the first one first; without
   it all at once. They are short, for libgc does not ask in blocks that are nearly full. */
struct link { GC_word given_out; struct link *next; int *last_asked, number; };
enum { LENGTH = 4 };
static int asked_in_chains, out_of_order;

static int ask_link(void *object)
{
    struct link *link = object;
    if (!link->last_asked) /* libgc also asks for cells that hold no object */
        return 0;
    asked_in_chains++;
    out_of_order += link->number != *link->last_asked + 1;
    *link->last_asked = link->number;
    link->last_asked = NULL;
    return 0;
}

static APART void make_chains(int kind)
{
    static int last_asked[MANY];
    for (int index = 0; index < MANY; index++) {
        struct link *chain = NULL;
        last_asked[index] = -1;
        for (int number = LENGTH - 1; number >= 0; number--) {
            struct link *link = GC_generic_malloc(sizeof *link, kind);
            *link = (struct link){1, chain, &last_asked[index], number};
            chain = link;
        }
    }
    asked_in_chains = out_of_order = 0;
}

static void chains(void)
{
    make_chains(new_kind(ask_link, 1));
    for (int turns = 1; turns <= 2 * LENGTH + 4; turns += 2) {
        int before = asked_in_chains;
        collect_twice();
        CHECK(asked_in_chains - before <= 2 * MANY);
    }
    CHECK_EQUAL(out_of_order, 0);
    CHECK(asked_in_chains >= LENGTH * (MANY - STRAY));
    make_chains(new_kind(ask_link, 0));
    collect_twice();
    CHECK(asked_in_chains >= LENGTH * (MANY - STRAY));
}

/* What GC_is_marked says of the object, of what it alone points to, and of what somebody else
   holds. */
struct looker { GC_word given_out; void *child; GC_hidden_pointer held; int *counts; };
static int counts[4]; /* asked, object marked, child marked, held marked */
static void *volatile held_elsewhere[MANY];

static int look(void *object)
{
    struct looker *looker = object;
    if (!looker->counts)
        return 0;
    looker->counts[0]++;
    looker->counts[1] += GC_is_marked(object) != 0;
    looker->counts[2] += GC_is_marked(looker->child) != 0;
    looker->counts[3] += GC_is_marked(GC_REVEAL_POINTER(looker->held)) != 0;
    looker->counts = NULL;
    return 0;
}

static APART void make_lookers(int kind)
{
    memset(counts, 0, sizeof counts);
    /* What is made while a cycle runs is kept by it, marked or not. */
    GC_gcollect();
    GC_disable();
    for (int index = 0; index < MANY; index++) {
        struct looker *looker = GC_generic_malloc(sizeof *looker, kind);
        held_elsewhere[index] = GC_malloc(40);
        *looker = (struct looker){1, GC_malloc(40), GC_HIDE_POINTER(held_elsewhere[index]), counts};
    }
    GC_enable();
}

static void marks(void)
{
    for (int mark_from_all = 0; mark_from_all < 2; mark_from_all++) {
        make_lookers(new_kind(look, mark_from_all));
        collect_twice();
        CHECK_NEARLY_ALL(counts[0]);
        CHECK_EQUAL(counts[1], 0);
        if (mark_from_all)
            CHECK_EQUAL(counts[2], counts[0]);
        else
            CHECK(counts[2] <= STRAY);
        CHECK_EQUAL(counts[3], counts[0]);
    }
}

/* A set of pairs by contents, which holds its members hidden: threads that look one up while it is
   being asked for get it, and it stays. */
enum { BUCKETS = 64, ALIVE = 1 };
struct member { GC_word given_out; struct member *first, *second; long sum; };
struct entry { GC_hidden_pointer member; struct entry *next; };
static pthread_mutex_t bucket_locks[BUCKETS];
static struct entry *buckets[BUCKETS];
static int set_kind, added, found, removed, busy, rescued, set_wrong;

static unsigned bucket_of(const struct member *first, const struct member *second)
{
    uintptr_t mixed = ((uintptr_t)first >> 4) * 31 + ((uintptr_t)second >> 4) * 17;
    return (unsigned)(mixed ^ mixed >> 7) % BUCKETS;
}

static void *set_mark(void *object)
{
    GC_set_mark_bit(object);
    return NULL;
}

static struct member *intern(struct member *first, struct member *second)
{
    unsigned bucket = bucket_of(first, second);
    pthread_mutex_lock(&bucket_locks[bucket]);
    for (struct entry *entry = buckets[bucket]; entry; entry = entry->next) {
        struct member *member = GC_REVEAL_POINTER(entry->member);
        if (member->first == first && member->second == second) {
            GC_call_with_alloc_lock(set_mark, member);
            __atomic_add_fetch(&found, 1, __ATOMIC_RELAXED);
            pthread_mutex_unlock(&bucket_locks[bucket]);
            return member;
        }
    }
    struct member *member = GC_generic_malloc(sizeof *member, set_kind);
    *member = (struct member){ALIVE, first, second, 1 + (first ? first->sum : 0)
        + (second ? second->sum : 0)};
    struct entry *entry = GC_malloc(sizeof *entry);
    *entry = (struct entry){GC_HIDE_POINTER(member), buckets[bucket]};
    buckets[bucket] = entry;
    __atomic_add_fetch(&added, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&bucket_locks[bucket]);
    return member;
}

static int leave_set(void *object)
{
    struct member *member = object;
    if (member->given_out != ALIVE)
        return 0;
    unsigned bucket = bucket_of(member->first, member->second);
    if (pthread_mutex_trylock(&bucket_locks[bucket]) != 0) {
        busy++;
        return 1;
    }
    if (GC_is_marked(object)) {
        rescued++;
        pthread_mutex_unlock(&bucket_locks[bucket]);
        return 1;
    }
    struct entry **link = &buckets[bucket];
    while (*link && GC_REVEAL_POINTER((*link)->member) != object)
        link = &(*link)->next;
    set_wrong += *link == NULL;
    if (*link)
        *link = (*link)->next;
    member->given_out = 2;
    removed++;
    pthread_mutex_unlock(&bucket_locks[bucket]);
    return 0;
}

static void *use_set(void *number)
{
    enum { HELD = 100, TURNS = 30000 };
    struct member *held[HELD] = {NULL};
    unsigned seed = 99 + (unsigned)(intptr_t)number;
    for (int turn = 0; turn < TURNS; turn++) {
        /* members leave in the order of the graph, a few with each collection */
        if (turn % 1000 == 0)
            GC_gcollect();
        unsigned at = next_random(&seed) % HELD;
        if (next_random(&seed) % 5 < 2) {
            struct member *first = held[next_random(&seed) % HELD],
                *second = held[next_random(&seed) % HELD];
            held[at] = intern(first, second);
            if (intern(first, second) != held[at] || held[at]->first != first ||
                held[at]->second != second)
                __atomic_add_fetch(&set_wrong, 1, __ATOMIC_RELAXED);
        } else if (held[at]) {
            held[at] = next_random(&seed) % 2 ? held[at]->first : held[at]->second;
        }
        struct member *at_random = held[next_random(&seed) % HELD];
        for (; at_random; at_random = at_random->second) {
            long sum = 1 + (at_random->first ? at_random->first->sum : 0)
                + (at_random->second ? at_random->second->sum : 0);
            if (at_random->given_out != ALIVE || at_random->sum != sum)
                __atomic_add_fetch(&set_wrong, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void weak_set(void)
{
    pthread_t threads[4];
    for (int index = 0; index < BUCKETS; index++)
        pthread_mutex_init(&bucket_locks[index], NULL);
    set_kind = new_kind(leave_set, 1);
    for (intptr_t index = 0; index < 4; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, use_set, (void *)index), 0);
    for (int index = 0; index < 4; index++)
        CHECK_EQUAL(pthread_join(threads[index], NULL), 0);
    CHECK_EQUAL(set_wrong, 0);
    for (int turn = 0; turn < 5; turn++)
        collect_twice();
    CHECK(removed > added / 4);
    if (failures)
        fprintf(stderr, "%d added, %d found, %d removed, %d busy, %d marked\n", added, found,
            removed, busy, rescued);
}

/* A map whose entries hold their keys hidden: an entry goes with its key, and stays as long as that
   is marked. */
struct mapping { GC_word given_out; GC_hidden_pointer key; int *left, number; };
static int left_in_map, kept_for_key;
static void *volatile keys[MANY];

static int leave_map(void *object)
{
    struct mapping *mapping = object;
    if (!mapping->left)
        return 0;
    void *key = GC_REVEAL_POINTER(mapping->key);
    /* Its block may be gone by now, of which libgc's GC_is_marked may not be asked. */
    if (GC_base(key) == key && GC_is_marked(key)) {
        kept_for_key++;
        return 1;
    }
    --*mapping->left;
    mapping->left = NULL;
    return 0;
}

static APART void make_map(int kind)
{
    for (int index = 0; index < MANY; index++) {
        struct mapping *mapping = GC_generic_malloc(sizeof *mapping, kind);
        keys[index] = GC_malloc(64);
        *mapping = (struct mapping){1, GC_HIDE_POINTER(keys[index]), &left_in_map, index};
    }
    left_in_map = MANY;
}

static void keyed_map(void)
{
    for (int mark_from_all = 0; mark_from_all < 2; mark_from_all++) {
        kept_for_key = 0;
        make_map(new_kind(leave_map, mark_from_all));
        for (int turn = 0; turn < 3; turn++)
            collect_twice();
        CHECK_EQUAL(left_in_map, MANY);
        CHECK(kept_for_key >= MANY);
        for (int index = 0; index < MANY; index += 2)
            keys[index] = NULL;
        for (int turn = 0; turn < 3; turn++)
            collect_twice();
        CHECK(left_in_map >= MANY / 2 && left_in_map <= MANY / 2 + STRAY);
        for (int index = 0; index < MANY; index++)
            keys[index] = NULL;
        for (int turn = 0; turn < 3; turn++)
            collect_twice();
        CHECK(left_in_map <= STRAY);
    }
}

/* Freed objects are not asked for, resized ones are; and a finalizer goes before the procedure. */
static int plain_asked, plain_finalized, asked_before_finalizer;
static GC_word *volatile resized[MANY];

static int ask_plain(void *object)
{
    GC_word *words = object;
    if (words[1] != 1 && words[1] != 2)
        return 0;
    asked_before_finalizer += words[1] == 2;
    words[1] = 0;
    plain_asked++;
    return 0;
}

static void finalize_plain(void *object, void *data)
{
    (void)data;
    ((GC_word *)object)[1] = 1;
    plain_finalized++;
}

static APART void make_plain(int kind, int way)
{
    plain_asked = 0;
    for (int index = 0; index < MANY; index++) {
        GC_word *words = GC_generic_malloc(32, kind);
        words[0] = words[1] = 1;
        if (way == 0)
            GC_free(words);
        if (way == 1)
            resized[index] = GC_realloc(words, 4000);
        if (way == 2) {
            words[1] = 2;
            GC_register_finalizer_no_order(words, finalize_plain, NULL, NULL, NULL);
        }
    }
}

static void others(void)
{
    int kind = new_kind(ask_plain, 1);
    make_plain(kind, 0);
    collect();
    CHECK_EQUAL(plain_asked, 0);
    make_plain(kind, 1);
    collect();
    CHECK_EQUAL(plain_asked, 0);
    for (int index = 0; index < MANY; index++) {
        CHECK(resized[index][1] == 1);
        resized[index] = NULL;
    }
    collect();
    CHECK_NEARLY_ALL(plain_asked);
    make_plain(kind, 2);
    collect();
    collect();
    CHECK_NEARLY_ALL(plain_finalized);
    CHECK_NEARLY_ALL(plain_asked);
    CHECK_EQUAL(asked_before_finalizer, 0);
}

int main(void)
{
    GC_INIT();
    GC_init_finalized_malloc();
    parents_before_children();
    chains();
    marks();
    weak_set();
    keyed_map();
    others();
    return finish();
}
