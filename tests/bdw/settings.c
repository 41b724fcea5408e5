/* Settings: what a setter sets, its getter and the variable of the same name say, and what a
   program stores in the variable the getter says. What they do besides is in the tests of their
   areas. Also callbacks that can be asked for, versions, dumps. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

#define SAME(set, get, value)        \
    do {                             \
        __typeof__(get()) old = get(); \
        set(value);                  \
        CHECK(get() == (value));     \
        set(old);                    \
        CHECK(get() == old);         \
    } while (0)
/* The same with a variable. */
#define SAME_AS(variable, set, get, value)   \
    do {                                     \
        __typeof__(get()) old = get();       \
        CHECK(variable == old);              \
        set(value);                          \
        CHECK(variable == (value));          \
        CHECK(get() == (value));             \
        variable = old;                      \
        CHECK(get() == old);                 \
    } while (0)

/* Data that no header declares. */
extern GC_abort_func GC_on_abort;
extern void GC_log_printf(const char *format, ...);

/* As many as no machine that this runs on takes by itself. */
enum { MARKERS = 5 };

static void resized(GC_word bytes)
{
    (void)bytes;
}
static void notified(void)
{
}
static void aborted(const char *text)
{
    (void)text;
}
static int warnings;
static void warned(char *text, GC_word word)
{
    (void)text;
    (void)word;
    warnings++;
}

static void before_start(void)
{
    /* Displacements and these are to be said before the start. */
    GC_set_all_interior_pointers(1);
    CHECK_EQUAL(GC_get_all_interior_pointers(), 1);
    CHECK_EQUAL(GC_all_interior_pointers, 1);
    GC_set_pages_executable(0);
    CHECK_EQUAL(GC_get_pages_executable(), 0);
    GC_set_markers_count(MARKERS);
    GC_set_handle_fork(1);
    GC_set_suspend_signal(SIGRTMIN + 3);
    GC_set_thr_restart_signal(SIGRTMIN + 4);
    GC_set_manual_vdb_allowed(0);
    CHECK_EQUAL(GC_get_manual_vdb_allowed(), 0);
    GC_set_manual_vdb_allowed(1);
    CHECK_EQUAL(GC_get_manual_vdb_allowed(), 1);
    SAME_AS(GC_dont_precollect, GC_set_dont_precollect, GC_get_dont_precollect, 1);
    GC_use_entire_heap = 1;
    CHECK_EQUAL(GC_use_entire_heap, 1);
    GC_use_entire_heap = 0;
}

/* Whether the process has a handler of a signal, in the kernel's words. */
static int is_caught(int signal)
{
    unsigned long long caught = 0;
    char line[200];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        sscanf(line, "SigCgt: %llx", &caught);
    fclose(status);
    return caught >> (signal - 1) & 1;
}

