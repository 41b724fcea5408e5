/* The GC_* variables of the environment: runs itself with each and looks at what changed. Also: no
   GC_init, first call is GC_malloc. */
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <signal.h>
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

/* Exported, and declared in no public header. */
void GC_printf(const char *, ...);
void GC_err_printf(const char *, ...);
void GC_log_printf(const char *, ...);

static char log_name[] = "/tmp/environment-XXXXXX";

/* What the log file has by now. */
static const char *logged(void)
{
    static char text[60001];
    FILE *file = fopen(getenv("GC_LOG_FILE"), "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = 0;
    if (file)
        fclose(file);
    return text;
}

static void print_all(void)
{
    GC_printf("to output\n");
    GC_err_printf("to errors\n");
    GC_log_printf("to the log\n");
    GC_gcollect();
}

static void logs(const char *what)
{
    GC_INIT();
    const char *output = capture(1, print_all);
    if (!strcmp(what, "log")) {
        CHECK_EQUAL(strlen(output), 0);
        CHECK(strstr(logged(), "to output") && strstr(logged(), "to errors"));
    } else {
        CHECK(strstr(output, "to output") != NULL);
        CHECK(!strstr(logged(), "to output") && !strstr(logged(), "to errors"));
    }
    CHECK(strstr(logged(), "to the log") != NULL);
    CHECK(strlen(logged()) > 60); /* of the collection */
    if (getenv("BDW_ON_NEAP"))
        CHECK_EQUAL(strlen(capture(2, GC_gcollect)), 0);
}

static void *volatile kept __attribute__((used));

/* Makes 30 MB live and 100 MB of garbage beside it; Neap then tells of each collection. */
static void work(void)
{
    for (int index = 0; index < 30 << 14; index++) {
        void **cell = GC_malloc(64);
        *cell = kept;
        kept = cell;
    }
    garbage(100 << 20);
    GC_gcollect();
}

/* Collections of young objects alone. */
static void partial(const char *what)
{
    GC_INIT();
    if (!strcmp(what, "told full"))
        GC_set_full_freq(0);
    if (!strcmp(what, "written full"))
        GC_full_freq = 0;
    const char *report = capture(2, work);
    CHECK(strstr(report, "kind=") != NULL);
    if (!GC_is_incremental_mode())
        return; /* the system does not let us watch */
    CHECK_EQUAL(strstr(report, "kind=minor") != NULL, !strcmp(what, "partial"));
}

static void incremental(const char *what)
{
    GC_INIT();
    if (!strcmp(what, "limit written"))
        GC_time_limit = 5000;
    const char *report = capture(2, work);
    if (!strcmp(what, "unlimited")) {
        CHECK(strstr(report, "kind=fork") != NULL);
    } else {
        /* A stop of five seconds is allowed. */
        CHECK(strstr(report, "kind=full") && !strstr(report, "kind=fork"));
    }
}

/* The type of the objects says that they have no pointers, unless it is ignored. */
static GC_hidden_pointer *weak;
static APART void *make_typed(void)
{
    static GC_word type[2] = {0, 0};
    void **object = GC_gcj_malloc(32, type);
    void *target = GC_malloc(64);
    object[1] = target;
    *weak = GC_HIDE_POINTER(target);
    GC_general_register_disappearing_link((void **)weak, target);
    return object;
}

static void typed(int ignored)
{
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, NULL);
    int kept_targets = 0;
    for (int turn = 0; turn < 20; turn++) {
        weak = GC_malloc_atomic(sizeof *weak);
        kept = make_typed();
        collect();
        kept_targets += *weak != 0;
    }
    CHECK(ignored ? kept_targets == 20 : kept_targets <= 2);
}

static void start(void)
{
    GC_INIT();
}

static void collect_thrice(void)
{
    for (int turn = 0; turn < 3; turn++)
        GC_gcollect();
}

static int times(const char *text, const char *word)
{
    int count = 0;
    while ((text = strstr(text, word)) != NULL) {
        count++;
        text++;
    }
    return count;
}

