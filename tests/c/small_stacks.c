/* Every slow path on threads with small stacks: neap.h. With an argument, the collector's start and
   all else happens on such a thread too. SIGNALLED in the environment: the watch stops threads by
   signals at any moment. */
#include "check.h"
#include "../small_stacks.h"

struct node { struct node *next; long words[3]; };

/* Enough to live for cycles to run beside the program. */
enum { LIVE = 100000 };

static struct node *kept, *live;
static void *links[64];
static neap_layout traced, mapped;
static neap_queue *queue;
static uintptr_t stray;

static void keep_callbacks_on(const void *frame)
{
    /* Callbacks stand on the stack of the thread that drives the stop. */
    if (is_astray(frame))
        stray++;
}

static void trace(void *object, size_t bytes, void *environment, neap_tracer *tracer)
{
    (void)environment;
    keep_callbacks_on(__builtin_frame_address(0));
    neap_trace_range(tracer, object, (char *)object + bytes);
}

static void name_roots(neap_tracer *tracer, void *environment)
{
    keep_callbacks_on(__builtin_frame_address(0));
    neap_trace_word(tracer, environment);
}

static void on_event(int event, void *environment)
{
    (void)event;
    (void)environment;
}

static void no_warning(const char *text, size_t number, void *environment)
{
    (void)text;
    (void)number;
    (void)environment;
}

static void finalize(void *object, void *data)
{
    (void)object;
    (void)data;
}

static void clean(void *argument)
{
    (void)argument;
}

static void allocate(void)
{
    for (int turn = 0; turn < 3; turn++)
        for (size_t bytes = 8; bytes < 40000; bytes += bytes / 3 + 8) {
            CHECK(neap_alloc(bytes));
            CHECK(neap_alloc_leaf(bytes));
            CHECK(neap_alloc_leaf_zeroed(bytes));
            CHECK(neap_alloc_typed(bytes / 16 * 16 + 16, mapped));
            CHECK(neap_alloc_typed(bytes, traced));
            CHECK(neap_alloc_aligned(bytes, 256, NEAP_CONSERVATIVE));
        }
}

static void allocate_until_cycles_ran(void)
{
    for (int index = 0; index < 200000; index++) {
        struct node *node = neap_alloc(sizeof *node);
        if (index % 64 == 0) {
            node->next = index % 4096 ? kept : NULL;
            kept = node;
        }
    }
}

static void allocate_large(void)
{
    for (int index = 0; index < 16; index++)
        CHECK(neap_alloc((size_t)100000 << (index % 6)));
}

static void resize_and_free(void)
{
    void *object = neap_alloc(8), *leaf = neap_alloc_leaf(8);
    for (size_t bytes = 16; bytes < 4 << 20; bytes *= 3) {
        object = neap_realloc(object, bytes);
        leaf = neap_realloc(leaf, bytes);
        neap_resize_in_place(leaf, bytes + bytes / 2);
    }
    object = neap_realloc(object, 100);
    CHECK_EQUAL(neap_free(object), NEAP_OK);
    CHECK_EQUAL(neap_free(leaf), NEAP_OK);
    for (int index = 0; index < 1000; index++)
        CHECK_EQUAL(neap_free(neap_alloc(64)), NEAP_OK);
}

static void run_out(void)
{
    CHECK(neap_alloc((size_t)1 << 30) == NULL);
    CHECK(neap_alloc_leaf((size_t)1 << 30) == NULL);
}

static APART void refer(void)
{
    neap_domain domain = neap_domain_open();
    for (int index = 0; index < 3000; index++) {
        void *object = neap_alloc(32);
        CHECK_EQUAL(neap_finalizer_set(object, finalize, NULL, index % 2 ? NEAP_ORDER_NONE
            : NEAP_ORDER_TOPOLOGICAL), NEAP_OK);
        CHECK_EQUAL(neap_cleaner_add(neap_alloc(32), clean, NULL), NEAP_OK);
        CHECK_EQUAL(neap_queue_add(queue, neap_alloc(32), NULL), NEAP_OK);
        CHECK(neap_handle_alloc_in(domain, neap_alloc(32), NEAP_HANDLE_STRONG));
        CHECK(neap_handle_alloc_in(domain, neap_alloc(32), NEAP_HANDLE_WEAK));
        CHECK(neap_ephemeron_alloc_in(domain, index % 2 ? (void *)kept : neap_alloc(32),
            neap_alloc(32)));
        if (index < 64) {
            void *target = neap_alloc(32);
            neap_link_unregister(&links[index], NEAP_LINK_SHORT);
            links[index] = neap_hide(target);
            neap_link_register(&links[index], target, NEAP_LINK_SHORT);
        }
        if (index % 16 == 0) {
            void *monitor = neap_alloc(32);
            neap_monitor_enter(monitor);
            neap_monitor_wait_timed(monitor, 1000);
            neap_monitor_exit(monitor);
        }
    }
    neap_collect();
    neap_finalizers_run();
    void *value;
    while (neap_queue_poll(queue, &value) == 1) {}
    size_t freed;
    neap_domain_close(domain, &freed);
}

static void collect_with_all(void)
{
    refer();
    CHECK(neap_collect());
    neap_collect_if_due();
    CHECK(neap_collect_and_release());
    neap_release_memory();
}

static void *nothing(void *argument)
{
    return argument;
}

static void hold(void)
{
    neap_hold_collections();
    CHECK(neap_alloc(100));
    neap_release_collections();
    neap_with_stopped_world(nothing, NULL);
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    neap_blocked(nothing, NULL);
}

static void fork_and_collect(void)
{
    for (int turn = 0; turn < 2; turn++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            allocate();
            if (turn)
                collect_with_all();
            _exit(failures || !child_kept_to(allowed()));
        }
        CHECK(succeeded(child));
    }
}

static const struct operation operations[] = {
    { "first allocation", allocate },
    { "cycles", allocate_until_cycles_ran },
    { "large allocation", allocate_large },
    { "realloc and free", resize_and_free },
    { "no memory", run_out },
    { "references, collections", collect_with_all },
    { "held and stopped", hold },
    { "fork", fork_and_collect },
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static void prepare(void)
{
    uint64_t bits = 1;
    neap_set_warning_callback(no_warning, NULL);
    mapped = neap_layout_bitmap(2, &bits);
    traced = neap_layout_function(trace, NULL);
    queue = neap_queue_open();
    by_hand = 1;
    neap_finalizers_set_automatic(0);
    CHECK(neap_option_set("max_heap", "256M") == NULL);
    for (int index = 0; index < LIVE; index++) {
        struct node *node = neap_alloc(sizeof *node);
        node->next = live;
        live = node;
    }
}

static const struct operation start[] = { { "start", prepare } };

int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "";
    int named = strstr(way, "callbacks") != NULL;
    if (strstr(way, "start"))
        measure(start, 1);
    else
        prepare();
    if (!named)
        traced = neap_layout_leaf();
    else {
        neap_set_root_callback(name_roots, &stray);
        neap_set_event_callback(on_event, NULL);
    }
    measure(operations, OPERATIONS);
    CHECK_EQUAL(stray, 0);
    run_on_small((size_t)sysconf(_SC_THREAD_STACK_MIN), operations, OPERATIONS);
    return finish();
}
