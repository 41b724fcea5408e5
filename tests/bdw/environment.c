/* The GC_* variables of the environment: runs itself with each and looks at what changed. Also: no
   GC_init, first call is GC_malloc. */
#include "check.h"
#include <sys/wait.h>

static APART void garbage(long bytes)
{
    for (; bytes > 0; bytes -= 64)
        ((volatile char *)GC_malloc(64))[0] = 1;
}

static void start_and_collect(void)
{
    GC_INIT();
    GC_gcollect();
}

static APART void leak(void)
{
    for (int index = 0; index < 10; index++) {
        GC_debug_malloc(100, "environment.c", index);
        GC_debug_free(GC_debug_malloc(100, "freed.c", index));
    }
}

static void leak_and_collect(void)
{
    leak();
    clear_stack();
    GC_gcollect();
    GC_gcollect();
}

static int look(const char *what)
{
    if (!strcmp(what, "initial")) {
        GC_INIT();
        /* Neap counts pages that were never touched as unmapped. */
        CHECK(GC_get_heap_size() + GC_get_unmapped_bytes() >= 24 << 20);
    } else if (!strcmp(what, "maximum")) {
        GC_INIT();
        GC_set_warn_proc(GC_ignore_warn_proc);
        CHECK(GC_malloc(100 << 20) == NULL);
        garbage(100 << 20);
        CHECK(GC_malloc(100) != NULL);
        CHECK(GC_get_heap_size() <= 32 << 20);
    } else if (!strcmp(what, "dont")) {
        GC_INIT();
        garbage(50 << 20);
        GC_gcollect();
        CHECK_EQUAL(GC_get_gc_no(), 0);
        CHECK(GC_is_disabled());
    } else if (!strcmp(what, "divisor")) {
        GC_INIT();
        CHECK_EQUAL(GC_get_free_space_divisor(), 7);
    } else if (!strcmp(what, "markers")) {
        GC_INIT();
        garbage(100 << 20);
        CHECK(GC_get_parallel() <= 1);
        CHECK(GC_get_gc_no() > 0);
    } else if (!strcmp(what, "leak")) {
        GC_INIT();
        CHECK_EQUAL(GC_get_find_leak(), 1);
        const char *report = capture(2, leak_and_collect);
        CHECK(strstr(report, "eaked") != NULL);
        CHECK(strstr(report, "environment.c") != NULL);
        CHECK(strstr(report, "freed.c") == NULL);
    } else if (!strcmp(what, "statistics")) {
        CHECK(strlen(capture(2, start_and_collect)) > 0);
    } else if (!strcmp(what, "regularly")) {
        CHECK(strlen(capture(1, start_and_collect)) > 0);
    } else if (!strcmp(what, "quiet")) {
        CHECK_EQUAL(strlen(capture(1, start_and_collect)), 0);
        CHECK_EQUAL(strlen(capture(2, start_and_collect)), 0);
    } else if (!strcmp(what, "unmap")) {
        GC_INIT();
        CHECK_EQUAL(GC_get_force_unmap_on_gcollect(), 1);
        garbage(30 << 20);
        GC_gcollect();
        CHECK(GC_get_unmapped_bytes() > 0 || !on_neap()); /* libgc keeps a heap this small */
    } else {
        char *first = GC_malloc(10); /* nothing came before it */
        CHECK(first != NULL && GC_is_init_called());
        garbage(100 << 20);
        CHECK(GC_get_gc_no() > 0);
    }
    return finish();
}

static void run(char *self, char *what, char *variable)
{
    char *arguments[] = {self, what, NULL};
    pid_t child = fork();
    if (child == 0) {
        if (variable)
            putenv(variable);
        execv("/proc/self/exe", arguments);
        _exit(99);
    }
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    if (status != 0)
        fprintf(stderr, "failed: %s with %s\n", what, variable ? variable : "nothing");
    CHECK_EQUAL(status, 0);
}

int main(int count, char **arguments)
{
    if (count > 1)
        return look(arguments[1]);
    run(arguments[0], "nothing", NULL);
    run(arguments[0], "initial", "GC_INITIAL_HEAP_SIZE=24m");
    run(arguments[0], "maximum", "GC_MAXIMUM_HEAP_SIZE=32M");
    run(arguments[0], "dont", "GC_DONT_GC=1");
    run(arguments[0], "divisor", "GC_FREE_SPACE_DIVISOR=7");
    run(arguments[0], "markers", "GC_MARKERS=2");
    run(arguments[0], "leak", "GC_FIND_LEAK=1");
    run(arguments[0], "quiet", NULL);
    run(arguments[0], "statistics", "GC_PRINT_STATS=1");
    run(arguments[0], "regularly", "GC_DUMP_REGULARLY=1");
    run(arguments[0], "unmap", "GC_FORCE_UNMAP_ON_GCOLLECT=1");
    return finish();
}