static long resident_pages(void)
{
    long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK_EQUAL(fscanf(file, "%ld %ld", &all, &resident), 2);
    fclose(file);
    return resident;
}

static APART void drop_sixty_megabytes(void)
{
    static void *all[3000];
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        all[index] = memset(GC_malloc(20000), 1, 20000);
    memset(all, 0, sizeof all);
}

/* Empty memory stays, however it is asked for. */
static void keeps_memory(void)
{
    drop_sixty_megabytes();
    long before = resident_pages();
    clear_stack();
    GC_gcollect();
    GC_gcollect_and_unmap();
    CHECK(resident_pages() > before - 2000);
}

/* Empty memory goes back after as many collections, and not before. */
static void keeps_memory_for_three(void)
{
    drop_sixty_megabytes();
    long before = resident_pages();
    clear_stack();
    for (int turn = 0; turn < 2; turn++) {
        GC_gcollect();
        usleep(100000);
    }
    CHECK(resident_pages() > before - 2000);
    for (int turn = 0; turn < 4; turn++) {
        GC_gcollect();
        usleep(10000);
    }
    /* Not as long as memory stays by default. */
    for (int tenth = 0; tenth < 20 && resident_pages() > before - 10000; tenth++)
        usleep(100000);
    CHECK(resident_pages() <= before - 10000);
}

/* GC_gcollect gives it back where it is told to; libgc's the third one. */
static void gives_memory_back(void)
{
    GC_set_force_unmap_on_gcollect(1);
    drop_sixty_megabytes();
    long before = resident_pages();
    clear_stack();
    for (int turn = 0; turn < 4; turn++)
        GC_gcollect();
    CHECK(resident_pages() <= before - 10000);
}

