/* The debugging allocator behind GC_DEBUG: its header, its reports (read back from standard error),
   its finalizers. */
#define GC_DEBUG
#include "check.h"
#include <gc/gc_mark.h>
#include <pthread.h>

static int finalized;
static void *expected_data = &finalized;
static void finalize(void *object, void *data)
{
    CHECK(strcmp(object, "debug object") == 0);
    CHECK(data == expected_data);
    finalized++;
}

static APART void make(void)
{
    for (int index = 0; index < MANY; index++) {
        char *object = GC_MALLOC(30);
        strcpy(object, "debug object");
        GC_finalization_proc old = finalize;
        void *data = &old;
        GC_REGISTER_FINALIZER(object, finalize, expected_data, &old, &data);
        CHECK(old == 0 && data == NULL);
        GC_REGISTER_FINALIZER_IGNORE_SELF(object, finalize, expected_data, &old, &data);
        CHECK(old == finalize && data == expected_data);
    }
}

static void overrun(void)
{
    char *volatile object = GC_MALLOC(24);
    memset(object, 'x', 25 + 7);
    GC_FREE(object);
}

/* A byte before it, which is found by a collection, and when it is freed. */
static void underrun(void)
{
    char *volatile object = GC_MALLOC(24);
    object[-8] = 0;
    GC_gcollect();
    object[-8] = 0;
    GC_FREE(object);
}

/* Overrun, alive and never freed: one object that is kept and one that is not. */
static char *volatile overrun_object;
static APART void overrun_two(void)
{
    char *volatile dead = GC_MALLOC_ATOMIC(24);
    memset(dead, 'x', 25 + 7);
    dead = NULL;
    overrun_object = GC_MALLOC(24);
    memset(overrun_object, 'x', 25 + 7);
}

/* In one: a cycle that is under way may end, and say so, before the one that is asked for. */
static void overrun_two_and_collect(void)
{
    overrun_two();
    GC_gcollect();
}

static int occurrences(const char *text, const char *what)
{
    int count = 0;
    while ((text = strstr(text, what)) != NULL) {
        text++;
        count++;
    }
    return count;
}

/* Nobody overruns anything: collections must not say so, wherever they meet an allocation. */
static volatile int over;
static void *churn(void *argument)
{
    for (size_t size = 1; !over; size = size % 200 + 1) {
        char *object = size % 2 ? GC_MALLOC(size) : GC_MALLOC_ATOMIC(size);
        memset(object, 'x', size);
        if (size % 3 == 0)
            object = GC_REALLOC(object, size + 50);
        if (size % 5 == 0)
            GC_FREE(object);
    }
    return argument;
}

static void innocent(void)
{
    pthread_t threads[3];
    for (int index = 0; index < 3; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, churn, NULL), 0);
    for (int round = 0; round < 100; round++) {
        usleep(1000);
        GC_gcollect();
    }
    over = 1;
    for (int index = 0; index < 3; index++)
        CHECK_EQUAL(pthread_join(threads[index], NULL), 0);
}

int main(void)
{
    GC_INIT();
    char *object = GC_MALLOC(100);
    CHECK((char *)GC_base(object) == object - GC_get_debug_header_size());
    CHECK(GC_USR_PTR_FROM_BASE(GC_base(object)) == (void *)object);
    CHECK_EQUAL(GC_debug_header_size, GC_get_debug_header_size());
    for (int index = 0; index < 100; index++)
        CHECK(object[index] == 0);
    memset(object, 7, 100);
    object = GC_REALLOC(object, 1000);
    for (int index = 0; index < 100; index++)
        CHECK(object[index] == 7);
    object = GC_REALLOC(object, 50);
    CHECK(object[49] == 7);
    GC_FREE(object);
    GC_FREE(NULL);
    CHECK(GC_REALLOC(GC_MALLOC_ATOMIC(10), 0) == NULL);
    CHECK(strcmp(GC_STRDUP("text"), "text") == 0);
    CHECK(strcmp(GC_STRNDUP("text", 2), "te") == 0);
    GC_FREE(GC_MALLOC_UNCOLLECTABLE(10));
    GC_FREE(GC_MALLOC_ATOMIC_UNCOLLECTABLE(10));
    CHECK(GC_MALLOC_IGNORE_OFF_PAGE(100000) != NULL);
    CHECK(GC_debug_malloc_replacement(10) != NULL);

    make();
    collect();
    CHECK_NEARLY_ALL(finalized);

    const char *report = capture(2, overrun);
    CHECK(strstr(report, "debugging.c") != NULL);
    fprintf(stderr, "%s", failures ? report : "");

    report = capture(2, underrun);
    CHECK(occurrences(report, "debugging.c") >= 2);
    fprintf(stderr, "%s", failures ? report : "");

    CHECK_EQUAL(strlen(capture(2, innocent)), 0);
    report = capture(2, overrun_two_and_collect);
    /* libgc leaves out what is dead. */
    CHECK_EQUAL(occurrences(report, "debugging.c"), on_neap() ? 2 : 1);
    fprintf(stderr, "%s", failures ? report : "");
    return finish();
}
