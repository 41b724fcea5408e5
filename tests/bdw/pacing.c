/* When collections come: what a program says about its heap's size and about how much it wants to
   allocate between two of them. Runs itself once for each case, so that they do not mix. */
#include "check.h"
#include <gc/gc_mark.h>
#include <sys/wait.h>

static APART void garbage(long bytes)
{
    for (; bytes > 0; bytes -= 64)
        ((volatile char *)GC_malloc(64))[0] = 1;
}

static GC_word collections_of(long bytes)
{
    GC_word before = GC_get_gc_no();
    garbage(bytes);
    return GC_get_gc_no() - before;
}

enum { MIB = 1 << 20 };

static void usual(void)
{
    CHECK(collections_of(150 * MIB) >= 8);
}

static size_t first_asked;

static void note_roots(void)
{
    if (first_asked == 0)
        first_asked = GC_get_total_bytes();
}

/* A function that names roots may not be ready before the program has got anywhere. */
static void early(void)
{
    GC_set_push_other_roots(note_roots);
    garbage(16 * MIB);
    CHECK(first_asked >= (on_neap() ? 1 : 0) * MIB);
    CHECK(first_asked > 0 && first_asked < 8 * MIB);
}

static void expand(void)
{
    size_t before = GC_get_heap_size();
    CHECK_EQUAL(GC_expand_hp(200 * MIB), 1);
    CHECK(GC_get_heap_size() >= before + 200 * MIB);
    CHECK(GC_get_heap_size() <= before + 240 * MIB);
    CHECK(GC_get_free_bytes() >= 200 * MIB && GC_get_free_bytes() <= GC_get_heap_size());
    CHECK(collections_of(150 * MIB) <= 2);
    CHECK(GC_get_heap_size() <= before + 240 * MIB);
    /* Again and again, not only the first time. */
    CHECK(collections_of(600 * MIB) <= 6);
    CHECK(collections_of(600 * MIB) >= 2);
}

/* A heap of the size that was asked for, though much of it is gaps that no object fits into. */
static void expand_with_gaps(void)
{
    enum { KEPT = 4000, DROPPED = 80 };
    void *volatile *kept = GC_malloc(KEPT * sizeof *kept);
    GC_disable();
    CHECK_EQUAL(GC_expand_hp(64 * MIB), 1);
    for (int index = 0; index < KEPT; index++) {
        kept[index] = GC_malloc(100);
        for (int more = 0; more < DROPPED; more++)
            ((volatile char *)GC_malloc(100))[0] = 1;
    }
    GC_enable();
    GC_gcollect();
    collections_of(300 * MIB);
    CHECK(kept[KEPT - 1] != NULL); /* alive until here */
    /* What is allocated beside a collection comes on top. */
    CHECK(GC_get_heap_size() <= 96 * MIB);
}

static void initial(void)
{
    CHECK(GC_get_heap_size() >= 200 * MIB);
    CHECK(GC_get_heap_size() <= 240 * MIB);
    CHECK(collections_of(150 * MIB) <= 2);
}

/* Collections with little live, where a heap's least size could hide the divisor. */
static GC_word with_divisor(GC_word divisor)
{
    GC_set_free_space_divisor(divisor);
    GC_set_max_heap_size(1 << 30); /* another setting does not take it back */
    GC_gcollect();
    return collections_of(64 * MIB);
}

static void divisor(void)
{
    static void *volatile live[16] __attribute__((used));
    for (int index = 0; index < 16; index++)
        live[index] = GC_malloc(16384);
    /* libgc's heap stays as large as it got. */
    GC_word many = with_divisor(30), usual = with_divisor(3), few = with_divisor(1);
    CHECK(many >= 2 * usual);
    CHECK(2 * few <= usual);
}

/* The same, written as a variable; main wrote 30 before the start. */
static GC_word with_written_divisor(GC_word divisor)
{
    GC_free_space_divisor = divisor;
    GC_gcollect();
    return collections_of(64 * MIB);
}

static void written_divisor(void)
{
    GC_word many = collections_of(64 * MIB);
    GC_word usual = with_written_divisor(3), few = with_written_divisor(1);
    CHECK(many >= 2 * usual);
    CHECK(2 * few <= usual);
    if (!on_neap())
        return; /* libgc divides by it */
    GC_word absurd[] = {0, ~(GC_word)0, (GC_word)1 << 63};
    for (int index = 0; index < 3; index++)
        CHECK(with_written_divisor(absurd[index]) > 0);
}

