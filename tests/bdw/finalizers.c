/* Finalizers: the four orders, cycles, resurrection, data, former values, on demand with a
   notifier, all at the end. */
#include "check.h"
#include <gc/javaxfc.h>

struct node {
    struct node *next, *other;
    long number;
};

static int order[2 * MANY + 10], count;

static void note(void *object, void *data)
{
    struct node *node = object;
    CHECK((long)data == node->number || data == NULL);
    if (count < (int)(sizeof order / sizeof *order))
        order[count++] = (int)node->number;
}

static APART struct node *make(long number, struct node *next)
{
    struct node *node = GC_malloc(sizeof *node);
    node->number = number;
    node->next = next;
    return node;
}

typedef void (*registration)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);

/* MANY chains first -> middle -> last, all finalizable: first has to run first. */
static APART void make_chains(registration registers)
{
    for (int index = 0; index < MANY; index++) {
        struct node *last = make(3000 + index, NULL), *middle = make(2000 + index, last);
        struct node *first = make(1000 + index, middle);
        registers(last, note, (void *)last->number, NULL, NULL);
        registers(first, note, (void *)first->number, NULL, NULL);
    }
}

static void topological(registration registers)
{
    static int place[MANY][4];
    memset(place, 0, sizeof place);
    count = 0;
    make_chains(registers);
    collect();
    collect();
    int lasts = 0;
    for (int index = 0; index < count; index++)
        place[order[index] % 1000][order[index] / 1000] = index + 1;
    for (int chain = 0; chain < MANY; chain++) {
        lasts += place[chain][3] != 0;
        CHECK(!place[chain][3] || (place[chain][1] && place[chain][1] < place[chain][3]));
    }
    CHECK_NEARLY_ALL(lasts);
}

static APART void make_cycles(registration registers)
{
    for (int index = 0; index < MANY; index++) {
        struct node *one = make(1000 + index, NULL), *two = make(2000 + index, one);
        one->next = two;
        registers(one, note, NULL, NULL, NULL);
        registers(two, note, NULL, NULL, NULL);
    }
}

static APART void make_selves(registration registers)
{
    for (int index = 0; index < MANY; index++) {
        struct node *node = make(index, NULL);
        node->next = node;
        registers(node, note, NULL, NULL, NULL);
    }
}

static int ran(void (*makes)(registration), registration registers)
{
    count = 0;
    makes(registers);
    collect();
    return count;
}

static struct node *saved;
static void resurrect(void *object, void *data)
{
    (void)data;
    saved = object;
    count++;
}

static APART void make_saved(void)
{
    struct node *node = make(7, make(8, NULL));
    GC_register_finalizer(node, resurrect, NULL, NULL, NULL);
}

static void resurrection(void)
{
    count = 0;
    saved = NULL;
    for (int turn = 0; turn < 10; turn++)
        make_saved();
    collect();
    CHECK(count >= 1 && saved != NULL);
    if (!saved)
        return;
    for (int round = 0; round < 10000; round++)
        make(1, NULL);
    CHECK_EQUAL(saved->number, 7);
    CHECK_EQUAL(saved->next->number, 8);
    int before = count;
    saved = NULL;
    collect();
    CHECK(count - before <= STRAY);
}

static void former_values(void)
{
    struct node *node = make(1, NULL);
    GC_finalization_proc old = (GC_finalization_proc)1;
    void *data = (void *)1;
    GC_register_finalizer(node, note, &saved, &old, &data);
    CHECK(old == 0 && data == NULL);
    GC_register_finalizer_no_order(node, resurrect, NULL, &old, &data);
    CHECK(old == note && data == (void *)&saved);
    GC_register_finalizer(node, 0, NULL, &old, &data);
    CHECK(old == resurrect && data == NULL);
    GC_register_finalizer(node, 0, NULL, &old, &data);
    CHECK(old == 0 && data == NULL);
    int local;
    GC_register_finalizer(&local, note, NULL, &old, &data);
    CHECK(old == 0);
}

static long data_sum;
static void add_data(void *object, void *data)
{
    (void)object;
    data_sum += *(long *)data;
}

static APART void make_with_data(void)
{
    for (int index = 0; index < MANY; index++) {
        long *data = GC_malloc_atomic(sizeof *data);
        *data = 1;
        GC_register_finalizer(make(index, NULL), add_data, data, NULL, NULL);
    }
}

static void data_is_kept(void)
{
    GC_set_finalize_on_demand(1);
    data_sum = 0;
    make_with_data();
    clear_stack();
    GC_gcollect();
    for (int round = 0; round < 100000; round++)
        *(long *)GC_malloc_atomic(sizeof(long)) = 1000;
    GC_gcollect();
    GC_invoke_finalizers();
    CHECK_NEARLY_ALL(data_sum);
    GC_set_finalize_on_demand(0);
}

static int notified;
static void notify(void)
{
    notified++;
}

static void on_demand(void)
{
    collect();
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(notify);
    CHECK(GC_get_finalizer_notifier() == notify && GC_get_finalize_on_demand() == 1);
    count = notified = 0;
    make_selves(GC_register_finalizer_ignore_self);
    clear_stack();
    GC_gcollect();
    for (int round = 0; round < 1000; round++)
        make(1, NULL);
    CHECK_EQUAL(count, 0);
    CHECK(notified >= 1);
    CHECK(GC_should_invoke_finalizers());
    int run = GC_invoke_finalizers();
    CHECK_EQUAL(run, count);
    CHECK_NEARLY_ALL(count);
    CHECK(!GC_should_invoke_finalizers());
    CHECK_EQUAL(GC_invoke_finalizers(), 0);
    GC_set_finalizer_notifier(0);
    GC_set_finalize_on_demand(0);
}

