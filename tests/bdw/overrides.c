/* What the program sets before GC_init gives way to the environment, what it sets later does not.
   Runs itself with the variables. */
#include "check.h"
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

static int look(const char *what)
{
    if (!strcmp(what, "calls")) {
        set_by_calls();
        GC_INIT();
        check_environment();
    } else if (!strcmp(what, "variables")) {
        set_in_variables();
        GC_INIT();
        check_environment();
    } else if (!strcmp(what, "later")) {
        GC_INIT();
        set_by_calls();
        GC_INIT();
        check_program();
    } else {
        CHECK(GC_malloc(1) != NULL); /* starts the collector, too */
        set_by_calls();
        GC_INIT();
        check_program();
    }
    return finish();
}

int main(int count, char **arguments)
{
    if (count > 1)
        return look(arguments[1]);
    setenv("GC_MAXIMUM_HEAP_SIZE", "32M", 1);
    setenv("GC_FREE_SPACE_DIVISOR", "7", 1);
    setenv("GC_PAUSE_TIME_TARGET", "5000", 1);
    setenv("GC_FULL_FREQUENCY", "3", 1);
    setenv("GC_FIND_LEAK", "1", 1);
    setenv("GC_FORCE_UNMAP_ON_GCOLLECT", "0", 1);
    setenv("GC_USE_ENTIRE_HEAP", "1", 1);
    setenv("GC_DONT_GC", "1", 1);
    static char *cases[] = {"calls", "variables", "later", "later than an allocation"};
    for (int index = 0; index < 4; index++) {
        pid_t child = fork();
        if (child == 0) {
            char *words[] = {arguments[0], cases[index], NULL};
            execv("/proc/self/exe", words);
            _exit(99);
        }
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        if (status != 0)
            fprintf(stderr, "failed: %s\n", cases[index]);
        CHECK_EQUAL(status, 0);
    }
    return finish();
}