/* The user's word stands. */
static void users_growth(void)
{
    CHECK_EQUAL(GC_free_space_divisor, 30);
    CHECK_EQUAL(GC_get_free_space_divisor(), 30);
    if (!on_neap())
        return;
    GC_word before = collections_of(64 * MIB), after = with_written_divisor(1);
    CHECK(2 * after > before);
}

static void least(void)
{
    GC_set_min_bytes_allocd(32 * MIB);
    CHECK_EQUAL(GC_get_min_bytes_allocd(), 32 * MIB);
    GC_gcollect();
    CHECK(collections_of(150 * MIB) <= 5);
}

/* Of 64 bytes 56 are said to be the program's own business. */
static void managed(void)
{
    GC_word all = collections_of(150 * MIB), before = GC_get_gc_no();
    for (long index = 0; index < 150 * MIB / 64; index++) {
        garbage(64);
        GC_set_non_gc_bytes(GC_get_non_gc_bytes() + 56);
    }
    CHECK(2 * (GC_get_gc_no() - before) <= all);
}

static void uncollectable(void)
{
    CHECK_EQUAL(GC_get_non_gc_bytes(), GC_non_gc_bytes);
    if (!on_neap())
        return; /* libgc 8.2 forgets most of them, and counts below 0 */
    GC_word before = GC_get_non_gc_bytes();
    void *object = GC_malloc_uncollectable(10000);
    GC_word with = GC_get_non_gc_bytes();
    CHECK(with >= before + 10000 && with <= before + 20000);
    void *small = GC_malloc_atomic_uncollectable(50);
    CHECK(GC_get_non_gc_bytes() >= with + 50 && GC_non_gc_bytes == GC_get_non_gc_bytes());
    GC_free(small);
    CHECK_EQUAL(GC_get_non_gc_bytes(), with);
    object = GC_realloc(object, 100000);
    CHECK(GC_get_non_gc_bytes() >= before + 100000);
    GC_free(object);
    CHECK_EQUAL(GC_get_non_gc_bytes(), before);
    GC_free(GC_malloc(10000));
    CHECK_EQUAL(GC_get_non_gc_bytes(), before);
}

static void not_expanded(void)
{
    static void *volatile live[12] __attribute__((used));
    for (int index = 0; index < 12; index++)
        live[index] = GC_malloc(MIB);
    GC_set_free_space_divisor(1); /* it would grow by much */
    GC_gcollect();
    GC_set_dont_expand(1);
    CHECK_EQUAL(GC_get_dont_expand(), 1);
    size_t before = GC_get_heap_size();
    garbage(200 * MIB);
    CHECK(GC_get_heap_size() <= before + 16 * MIB);
    /* What is live has to go somewhere. */
    static void *volatile more[40] __attribute__((used));
    for (int index = 0; index < 40; index++)
        more[index] = GC_malloc_atomic(MIB);
    CHECK(more[39] != NULL);
}

static GC_word until_refused(GC_word retries)
{
    GC_set_max_retries(retries);
    GC_word before = GC_get_gc_no();
    CHECK(GC_malloc_atomic(100 * MIB) == NULL);
    return GC_get_gc_no() - before;
}

static void retries(void)
{
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_max_heap_size(32 * MIB);
    garbage(MIB);
    GC_word usual = until_refused(0);
    CHECK(until_refused(4) >= usual + 3);
}

/* What is freed counts at once, also while a collection runs beside the program. */
static void freed(void)
{
    static void *volatile list __attribute__((used));
    for (long index = 0; index < 400000; index++) {
        void **cell = GC_malloc(64);
        *cell = list;
        list = cell;
    }
    long missing = 0;
    for (long index = 0; index < 1000000; index++) {
        void *object = GC_malloc(64);
        size_t before = GC_get_expl_freed_bytes_since_gc();
        GC_free(object);
        missing += GC_get_expl_freed_bytes_since_gc() < before + 64;
        GC_malloc(64);
    }
    CHECK_EQUAL(missing, 0);
}

/* A live list that grows, and with each of its cells an object that has a finalizer and dies: what
   collections that takes. */
static void *volatile grown __attribute__((used));
static int finalized;

static void run(void *object, void *data)
{
    (void)object;
    (void)data;
    finalized++;
}

static APART void add(void)
{
    void **cell = GC_malloc(1000);
    *cell = grown;
    grown = cell;
    GC_register_finalizer_no_order(GC_malloc(16), run, NULL, NULL, NULL);
}

