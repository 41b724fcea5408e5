/* What functions of the program may ask that a collection calls, with the world stopped or not:
   figures, and what an object is. */
#include "check.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_mark.h>

enum place { EVENT, ROOTS, MARKING, DISCLAIM, START, THREAD, RESIZE, NOTIFIER, TOGGLE, PLACES };
static const char *const names[PLACES] = {"event", "roots", "mark procedure", "disclaim", "start",
    "thread event", "heap resize", "finalizer notifier", "toggle reference"};
static long asked[PLACES], wrong[PLACES];
static void *known;
static size_t total_before, visited;

static void visit(void *object, size_t bytes, void *found)
{
    *(int *)found |= object == known;
    visited += bytes;
}

#define EXPECT(holds) \
    do { \
        if (!(holds) && wrong[place]++ == 0) \
            fprintf(stderr, "%s: does not hold: %s\n", names[place], #holds); \
    } while (0)

/* What holds in each of them. */
static void ask(enum place place)
{
    if (known == NULL)
        return;
    asked[place]++;
    size_t total = GC_get_total_bytes(), heap = GC_get_heap_size();
    struct GC_prof_stats_s all;
    memset(&all, 0, sizeof all);
    EXPECT(GC_get_prof_stats_unsafe(&all, sizeof all) >= sizeof(GC_word));
    EXPECT(total >= total_before);
    EXPECT(heap > 0 && all.heapsize_full >= heap / 2);
    total_before = total;
    EXPECT(GC_get_free_bytes() <= heap + GC_get_unmapped_bytes());
    /* libgc takes a lock for it that it has already. */
    EXPECT(!on_neap() || GC_get_memory_use() <= heap + GC_get_unmapped_bytes());
    EXPECT(GC_get_obtained_from_os_bytes() > 0);
    EXPECT(GC_get_expl_freed_bytes_since_gc() <= total);
    EXPECT(GC_get_bytes_since_gc() <= heap + total);
    EXPECT(GC_is_heap_ptr(known) && GC_base((char *)known + 8) == known);
    EXPECT(GC_size(known) >= 64);
}

static void on_event(GC_EventType event)
{
    ask(EVENT);
    if (event == GC_EVENT_MARK_END) {
        int found = 0;
        visited = 0;
        GC_enumerate_reachable_objects_inner(visit, &found);
        enum place place = EVENT;
        EXPECT(found && visited >= 64);
    }
}

static GC_push_other_roots_proc usual_roots;
static void push_roots(void)
{
    ask(ROOTS);
    if (usual_roots != 0)
        usual_roots();
}

static struct GC_ms_entry *mark(GC_word *object, struct GC_ms_entry *top,
    struct GC_ms_entry *limit, GC_word environment)
{
    (void)object, (void)limit, (void)environment;
    ask(MARKING);
    return top;
}

static int disclaim(void *object)
{
    (void)object;
    ask(DISCLAIM);
    return 0;
}

static void on_start(void) { ask(START); }
static void on_thread(GC_EventType event, void *thread)
{
    (void)event, (void)thread;
    ask(THREAD);
}
static void on_resize(GC_word size)
{
    (void)size;
    ask(RESIZE);
}
static void notify(void)
{
    ask(NOTIFIER);
    GC_invoke_finalizers();
}
static GC_ToggleRefStatus toggle(void *object)
{
    (void)object;
    ask(TOGGLE);
    return GC_TOGGLE_REF_STRONG;
}
static void finalize(void *object, void *data) { (void)object, (void)data; }

static int is_over;
static void *wait_for_the_end(void *nothing)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
        ; /* a thread that waits is not stopped */
    return nothing;
}

static int new_kind;
static APART void make_some(void)
{
    for (int index = 0; index < 20000; index++) {
        GC_free(GC_malloc(40));
        GC_malloc(100);
        if (index % 16 == 0) {
            GC_generic_malloc(48, new_kind);
            GC_register_finalizer_no_order(GC_malloc(24), finalize, 0, 0, 0);
        }
    }
}

int main(void)
{
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(notify);
    GC_set_on_heap_resize(on_resize);
    GC_INIT();
    GC_allow_register_threads();
    known = GC_malloc(64);
    new_kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark), 0), 0, 1);
    int disclaimed = GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    GC_register_disclaim_proc(disclaimed, disclaim, 0);
    usual_roots = GC_get_push_other_roots();
    GC_set_push_other_roots(push_roots);
    GC_set_start_callback(on_start);
    GC_set_on_thread_event(on_thread);
    GC_set_on_collection_event(on_event);
    GC_set_toggleref_func(toggle);
    void *toggled = GC_malloc(16);
    CHECK_EQUAL(GC_toggleref_add(toggled, 1), GC_SUCCESS);
    pthread_t thread;
    CHECK_EQUAL(GC_pthread_create(&thread, 0, wait_for_the_end, 0), 0);
    void *kept = GC_generic_malloc(48, new_kind);
    for (int turn = 0; turn < 10; turn++) {
        GC_generic_malloc(48, disclaimed);
        make_some();
        GC_gcollect();
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    CHECK_EQUAL(GC_pthread_join(thread, 0), 0);
    GC_reachable_here(kept);
    GC_reachable_here(toggled);
    const char *watch = getenv("NEAP_WATCH");
    /* What a mark procedure does stays in the child that marks. */
    asked[MARKING] += watch != NULL && strcmp(watch, "fork") == 0;
    for (int place = 0; place < PLACES; place++) {
        if (asked[place] == 0)
            fprintf(stderr, "%s: never asked\n", names[place]);
        CHECK(asked[place] > 0);
        CHECK_EQUAL(wrong[place], 0);
    }
    return finish();
}