/* A program that would end stays, for a debugger to be attached. */
static void loop(char *end)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("GC_LOOP_ON_ABORT", "1", 1);
        char *arguments[] = {end, end, NULL};
        setenv("GC_FIND_LEAK", "1", 1);
        setenv("GC_ABORT_ON_LEAK", "1", 1);
        close(2);
        execv("/proc/self/exe", arguments);
        _exit(99);
    }
    usleep(1000 * 1000);
    CHECK_EQUAL(waitpid(child, NULL, WNOHANG), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static int look(const char *what)
{
    if (!strcmp(what, "log") || !strcmp(what, "log alone")) {
        logs(what);
    } else if (!strcmp(what, "abort")) {
        GC_INIT();
        leak_and_collect();
        leak_and_collect();
        _exit(0); /* not reached */
    } else if (!strcmp(what, "fault")) {
        GC_INIT();
        *(volatile int *)8 = 1;
    } else if (!strcmp(what, "entire") || !strcmp(what, "not entire")) {
        GC_INIT();
        CHECK_EQUAL(GC_use_entire_heap, !strcmp(what, "entire"));
    } else if (!strcmp(what, "interior")) {
        GC_set_all_interior_pointers(0);
        GC_INIT();
        CHECK_EQUAL(GC_get_all_interior_pointers(), 1);
        CHECK_EQUAL(GC_size(GC_malloc(16)), 32); /* with room for a byte past the end */
    } else if (!strcmp(what, "heights")) {
        GC_INIT();
        CHECK(times(capture(2, collect_thrice), "ack height") >= 3);
    } else if (!strcmp(what, "map")) {
        GC_INIT();
        CHECK(times(capture(2, collect_thrice), "[stack]") >= 3);
    } else if (!strcmp(what, "kept")) {
        GC_INIT();
        keeps_memory();
    } else if (!strcmp(what, "given back")) {
        GC_INIT();
        gives_memory_back();
    } else if (!strcmp(what, "kept for three")) {
        GC_INIT();
        keeps_memory_for_three();
    } else if (!strcmp(what, "exit")) {
        GC_INIT();
        leak();
        clear_stack();
        CHECK_EQUAL(GC_get_find_leak(), 1);
    } else if (!strcmp(what, "enabled")) {
        GC_INIT();
        CHECK(GC_is_incremental_mode());
    } else if (!strcmp(what, "enabling")) {
        GC_INIT();
        CHECK(!GC_is_incremental_mode());
        GC_enable_incremental();
        CHECK(GC_is_incremental_mode());
        CHECK_EQUAL(GC_incremental_protection_needs() & GC_PROTECTS_STACK, 0);
        unsigned long before = GC_get_gc_no();
        GC_start_incremental_collection();
        for (int turn = 0; turn < 200 && on_neap() && GC_get_gc_no() == before; turn++)
            usleep(10000);
        CHECK(!on_neap() || GC_get_gc_no() > before);
    } else if (!strcmp(what, "disabled")) {
        GC_INIT();
        GC_enable_incremental();
        CHECK(!GC_is_incremental_mode());
    } else if (!strcmp(what, "target")) {
        GC_INIT();
        CHECK_EQUAL(GC_get_time_limit(), 5000);
        CHECK_EQUAL(GC_get_full_freq(), 3);
    } else if (!strcmp(what, "unlimited") || !strncmp(what, "limit", 5)) {
        incremental(what);
    } else if (!strcmp(what, "partial") || strstr(what, " full")) {
        partial(what);
    } else if (!strcmp(what, "initial")) {
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
        GC_start_mark_threads();
        CHECK_EQUAL(GC_get_parallel(), 4);
        garbage(100 << 20);
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
        CHECK(strlen(capture(1, start)) > 0);
        CHECK(strlen(capture(1, GC_gcollect)) > 0);
    } else if (!strcmp(what, "quiet")) {
        CHECK_EQUAL(strlen(capture(1, start_and_collect)), 0);
        CHECK_EQUAL(strlen(capture(2, start_and_collect)), 0);
    } else if (!strcmp(what, "ignored") || !strcmp(what, "typed")) {
        typed(!strcmp(what, "ignored"));
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

/* The same with up to three variables; what it ends with and what it says on standard error. */
static const char *said(char *what, char *first, char *second, char *third, int expected)
{
    static char text[60001];
    char *arguments[] = {what, what, NULL}, *variables[] = {first, second, third};
    FILE *file = tmpfile();
    pid_t child = fork();
    if (child == 0) {
        for (int index = 0; index < 3 && variables[index]; index++)
            putenv(variables[index]);
        dup2(fileno(file), 2);
        execv("/proc/self/exe", arguments);
        _exit(99);
    }
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    ssize_t length = pread(fileno(file), text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    fclose(file);
    if (status != expected)
        fprintf(stderr, "failed: %s with %s: %s\n", what, first, text);
    CHECK_EQUAL(status, expected);
    return text;
}

/* The log, leaks, and the incremental mode. */
static void more(void)
{
    char file[64];
    close(mkstemp(log_name));
    snprintf(file, sizeof file, "GC_LOG_FILE=%s", log_name);
    said("log", file, "GC_PRINT_STATS=1", NULL, 0);
    truncate(log_name, 0);
    said("log alone", file, "GC_PRINT_STATS=1", "GC_ONLY_LOG_TO_FILE=1", 0);
    unlink(log_name);
    CHECK(strstr(said("nothing", "GC_NPROCS=200", NULL, NULL, 0), "neap") == NULL);
    /* Both say that there is none. */
    CHECK(strstr(said("nothing", "GC_TRACE=0x1000", NULL, NULL, 0), "GC_TRACE") != NULL);
    said("kept", "GC_UNMAP_THRESHOLD=0", "GC_FORCE_UNMAP_ON_GCOLLECT=1", NULL, 0);
    said("given back", NULL, NULL, NULL, 0);
    said("kept for three", "GC_UNMAP_THRESHOLD=3", NULL, NULL, 0);
    CHECK(strstr(said("abort", "GC_FIND_LEAK=1", "GC_ABORT_ON_LEAK=1", NULL, 6), "environment.c"));
    CHECK(strstr(said("exit", "GC_FIND_LEAK=1", NULL, NULL, 0), "environment.c"));
    said("target", "GC_PAUSE_TIME_TARGET=5000", "GC_FULL_FREQUENCY=3", NULL, 0);
    setenv("NEAP_WATCH", "fork", 1);
    said("enabled", "GC_ENABLE_INCREMENTAL=1", NULL, NULL, 0);
    said("enabling", NULL, NULL, NULL, 0);
    said("disabled", "GC_DISABLE_INCREMENTAL=1", NULL, NULL, 0);
    if (on_neap()) {
        unsetenv("NEAP_MAX_PAUSE"); /* the user's word would stand */
        setenv("NEAP_LOG", "cycles", 1);
        said("unlimited", "GC_ENABLE_INCREMENTAL=1", NULL, NULL, 0);
        said("limit written", "GC_ENABLE_INCREMENTAL=1", NULL, NULL, 0);
        said("limited", "GC_ENABLE_INCREMENTAL=1", "GC_PAUSE_TIME_TARGET=5000", NULL, 0);
        said("unlimited", "GC_PAUSE_TIME_TARGET=5000", NULL, NULL, 0); /* the mode is off */
        setenv("NEAP_WATCH", "pagemap", 1);
        said("partial", "GC_ENABLE_INCREMENTAL=1", NULL, NULL, 0);
        said("partial", "GC_ENABLE_INCREMENTAL=1", "GC_FULL_FREQUENCY=0", NULL, 0); /* ignored */
        said("told full", "GC_ENABLE_INCREMENTAL=1", NULL, NULL, 0);
        said("written full", "GC_ENABLE_INCREMENTAL=1", NULL, NULL, 0);
        unsetenv("NEAP_LOG");
        setenv("NEAP_WATCH", "none", 1);
        said("disabled", "GC_ENABLE_INCREMENTAL=1", NULL, NULL, 0);
    }
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
    run(arguments[0], "markers", "GC_MARKERS=5");
    run(arguments[0], "leak", "GC_FIND_LEAK=1");
    run(arguments[0], "quiet", NULL);
    run(arguments[0], "statistics", "GC_PRINT_STATS=1");
    run(arguments[0], "regularly", "GC_DUMP_REGULARLY=1");
    run(arguments[0], "unmap", "GC_FORCE_UNMAP_ON_GCOLLECT=1");
    run(arguments[0], "markers", "GC_NPROCS=5");
    run(arguments[0], "entire", "GC_USE_ENTIRE_HEAP=1");
    run(arguments[0], "entire", "GC_USE_ENTIRE_HEAP=");
    run(arguments[0], "not entire", "GC_USE_ENTIRE_HEAP=0");
    run(arguments[0], "not entire", NULL);
    run(arguments[0], "interior", "GC_ALL_INTERIOR_POINTERS=0");
    run(arguments[0], "heights", "GC_PRINT_BACK_HEIGHT=1");
    run(arguments[0], "map", "GC_PRINT_ADDRESS_MAP=1");
    run(arguments[0], "statistics", "GC_PRINT_VERBOSE_STATS=1");
    run(arguments[0], "typed", NULL);
    run(arguments[0], "ignored", "GC_IGNORE_GCJ_INFO=1");
    loop("abort");
    loop("fault");
    /* What neither reads, or nothing depends on. */
    static char *others[] = {
        "GC_ALL_INTERIOR_POINTERS=1", "GC_BACKTRACES=3",       "GC_COLLECT_AT_MALLOC=10",
        "GC_FINDLEAK_DELAY_FREE=1",   "GC_RETRY_SIGNALS=1",    "GC_NO_BLACKLIST_WARNING=1",
        "GC_USE_ENTIRE_HEAP=1",  "GC_LARGE_ALLOC_WARN_INTERVAL=2",
        "GC_USE_GETWRITEWATCH=1",
    };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++)
        run(arguments[0], "nothing", others[index]);
    more();
    return finish();
}