/* What the program was to run, and does not want to any more, the next allocations run. */
static void not_on_demand_any_more(void)
{
    GC_set_finalize_on_demand(1);
    count = 0;
    make_selves(GC_register_finalizer_ignore_self);
    clear_stack();
    GC_gcollect();
    CHECK(count == 0 && GC_should_invoke_finalizers());
    GC_word collections = GC_get_gc_no();
    GC_set_finalize_on_demand(0);
    CHECK_EQUAL(count, 0);
    for (int round = 0; round < 3000; round++)
        make(1, NULL);
    CHECK_NEARLY_ALL(count);
    CHECK_EQUAL(GC_get_gc_no(), collections);
}

static void automatically(void)
{
    count = 0;
    make_selves(GC_register_finalizer_ignore_self);
    clear_stack();
    for (int round = 0; round < 3000000 && count < MANY / 2; round++)
        make(1, NULL);
    CHECK(count >= MANY / 2);
    collect();
}

static int awaited;
static void await(void *object)
{
    (void)object;
    /* It may ask for figures. */
    awaited += GC_get_total_bytes() != 0;
}

static void awaiting(void)
{
    GC_set_await_finalize_proc(await);
    CHECK(GC_get_await_finalize_proc() == await);
    awaited = 0;
    int finalized = ran(make_selves, GC_register_finalizer_ignore_self);
    CHECK_EQUAL(awaited, finalized);
    GC_set_await_finalize_proc(0);
}

/* An unordered one reaches one that wants to be run last. */
static APART void make_unreachable(registration registers)
{
    (void)registers;
    for (int index = 0; index < MANY; index++) {
        struct node *last = make(2000 + index, NULL), *first = make(1000 + index, last);
        GC_register_finalizer_no_order(first, note, NULL, NULL, NULL);
        GC_REGISTER_FINALIZER_UNREACHABLE(last, note, NULL, NULL, NULL);
    }
}

static void unreachable_ones(void)
{
    count = 0;
    GC_set_finalize_on_demand(1);
    make_unreachable(0);
    clear_stack();
    GC_gcollect();
    GC_invoke_finalizers();
    int firsts = count;
    for (int index = 0; index < count; index++)
        CHECK(order[index] < 2000);
    CHECK_NEARLY_ALL(firsts);
    collect();
    CHECK_NEARLY_ALL(count - firsts);
    GC_set_finalize_on_demand(0);
}

static int whole;
static void look_behind(void *object, void *data)
{
    (void)data;
    whole += ((struct node *)object)->next->number == 2;
}

static APART void make_pairs(registration registers)
{
    for (int index = 0; index < MANY; index++)
        registers(make(1, make(2, NULL)), look_behind, NULL, NULL, NULL);
}

/* What unordered ones reach is there when they run, although the program does not ask for it. */
static void without_java_finalization(void)
{
    GC_set_java_finalization(0);
    GC_set_finalize_on_demand(1);
    make_pairs(GC_register_finalizer_no_order);
    clear_stack();
    GC_gcollect();
    for (int index = 0; index < 20000; index++)
        memset(GC_malloc(sizeof(struct node)), 0x55, sizeof(struct node));
    int ready = GC_invoke_finalizers();
    CHECK_EQUAL(whole, ready);
    CHECK_NEARLY_ALL(ready);
    GC_set_finalize_on_demand(0);
    GC_set_java_finalization(1);
}

static void *kept[MANY];
static void all_at_the_end(void)
{
    collect();
    count = 0;
    for (int index = 0; index < MANY; index++) {
        kept[index] = make(index, NULL);
        GC_register_finalizer(kept[index], note, NULL, NULL, NULL);
    }
    GC_finalize_all();
    CHECK(count >= MANY);
}

int main(void)
{
    GC_INIT();
    CHECK_EQUAL(GC_get_java_finalization(), 1);
    topological(GC_register_finalizer);
    topological(GC_register_finalizer_ignore_self);
    topological(GC_register_finalizer_unreachable);
    GC_set_warn_proc(GC_ignore_warn_proc); /* libgc warns of the cycles that follow */
    CHECK_NEARLY_ALL(ran(make_selves, GC_register_finalizer_ignore_self));
    CHECK_NEARLY_ALL(ran(make_selves, GC_register_finalizer_no_order));
    count = ran(make_cycles, GC_register_finalizer_no_order);
    CHECK(count >= 2 * (MANY - STRAY));
    resurrection();
    former_values();
    data_is_kept();
    on_demand();
    not_on_demand_any_more();
    automatically();
    awaiting();
    unreachable_ones();
    if (on_neap()) /* libgc may have given it to somebody else */
        without_java_finalization();
    /* These can never be finalized, so they come last. */
    CHECK_EQUAL(ran(make_selves, GC_register_finalizer), 0);
    CHECK_EQUAL(ran(make_cycles, GC_register_finalizer), 0);
    CHECK_EQUAL(ran(make_cycles, GC_register_finalizer_ignore_self), 0);
    CHECK(strlen(capture(1, GC_dump_finalization)) > 0);
    all_at_the_end();
    return finish();
}
