/* Typed objects: only the words that the layout names keep anything alive, for each shape, small
   objects and large ones. */
#include "check.h"

enum { WORDS = 8 };
static void **holders[MANY];

/* Puts two watched objects into each holder: word `named` and word `other`. */
static APART void fill(int named, int other)
{
    for (int i = 0; i < MANY; i++) {
        void *kept = neap_alloc(32), *dropped = neap_alloc(32);
        watch(i, kept);
        watch(MANY + i, dropped);
        holders[i][named] = kept;
        holders[i][other] = dropped;
    }
}

static APART void check_layout(neap_layout layout, size_t bytes, int named, int other)
{
    CHECK(layout != NEAP_NO_LAYOUT);
    for (int i = 0; i < MANY; i++) {
        neap_object_info info;
        holders[i] = neap_alloc_typed(bytes, layout);
        for (size_t k = 0; k < bytes / 8; k++)
            if (holders[i][k] != NULL) {
                CHECK(!"zeroed");
                break;
            }
        CHECK(neap_object_at(holders[i], &info) && info.layout == layout);
    }
    fill(named, other);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_DEAD(MANY);
    churn(32, 10000);
    for (int i = 0; i < MANY; i++) {
        /* realloc keeps the layout. */
        neap_object_info info;
        holders[i] = neap_realloc(holders[i], bytes * 2);
        CHECK(neap_object_at(holders[i], &info) && info.layout == layout);
        holders[i][other] = NULL;
        CHECK(neap_base(holders[i][named]) == holders[i][named]);
    }
    collect();
    CHECK_ALL_ALIVE(0);
    memset(holders, 0, sizeof holders);
    collect();
    CHECK_DEAD(0);
}

static int calls, environment;

/* Names the second word only. */
static void trace_second(void *object, size_t bytes, void *argument, neap_tracer *tracer)
{
    void **words = object;
    if (argument == &environment && bytes >= 16)
        neap_trace_word(tracer, words[1]);
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}

/* Names the words from the fourth on. */
static void trace_rest(void *object, size_t bytes, void *argument, neap_tracer *tracer)
{
    (void)argument;
    if (bytes >= 32)
        neap_trace_range(tracer, (void **)object + 3, (char *)object + bytes);
    if (!neap_trace_is_marked(tracer, object))
        __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
}

/* Labels tell apart what is scanned alike. */
static APART void check_labels(neap_layout bitmap)
{
    neap_layout leaf = neap_layout_leaf(), whole = neap_layout_prefix(SIZE_MAX);
    neap_layout one = neap_layout_labelled(leaf, 1), two = neap_layout_labelled(leaf, 2);
    CHECK(leaf != one && one != two && two == neap_layout_labelled(one, 2) &&
        neap_layout_labelled(two, 0) == leaf);
    CHECK_EQUAL(neap_layout_label(leaf), 0);
    CHECK_EQUAL(neap_layout_label(two), 2);
    CHECK_EQUAL(neap_layout_label(NEAP_NO_LAYOUT), 0);
    check_layout(neap_layout_labelled(bitmap, 77), 8 * WORDS, 1, 2);
    for (int large = 0; large < 2; large++) {
        void ***pairs[2] = {neap_alloc(8 * MANY), neap_alloc(8 * MANY)};
        for (int i = 0; i < MANY; i++)
            for (int k = 0; k < 2; k++) {
                neap_object_info info;
                pairs[k][i] = neap_alloc_typed(large ? 50000 : 48,
                    neap_layout_labelled(k ? leaf : whole, 9));
                CHECK(neap_object_at(pairs[k][i], &info) && neap_layout_label(info.layout) == 9);
                CHECK_EQUAL(info.kind, k ? NEAP_LEAF : NEAP_CONSERVATIVE);
                pairs[k][i][5] = neap_alloc(32);
                watch(k * MANY + i, pairs[k][i][5]);
            }
        collect();
        CHECK_ALL_ALIVE(0);
        CHECK_DEAD(MANY);
        for (int i = 0; i < MANY; i++)
            CHECK(pairs[0][i] != NULL && pairs[1][i] != NULL);
    }
}

/* A prefix that is longer than any object. */
static APART void check_longest_prefix(void)
{
    neap_layout all = neap_layout_prefix(SIZE_MAX - 8);
    void ***kept = neap_alloc(8 * MANY);
    for (int i = 0; i < MANY; i++) {
        kept[i] = neap_alloc_typed(48, all);
        kept[i][5] = neap_alloc(32);
        watch(i, kept[i][5]);
    }
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK(kept[0] != NULL);
}

static void nothing_said(int status, const char *text, void *environment)
{
    (void)status, (void)text, (void)environment;
}

/* Last, since it takes all that a process can have. */
static void check_the_most(void)
{
    neap_set_misuse_callback(nothing_said, NULL);
    int made = 0;
    errno = 0;
    while (made <= 65536 && neap_layout_prefix(8 * (1000 + (size_t)made)) != NEAP_NO_LAYOUT)
        made++;
    CHECK(made > 65000 && made <= 65536);
    CHECK_EQUAL(errno, ENOMEM);
    CHECK_EQUAL(neap_layout_bitmap(0, NULL), NEAP_NO_LAYOUT);
    CHECK_EQUAL(errno, EINVAL);
}

int main(void)
{
    uint64_t second = 2, long_bits[3] = {0, 0, 1};
    neap_layout bitmap = neap_layout_bitmap(4, &second);
    CHECK_EQUAL(bitmap, neap_layout_bitmap(4, &second));
    CHECK(bitmap != neap_layout_bitmap(5, &second));
    check_layout(bitmap, 8 * WORDS, 1, 2);
    check_layout(bitmap, 8 * WORDS, 5, 4);
    check_layout(bitmap, 100000, 4 * 3000 + 1, 4 * 3000 + 2);
    check_layout(neap_layout_bitmap(130, long_bits), 8 * 130, 128, 127);
    check_layout(neap_layout_prefix(16), 8 * WORDS, 1, 2);
    check_layout(neap_layout_prefix(80000), 100000, 9999, 10000);
    check_layout(neap_layout_function(trace_second, &environment), 8 * WORDS, 1, 2);
    check_layout(neap_layout_function(trace_second, &environment), 100000, 1, 7000);
    check_layout(neap_layout_function(trace_rest, NULL), 8 * WORDS, 3, 2);
    check_labels(bitmap);
    check_longest_prefix();
    CHECK(calls > 0);
    CHECK(neap_layout_function(trace_rest, NULL) != neap_layout_function(trace_rest, &calls));
    check_the_most();
    return finish();
}
