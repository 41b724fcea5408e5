/* What the program sets before the start, whatever that is, gives way to the environment, what it
   sets later does not. Runs itself with the variables. */
#include "check.h"
#include <gc/gc_mark.h>
#include <sys/wait.h>

static void set_by_calls(void)
{
    GC_set_no_dls(0);
    GC_set_max_heap_size((GC_word)1 << 30);
    GC_set_free_space_divisor(9);
    GC_set_full_freq(11);
    GC_set_time_limit(77);
    GC_set_find_leak(0);
    GC_set_force_unmap_on_gcollect(1);
}

static void set_in_variables(void)
{
    GC_free_space_divisor = 9;
    GC_full_freq = 11;
    GC_time_limit = 77;
    GC_find_leak = 0;
    GC_dont_gc = 0;
    GC_use_entire_heap = 0;
}

static void check_environment(void)
{
    CHECK_EQUAL(GC_get_free_space_divisor(), 7);
    CHECK_EQUAL(GC_get_full_freq(), 3);
    CHECK_EQUAL(GC_get_time_limit(), 5000);
    CHECK_EQUAL(GC_get_find_leak(), 1);
    CHECK_EQUAL(GC_use_entire_heap, 1);
    CHECK_EQUAL(GC_get_force_unmap_on_gcollect(), 0);
    CHECK_EQUAL(GC_dont_gc, 1);
    GC_set_warn_proc(GC_ignore_warn_proc);
    CHECK(GC_malloc_atomic(100 << 20) == NULL);
}

static void check_program(void)
{
    CHECK_EQUAL(GC_get_free_space_divisor(), 9);
    CHECK_EQUAL(GC_get_full_freq(), 11);
    CHECK_EQUAL(GC_get_time_limit(), 77);
    CHECK_EQUAL(GC_get_find_leak(), 0);
    CHECK_EQUAL(GC_get_force_unmap_on_gcollect(), 1);
    CHECK(GC_malloc_atomic(100 << 20) != NULL);
}

static char range[64];

/* What starts the collector beside GC_init. */
static int start(const char *what)
{
    if (!strcmp(what, "GC_malloc"))
        CHECK(GC_malloc(1) != NULL);
    else if (!strcmp(what, "GC_gcollect"))
        GC_gcollect();
    else if (!strcmp(what, "GC_add_roots"))
        GC_add_roots(range, range + sizeof range);
    else if (!strcmp(what, "GC_exclude_static_roots"))
        GC_exclude_static_roots(range, range + sizeof range);
    else if (!strcmp(what, "GC_new_kind"))
        CHECK(GC_new_kind(GC_new_free_list(), 0, 0, 1) != 0);
    else
        return 0;
    return 1;
}

/* In libgc this one does without. */
static void finish_start(const char *what)
{
    if (!strcmp(what, "GC_exclude_static_roots") && !on_neap())
        GC_INIT();
}

static void check_ignored(void)
{
    set_by_calls();
    /* No limit: libgc says that it ignores 0, and does not. */
    GC_set_max_heap_size(16 << 20);
    GC_INIT();
    CHECK_EQUAL(GC_get_free_space_divisor(), 9);
    CHECK_EQUAL(GC_get_full_freq(), 11);
    CHECK_EQUAL(GC_get_time_limit(), 77);
    CHECK(GC_malloc_atomic(100 << 20) != NULL);
}

static int look(const char *what, const char *how)
{
    if (!strcmp(what, "zeros")) {
        check_ignored();
    } else if (!strcmp(what, "later")) {
        GC_INIT();
        set_by_calls();
        GC_INIT();
        check_program();
    } else if (!strcmp(what, "later than an allocation")) {
        CHECK(GC_malloc(1) != NULL); /* starts the collector, too */
        set_by_calls();
        GC_INIT();
        check_program();
    } else {
        if (!strcmp(how, "calls"))
            set_by_calls();
        else
            set_in_variables();
        if (start(what))
            finish_start(what);
        else
            GC_INIT();
        check_environment();
        GC_INIT();
        check_environment();
    }
    return finish();
}

static void run(char *program, char *what, char *how)
{
    pid_t child = fork();
    if (child == 0) {
        char *words[] = {program, what, how, NULL};
        execv("/proc/self/exe", words);
        _exit(99);
    }
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    if (status != 0)
        fprintf(stderr, "failed: %s, %s\n", what, how);
    CHECK_EQUAL(status, 0);
}

static const char *numbers[] = {"GC_MAXIMUM_HEAP_SIZE", "GC_FREE_SPACE_DIVISOR",
                                "GC_PAUSE_TIME_TARGET", "GC_FULL_FREQUENCY"};

int main(int count, char **arguments)
{
    if (count > 1)
        return look(arguments[1], arguments[2]);
    setenv("GC_MAXIMUM_HEAP_SIZE", "32M", 1);
    setenv("GC_FREE_SPACE_DIVISOR", "7", 1);
    setenv("GC_PAUSE_TIME_TARGET", "5000", 1);
    setenv("GC_FULL_FREQUENCY", "3", 1);
    setenv("GC_FIND_LEAK", "1", 1);
    setenv("GC_FORCE_UNMAP_ON_GCOLLECT", "0", 1);
    setenv("GC_USE_ENTIRE_HEAP", "1", 1);
    setenv("GC_DONT_GC", "1", 1);
    static char *starts[] = {"GC_INIT",      "GC_malloc", "GC_gcollect",
                             "GC_add_roots", "GC_exclude_static_roots", "GC_new_kind"};
    for (int index = 0; index < 6; index++) {
        run(arguments[0], starts[index], "calls");
        run(arguments[0], starts[index], "variables");
    }
    run(arguments[0], "later", "calls");
    run(arguments[0], "later than an allocation", "calls");
    for (int index = 0; index < 4; index++)
        setenv(numbers[index], "0", 1);
    unsetenv("GC_FIND_LEAK");
    unsetenv("GC_DONT_GC");
    run(arguments[0], "zeros", "calls");
    return finish();
}