static GC_word while_growing(GC_word bytes_per_finalizer)
{
    GC_gcollect();
    GC_set_allocd_bytes_per_finalizer(bytes_per_finalizer);
    GC_word before = GC_get_gc_no();
    for (int index = 0; index < 100000; index++)
        add();
    return GC_get_gc_no() - before;
}

static void finalizers(void)
{
    CHECK_EQUAL(GC_get_allocd_bytes_per_finalizer(), 10000);
    while_growing(0); /* a small heap is collected more often */
    GC_word without = while_growing(0), many = while_growing(1000000);
    CHECK_EQUAL(GC_get_allocd_bytes_per_finalizer(), 1000000);
    CHECK(many >= 10 && many >= 2 * without);
    CHECK(finalized > 0);
}

/* After large objects that are gone libgc breaks their memory up for small ones rather than collect
   for each megabyte. Neap leaves them half of it in any case. */
enum { NOT_ENTIRE = 30, NOT_ENTIRE_ON_NEAP = 6 };
static GC_word with_entire_heap(int value)
{
    static void *objects[5000];
    GC_use_entire_heap = value;
    for (int index = 0; index < 5000; index++)
        objects[index] = GC_malloc(20000);
    memset(objects, 0, sizeof objects);
    clear_stack();
    GC_gcollect();
    GC_word before = GC_get_gc_no();
    for (int index = 0; index < 5 << 20; index++)
        ((volatile char *)GC_malloc(64))[0] = 1;
    return GC_get_gc_no() - before;
}

static void entire(void)
{
    GC_word collections = with_entire_heap(1);
    CHECK(collections > 0 && collections <= 10);
    CHECK(GC_get_heap_size() <= 200 << 20);
    if (on_neap()) {
        CHECK(with_entire_heap(0) >= NOT_ENTIRE_ON_NEAP);
        CHECK(with_entire_heap(1) < NOT_ENTIRE_ON_NEAP);
    }
}

static void not_entire(void)
{
    CHECK(with_entire_heap(0) >= (on_neap() ? NOT_ENTIRE_ON_NEAP : NOT_ENTIRE));
}

static const struct { const char *name; void (*run)(void); } cases[] = {
    {"usual", usual}, {"early", early}, {"expand", expand},
    {"expand_with_gaps", expand_with_gaps}, {"initial", initial}, {"divisor", divisor},
    {"written_divisor", written_divisor}, {"users_growth", users_growth}, {"least", least}, {"managed", managed}, {"uncollectable", uncollectable},
    {"not_expanded", not_expanded}, {"retries", retries},
    {"freed", freed}, {"finalizers", finalizers}, {"entire", entire},
    {"not_entire", not_entire},
};

int main(int count, char **arguments)
{
    if (count == 1)
        unsetenv("NEAP_MIN_TRIGGER"); /* the user's word would stand */
    enum { CASES = sizeof cases / sizeof *cases };
    for (int index = 0; count > 1 && index < CASES; index++)
        if (!strcmp(arguments[1], cases[index].name)) {
            if (cases[index].run == written_divisor || cases[index].run == users_growth)
                GC_free_space_divisor = 30;
            GC_INIT();
            cases[index].run();
        }
    for (int index = 0; count == 1 && index < CASES; index++) {
        char *again[] = {arguments[0], (char *)cases[index].name, NULL};
        pid_t child = fork();
        if (child == 0) {
            if (cases[index].run == initial)
                putenv("GC_INITIAL_HEAP_SIZE=200m");
            if (cases[index].run == users_growth && on_neap())
                putenv("NEAP_GROWTH=1");
            if (cases[index].run == managed) {
                unsetenv("NEAP_MAX_PAUSE"); /* so that all collections come when they are due, */
                setenv("NEAP_MIN_TRIGGER", "1M", 1); /* which is by bytes and not by time */
            }
            if (cases[index].run == not_expanded || cases[index].run == finalizers ||
                cases[index].run == least || cases[index].run == written_divisor ||
                cases[index].run == users_growth)
                setenv("NEAP_MAX_PAUSE", "1000", 1); /* and nothing is allocated beside them */
            execv("/proc/self/exe", again);
            _exit(99);
        }
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        if (status != 0)
            fprintf(stderr, "failed: %s\n", cases[index].name);
        CHECK_EQUAL(status, 0);
    }
    return finish();
}