static void check_values(void)
{
    CHECK_EQUAL(GC_get_suspend_signal(), SIGRTMIN + 3);
    CHECK(is_caught(SIGRTMIN + 3));
    /* The headers are the system's; Neap says 8.2.2 whatever these say. */
    CHECK_EQUAL(GC_get_version(), (GC_VERSION_MAJOR << 16) | (GC_VERSION_MINOR << 8) |
                                      (on_neap() ? 2 : GC_VERSION_MICRO));
    CHECK(GC_PROTECTS_NONE == 0 && GC_PROTECTS_POINTER_HEAP && GC_PROTECTS_PTRFREE_HEAP &&
          GC_PROTECTS_STATIC_DATA && GC_PROTECTS_STACK);
    CHECK_EQUAL(GC_parallel, GC_get_parallel());
    CHECK(GC_UNIMPLEMENTED != GC_SUCCESS && GC_NO_MEMORY != GC_SUCCESS);

    SAME(GC_set_allocd_bytes_per_finalizer, GC_get_allocd_bytes_per_finalizer, 12345);
    SAME(GC_set_max_prior_attempts, GC_get_max_prior_attempts, 3);
    SAME(GC_set_rate, GC_get_rate, 7);
    SAME(GC_set_force_unmap_on_gcollect, GC_get_force_unmap_on_gcollect, 1);
    SAME(GC_set_warn_proc, GC_get_warn_proc, warned);
    SAME(GC_set_abort_func, GC_get_abort_func, aborted);
    SAME_AS(GC_no_dls, GC_set_no_dls, GC_get_no_dls, 1);
    SAME_AS(GC_dont_expand, GC_set_dont_expand, GC_get_dont_expand, 1);
    SAME_AS(GC_find_leak, GC_set_find_leak, GC_get_find_leak, 1);
    SAME_AS(GC_finalize_on_demand, GC_set_finalize_on_demand, GC_get_finalize_on_demand, 1);
    int other_finalization = !GC_java_finalization;
    SAME_AS(GC_java_finalization, GC_set_java_finalization, GC_get_java_finalization,
            other_finalization);
    SAME_AS(GC_max_retries, GC_set_max_retries, GC_get_max_retries, 9);
    SAME_AS(GC_time_limit, GC_set_time_limit, GC_get_time_limit, 123);
    SAME_AS(GC_free_space_divisor, GC_set_free_space_divisor, GC_get_free_space_divisor, 5);
    SAME_AS(GC_on_heap_resize, GC_set_on_heap_resize, GC_get_on_heap_resize, resized);
    SAME_AS(GC_finalizer_notifier, GC_set_finalizer_notifier, GC_get_finalizer_notifier, notified);
    SAME_AS(GC_on_abort, GC_set_abort_func, GC_get_abort_func, aborted);

    struct GC_timeval_s limit = {17, 250000};
    GC_set_time_limit_tv(limit);
    CHECK_EQUAL(GC_get_time_limit_tv().tv_ms, 17);
    CHECK_EQUAL(GC_get_time_limit_tv().tv_nsec, 250000);
    CHECK_EQUAL(GC_get_time_limit(), 17);
    GC_set_time_limit(GC_TIME_UNLIMITED);

    /* It counts only before the start on libgc, and the answer is 0 or 1. */
    GC_set_manual_vdb_allowed(1);
    CHECK((GC_get_manual_vdb_allowed() & ~1) == 0);
    /* Markers are none until they are asked for, and in a child again. */
    CHECK_EQUAL(GC_get_parallel(), 0);
    GC_start_mark_threads();
    CHECK_EQUAL(GC_get_parallel(), MARKERS - 1);
    CHECK_EQUAL(GC_parallel, MARKERS - 1);
    void (*const starts[])(void) = {GC_start_mark_threads, GC_allow_register_threads};
    for (int way = 0; way < 2; way++) {
        pid_t child = fork();
        if (child == 0) {
            int before = GC_get_parallel();
            starts[way]();
            _exit(before != 0 || GC_get_parallel() != MARKERS - 1);
        }
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    }
    CHECK_EQUAL(GC_get_parallel(), MARKERS - 1);
    struct GC_prof_stats_s figures, same;
    CHECK_EQUAL(GC_get_prof_stats(&figures, sizeof figures), sizeof figures);
    GC_alloc_lock();
    size_t known = GC_get_prof_stats_unsafe(&same, sizeof same);
    GC_alloc_unlock();
    CHECK_EQUAL(known, sizeof same);
    CHECK_EQUAL(same.gc_no, figures.gc_no);
    CHECK_EQUAL(same.heapsize_full, figures.heapsize_full);
}

static void dump(void)
{
    GC_dump();
}
static void dump_named(void)
{
    GC_dump_named("of-settings");
}
static void dump_regions(void)
{
    GC_dump_regions();
}

static APART void check_output(void)
{
    /* Dumps go to the log or to standard output: both are the file here. */
    char name[] = "/tmp/settings-XXXXXX";
    int file = mkstemp(name);
    GC_set_log_fd(file);
    CHECK(strlen(capture(1, dump)) + (size_t)lseek(file, 0, SEEK_END) > 20);
    const char *said = capture(1, dump_named);
    char text[60001];
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    CHECK(strstr(said, "of-settings") || strstr(text, "of-settings"));
    CHECK(strlen(capture(1, dump_regions)) + (size_t)lseek(file, 0, SEEK_END) > 20);
    /* The log is there alone. */
    GC_log_printf("a line of the log\n");
    length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    CHECK(strstr(text, "a line of the log"));
    GC_set_log_fd(2);
    close(file);
    unlink(name);
}

int main(void)
{
    before_start();
    GC_INIT();
    check_values();
    check_output();
    GC_gcollect();
    CHECK_EQUAL(warnings, 0);
    /* Nothing changes for code that runs at exit. */
    void **kept = GC_malloc(100);
    GC_deinit();
    kept[0] = kept;
    CHECK(kept[0] == kept);
    return finish();
}
