/* Walks over what is reachable while another thread begins collections all the time: what is known
   to be alive is among it, and counts as marked. No finalizer runs in a walk. */
#include "check.h"
#include <gc/gc_mark.h>
#include <pthread.h>

enum { KNOWN = 3000, ROUNDS = 150, MOST_ROUNDS = 4000 };

static void **known;
static char *seen;
static long others, missing, unmarked, uncounted;
static volatile int is_over;
static volatile long begun;
static unsigned (*count_marks)(const void *);
static void (*stop_world)(void), (*start_world)(void);
static __thread int is_walking;
static int finalized, finalized_walking;

static void finalize(void *object, void *data)
{
    CHECK(object && !data);
    __atomic_add_fetch(&finalized, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&finalized_walking, is_walking, __ATOMIC_RELAXED);
}

static APART void allocate(int count)
{
    for (int at = 0; at < count; at++) {
        void *object = memset(GC_MALLOC(16 + at * 37 % 400), 0x5a, 16);
        if (at % 100 == 0)
            GC_REGISTER_FINALIZER(object, finalize, NULL, NULL, NULL);
    }
}

/* libgc clears its marks as a collection in pieces begins, so it has none of these. */
static void *begin_collections(void *argument)
{
    while (!is_over) {
        allocate(2000);
        if (on_neap())
            GC_start_incremental_collection();
        begun++;
    }
    return argument;
}

static void visit(void *object, size_t bytes, void *data)
{
    CHECK(data == &others && bytes > 0);
    long at = bytes >= 32 ? ((long *)object)[1] : -1;
    if (at >= 0 && at < KNOWN && known[at] == object)
        seen[at] = 1;
    else
        others++;
}

static void count_missing(void)
{
    for (int at = 0; at < KNOWN; at++)
        missing += !seen[at];
    memset(seen, 0, KNOWN);
}

static void *walk(void *nothing)
{
    is_walking = 1;
    GC_enumerate_reachable_objects_inner(visit, &others);
    count_missing();
    for (int at = 0; at < KNOWN; at++)
        unmarked += !GC_is_marked(known[at]);
    for (int at = 0; count_marks && at < KNOWN; at += 100)
        uncounted += count_marks(known[at]) == 0;
    is_walking = 0;
    return nothing;
}

static APART void make(void)
{
    known = GC_MALLOC_UNCOLLECTABLE(KNOWN * sizeof *known);
    seen = calloc(KNOWN, 1);
    for (long at = 0; at < KNOWN; at++) {
        long *object = GC_MALLOC(32 + at % 7 * 48);
        object[1] = at;
        known[at] = object;
    }
}

/* Alone: what is dead is not among it. */
static long hidden[KNOWN];

static APART void drop(void)
{
    for (int at = 0; at < KNOWN; at++) {
        hidden[at] = ~(long)known[at];
        known[at] = NULL;
    }
}

static void visit_dropped(void *object, size_t bytes, void *count)
{
    long at = bytes >= 32 ? ((long *)object)[1] : -1;
    *(long *)count += at >= 0 && at < KNOWN && hidden[at] == ~(long)object;
}

static void *walk_dropped(void *count)
{
    GC_enumerate_reachable_objects_inner(visit_dropped, count);
    return count;
}

static void check_dropped(void)
{
    drop();
    collect();
    long visited = 0, marked = 0;
    GC_call_with_alloc_lock(walk_dropped, &visited);
    for (int at = 0; at < KNOWN; at++) {
        void *object = (void *)~hidden[at];
        marked += GC_base(object) == object && GC_is_marked(object);
    }
    CHECK(visited < KNOWN / 8);
    CHECK(marked < KNOWN / 8);
}

int main(void)
{
    if (!getenv("NEAP_MIN_TRIGGER")) {
        setenv("NEAP_MIN_TRIGGER", "64K", 1);
        execl("/proc/self/exe", "walks", (char *)NULL);
    }
    GC_INIT();
    if (on_neap())
        GC_enable_incremental();
    GC_allow_register_threads();
    *(void **)&count_marks = dlsym(RTLD_DEFAULT, "GC_count_set_marks_in_hblk");
    *(void **)&stop_world = dlsym(RTLD_DEFAULT, "GC_stop_world_external");
    *(void **)&start_world = dlsym(RTLD_DEFAULT, "GC_start_world_external");
    make();
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, begin_collections, NULL), 0);
    int rounds = 0;
    while (rounds < ROUNDS || (begun < ROUNDS && rounds < MOST_ROUNDS)) {
        GC_gcollect();
        GC_call_with_alloc_lock(walk, NULL);
        if (on_neap())
            walk(NULL); /* libgc has to have the lock */
        if (on_neap()) {
            stop_world();
            walk(NULL);
            start_world();
        }
        rounds++;
    }
    is_over = 1;
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(missing, 0);
    CHECK_EQUAL(unmarked, 0);
    CHECK_EQUAL(uncounted, 0);
    CHECK(finalized > 0);
    CHECK_EQUAL(finalized_walking, 0);
    check_dropped();
    return finish();
}
