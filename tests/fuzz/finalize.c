/* Finalizers of the shadow's objects. Invariant: a finalizer runs once at most, and only for an
   object that was not reachable at some time; its object and what that leads to are whole. The
   callback runs on any thread. */
#include "shadow.h"
#include <string.h>

/* Of an ended shadow a record lives until its finalizer runs: so the pool is the process's. */
static struct record records[RECORDS];
/* Where finalizers give objects back: a root, in static data. */
void *volatile resurrected[RECORDS];

void finalizer_runs(void *object, struct record *record)
{
    WANT(record >= records && record < records + RECORDS, "a finalizer gets %p", (void *)record);
    int state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
    WANT(state == REGISTERED || state == ORPHAN, "a finalizer runs in state %d", state);
    const uint64_t *contents = object;
    for (size_t word = 1; word < record->bytes / 8 && word < 8; word++) {
        int is_pointer = 0;
        for (unsigned edge = 0; edge < record->pointers; edge++)
            is_pointer |= record->word[edge] == word;
        WANT(is_pointer || contents[word] == pattern(record->id, word),
             "object %u of %zu bytes: word %zu is %#lx in its finalizer", record->id,
             record->bytes, word, contents[word]);
    }
    void *volatile *back = &resurrected[record - records];
    if (record->resurrects)
        *back = object;
    int wanted = REGISTERED;
    if (!__atomic_compare_exchange_n(&record->state, &wanted, RAN, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        *back = NULL;
        __atomic_store_n(&record->state, UNUSED, __ATOMIC_RELEASE);
    }
}

void add_finalizer(struct shadow *shadow, int index, unsigned order, int resurrects)
{
    static int last;
    struct node *node = node_of(shadow, index);
    if (node->record != NULL || node->was_lost)
        return;
    for (int tries = 0; tries < RECORDS; tries++) {
        struct record *record =
            &records[(unsigned)__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED) % RECORDS];
        int wanted = UNUSED;
        if (!__atomic_compare_exchange_n(&record->state, &wanted, REGISTERED, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        record->resurrects = (unsigned)resurrects;
        record->id = node->id;
        record->bytes = node->bytes;
        record->pointers = node->pointers;
        memcpy(record->word, node->word, sizeof record->word);
        node->record = record;
        finalizer_set((void *)address_of(node), record, order);
        return;
    }
}

int take_finalizer(struct node *node)
{
    struct record *record = node->record;
    if (record == NULL)
        return 1;
    if (node->was_lost)
        return 0;
    finalizer_set((void *)address_of(node), NULL, 0);
    node->record = NULL;
    int wanted = REGISTERED;
    WANT(__atomic_compare_exchange_n(&record->state, &wanted, UNUSED, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE),
         "the finalizer of object %u ran, which was never lost", record->id);
    return 1;
}

void look_at_finalizers(struct shadow *shadow)
{
    int changed = 0;
    for (int index = 0; index < NODES; index++) {
        struct node *node = &shadow->nodes[index];
        struct record *record = node->record;
        if (node->hidden == 0 || record == NULL ||
            __atomic_load_n(&record->state, __ATOMIC_ACQUIRE) != RAN)
            continue;
        WANT(node->was_lost, "the finalizer of object %u ran, which was never lost", node->id);
        void *volatile *back = &resurrected[record - records];
        node->record = NULL;
        if (record->resurrects) {
            WANT(*back == (void *)address_of(node), "a finalizer got %p, not %p", *back,
                 (void *)address_of(node));
            set_root(shadow, 1, node->id % CELLS, index, 0);
            changed = 1;
        }
        *back = NULL;
        __atomic_store_n(&record->state, UNUSED, __ATOMIC_RELEASE);
        /* Without a way back it is forgotten. */
        reach(shadow);
    }
    if (changed)
        check_all(shadow);
}

void leave_finalizers(struct shadow *shadow)
{
    for (int index = 0; index < NODES; index++) {
        struct node *node = &shadow->nodes[index];
        if (node->hidden == 0 || node->record == NULL || take_finalizer(node))
            continue;
        struct record *record = node->record;
        node->record = NULL;
        int wanted = REGISTERED;
        if (!__atomic_compare_exchange_n(&record->state, &wanted, ORPHAN, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            resurrected[record - records] = NULL;
            __atomic_store_n(&record->state, UNUSED, __ATOMIC_RELEASE);
        }
    }
}
