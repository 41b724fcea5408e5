/* Every slow path on threads with small stacks: gc.h. How much of a stack is used counts on Neap
   only, and so does the least size that there is; libgc runs from 32 KiB on. With an argument, the
   program names roots itself, and functions of its own are called in cycles. */
#include "check.h"
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include "../small_stacks.h"

enum { LIVE = 100000, LINKS = 64 };

GC_API void GC_CALL GC_generic_malloc_many(size_t, int, void **);

struct node { struct node *next; long words[3]; };

static struct node *kept, *live;
static void *links[LINKS], *long_links[LINKS];
static GC_descr layout;
static int marked_kind, strays;
static GC_push_other_roots_proc former;

/* Functions of the program stand on the stack of the thread that collects. */
static void note_place(const void *frame)
{
    if (on_neap() && is_astray(frame))
        strays++;
}

static void push_roots(void)
{
    void *local = &strays;
    note_place(&local);
    if (former)
        former();
    GC_push_all(&local, &local + 1);
}

static struct GC_ms_entry *mark(GC_word *address, struct GC_ms_entry *top,
    struct GC_ms_entry *limit, GC_word environment)
{
    (void)environment;
    note_place(__builtin_frame_address(0));
    return GC_MARK_AND_PUSH(((struct node *)address)->next, top, limit, (void **)address);
}

static void finalize(void *object, void *data)
{
    (void)object;
    (void)data;
}

static void no_warning(char *text, GC_word number)
{
    (void)text;
    (void)number;
}

static void allocate(void)
{
    for (int turn = 0; turn < 3; turn++)
        for (size_t bytes = 8; bytes < 40000; bytes += bytes / 3 + 8) {
            CHECK(GC_malloc(bytes));
            CHECK(GC_malloc_atomic(bytes));
            GC_free(GC_malloc_uncollectable(bytes));
            CHECK(GC_malloc_ignore_off_page(bytes));
            CHECK(GC_memalign(256, bytes));
            CHECK(GC_malloc_explicitly_typed(bytes + 16, layout));
            CHECK(GC_calloc_explicitly_typed(3, bytes + 16, layout));
            CHECK(GC_generic_malloc(bytes + sizeof(struct node), marked_kind));
            CHECK(GC_malloc_many(bytes % 2000));
            void *leaves = NULL;
            GC_generic_malloc_many(16, 0, &leaves);
            CHECK(leaves);
            GC_debug_free(GC_debug_malloc(bytes, __FILE__, __LINE__));
        }
}

static void allocate_until_cycles_ran(void)
{
    for (int index = 0; index < 100000; index++) {
        struct node *node = index % 8 ? GC_malloc(sizeof *node)
            : GC_generic_malloc(sizeof *node, marked_kind);
        if (index % 64 == 0) {
            node->next = index % 4096 ? kept : NULL;
            kept = node;
        }
    }
}

static void allocate_large(void)
{
    for (int index = 0; index < 12; index++)
        CHECK(GC_malloc((size_t)100000 << (index % 6)));
}

static void resize_and_free(void)
{
    void *object = GC_malloc(8), *leaf = GC_malloc_atomic(8);
    for (size_t bytes = 16; bytes < 4 << 20; bytes *= 3) {
        object = GC_realloc(object, bytes);
        leaf = GC_realloc(leaf, bytes);
    }
    GC_free(GC_realloc(object, 100));
    GC_free(leaf);
    for (int index = 0; index < 1000; index++)
        GC_free(GC_malloc(64));
}

static void run_out(void)
{
    CHECK(GC_malloc((size_t)1 << 30) == NULL);
    CHECK(GC_malloc_atomic((size_t)1 << 30) == NULL);
}

static APART void refer(void)
{
    for (int index = 0; index < 2000; index++) {
        void *object = GC_malloc(32);
        if (index % 2)
            GC_register_finalizer(object, finalize, NULL, NULL, NULL);
        else
            GC_register_finalizer_no_order(object, finalize, NULL, NULL, NULL);
        void *target = GC_malloc(32);
        GC_unregister_disappearing_link(&links[index % LINKS]);
        links[index % LINKS] = (void *)GC_HIDE_POINTER(target);
        GC_general_register_disappearing_link(&links[index % LINKS], target);
        GC_unregister_long_link(&long_links[index % LINKS]);
        long_links[index % LINKS] = (void *)GC_HIDE_POINTER(target);
        GC_register_long_link(&long_links[index % LINKS], target);
    }
}

static void collect_with_all(void)
{
    refer();
    GC_gcollect();
    GC_invoke_finalizers();
    GC_gcollect_and_unmap();
    while (GC_collect_a_little()) {}
    GC_invoke_finalizers();
}

static void *nothing(void *argument)
{
    return argument;
}

static void ask(void)
{
    struct GC_prof_stats_s statistics;
    GC_get_prof_stats(&statistics, sizeof statistics);
    GC_call_with_alloc_lock(nothing, NULL);
    GC_do_blocking(nothing, NULL);
    GC_disable();
    CHECK(GC_malloc(100));
    GC_enable();
    CHECK(GC_strdup("a string"));
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
            _exit(failures || (on_neap() && !child_kept_to(allowed())));
        }
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    }
}

static const struct operation operations[] = {
    { "first allocation", allocate },
    { "cycles", allocate_until_cycles_ran },
    { "large allocation", allocate_large },
    { "realloc and free", resize_and_free },
    { "no memory", run_out },
    { "references, collections", collect_with_all },
    { "questions", ask },
    { "fork", fork_and_collect },
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

int main(int count, char **arguments)
{
    (void)arguments;
    GC_set_handle_fork(1);
    GC_INIT();
    GC_set_warn_proc(no_warning);
    GC_set_finalize_on_demand(1);
    GC_word bits[1] = { 1 };
    layout = GC_make_descriptor(bits, 2);
    int callbacks = count > 1;
    marked_kind = 1;
    if (callbacks) {
        former = GC_get_push_other_roots();
        GC_set_push_other_roots(push_roots);
        marked_kind = (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark), 0), 0,
            1);
    }
    for (int index = 0; index < LIVE; index++) {
        struct node *node = GC_malloc(sizeof *node);
        node->next = live;
        live = node;
    }
    GC_set_max_heap_size((GC_word)256 << 20);
    if (on_neap()) {
        measure(operations, OPERATIONS);
        CHECK_EQUAL(strays, 0);
    }
    run_on_small(on_neap() ? (size_t)sysconf(_SC_THREAD_STACK_MIN) : 32 << 10, operations,
        OPERATIONS);
    return finish();
}
