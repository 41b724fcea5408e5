/* What runtimes call: the forms of kinds and procedures with the lock held, marking by hand, roots
   that are forgotten, descriptions of objects, threads by their GC_ names, forks that the program
   sees to itself. */
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <signal.h>
#include <sys/wait.h>

/* libgc exports it, and declares it in private headers. */
void GC_noop1(GC_word);

/* Objects whose second word alone is a pointer, hidden by its complement. */
static struct GC_ms_entry *mark_hidden(GC_word *object, struct GC_ms_entry *top,
                                       struct GC_ms_entry *limit, GC_word argument)
{
    CHECK_EQUAL(argument, 5);
    void *pointer = GC_REVEAL_POINTER(object[1]);
    CHECK(GC_PROC_BYTES >= 2 * (int)sizeof(GC_word));
    if (object[1] != 0 && GC_base(pointer) != NULL)
        return GC_mark_and_push(pointer, top, limit, (void **)&object[1]);
    return top;
}

static unsigned hidden_kind, described_kind;
static void *make_kinds(void *data)
{
    (void)data;
    unsigned procedure = GC_new_proc_inner(mark_hidden);
    CHECK(procedure >= GC_RESERVED_MARK_PROCS && procedure < GC_MAX_MARK_PROCS);
    CHECK_EQUAL(GC_MAX_MARK_PROCS, 1 << GC_LOG_MAX_MARK_PROCS);
    GC_word descriptor = GC_MAKE_PROC(procedure, 5);
    CHECK_EQUAL(descriptor & ((1 << GC_DS_TAG_BITS) - 1), GC_DS_PROC);
    hidden_kind = GC_new_kind_inner(GC_new_free_list_inner(), descriptor, 0, 1);
    described_kind = GC_new_kind_inner(GC_new_free_list_inner(), GC_DS_LENGTH, 1, 1);
    return NULL;
}

static GC_hidden_pointer *links;
static APART void *make_hidden(int index)
{
    GC_word *object = index % 2 ? GC_GENERIC_OR_SPECIAL_MALLOC(32, (int)hidden_kind)
                                : GC_generic_malloc_ignore_off_page(32, (int)hidden_kind);
    void *target = GC_malloc(48);
    object[1] = GC_HIDE_POINTER(target);
    links[index] = GC_HIDE_POINTER(target);
    GC_general_register_disappearing_link((void **)&links[index], target);
    return object;
}

static int count_gone(void)
{
    int gone = 0;
    for (int index = 0; index < MANY; index++)
        gone += links[index] == 0;
    return gone;
}

static void print_free_list(void)
{
    GC_print_free_list(GC_I_NORMAL, 2);
}

static APART void check_marking(void)
{
    GC_call_with_alloc_lock(make_kinds, NULL);
    void **keepers = GC_malloc_uncollectable(MANY * sizeof(void *));
    links = GC_malloc_atomic(MANY * sizeof *links);
    for (int index = 0; index < MANY; index++)
        keepers[index] = make_hidden(index);
    collect();
    CHECK_EQUAL(count_gone(), 0);
    size_t bytes = 0;
    CHECK_EQUAL(GC_get_kind_and_size(keepers[0], &bytes), (int)hidden_kind);
    CHECK(bytes >= 32);
    void *same = GC_generic_or_special_malloc(bytes, GC_get_kind_and_size(keepers[0], NULL));
    CHECK_EQUAL(GC_get_kind_and_size(same, NULL), (int)hidden_kind);
    memset(keepers, 0, MANY * sizeof(void *));
    same = NULL;
    collect();
    CHECK_NEARLY_ALL(count_gone());
    GC_free(keepers);

    void **uncollectable = GC_generic_malloc_uncollectable(64, GC_I_NORMAL);
    CHECK(uncollectable[0] == NULL && GC_base(uncollectable) == uncollectable);
    GC_free(uncollectable);
    CHECK(GC_size(GC_malloc_kind(100, GC_I_PTRFREE)) >= 100);
    CHECK(GC_size(GC_malloc_kind_global(100, GC_I_NORMAL)) >= 100);
    CHECK(GC_malloc_atomic_ignore_off_page(100000) != NULL);
    GC_word word = 3;
    GC_noop1(word);
    CHECK(GC_clear_stack(&word) == &word);
    CHECK(strlen(capture(1, print_free_list)) > 0 || !on_neap());
}

/* A root procedure that knows one object nobody else does. */
static GC_hidden_pointer only_here;
static GC_push_other_roots_proc before;
static int pushed;
static void push_roots(void)
{
    void *object = GC_REVEAL_POINTER(only_here);
    pushed++;
    GC_push_all_eager(&object, &object + 1);
    GC_push_finalizer_structures();
    if (before)
        before();
}
static APART void check_root_procedure(void)
{
    before = GC_get_push_other_roots();
    GC_set_push_other_roots(push_roots);
    CHECK(GC_get_push_other_roots() == push_roots);
    GC_hidden_pointer *link = GC_malloc_atomic(sizeof *link);
    only_here = *link = GC_HIDE_POINTER(GC_malloc(64));
    GC_general_register_disappearing_link((void **)link, GC_REVEAL_POINTER(*link));
    collect();
    CHECK(pushed > 0 && *link != 0);
    GC_set_push_other_roots(before);
}

/* Types whose second word alone is a pointer, and a program's own list of objects. */
struct typed {
    long number;
    void *pointer;
};
static void check_macros(void)
{
    struct typed *object = GC_NEW(struct typed);
    CHECK(object->number == 0 && object->pointer == NULL);
    CHECK(GC_size(GC_NEW_ATOMIC(struct typed)) >= sizeof *object);
    CHECK(GC_NEW_STUBBORN(struct typed)->pointer == NULL);
    struct typed *uncollectable = GC_NEW_UNCOLLECTABLE(struct typed);
    CHECK(uncollectable->pointer == NULL);
    GC_FREE(uncollectable);
    GC_word bitmap[GC_BITMAP_SIZE(struct typed)] = {0};
    GC_set_bit(bitmap, GC_WORD_OFFSET(struct typed, pointer));
    CHECK_EQUAL(bitmap[0], 2);
    CHECK_EQUAL(GC_WORD_LEN(struct typed), 2);

    static GC_word type[2] = {0, 32};
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, NULL);
    void **java = GC_GCJ_MALLOC(32, type);
    CHECK(java[0] == type && java[1] == NULL);
    java = GC_GCJ_MALLOC_IGNORE_OFF_PAGE(100000, type);
    CHECK(java[0] == type && java[1] == NULL);

    void *lists[GC_TINY_FREELISTS] = {(void *)1, (void *)1, (void *)1};
    void **words;
    GC_MALLOC_WORDS_KIND(words, 2, lists, GC_I_NORMAL, words[0] = &words);
    CHECK(words[0] == &words && words[1] == NULL);

    void *stubborn = GC_malloc_stubborn(100);
    CHECK(GC_size(stubborn) >= 100);
    GC_change_stubborn(stubborn);
    GC_end_stubborn_change(stubborn);
    CHECK(GC_base(stubborn) == stubborn);
}

/* Of an object that a collection has marked. */
static APART void *mark_bits(void *object)
{
    CHECK_EQUAL(GC_is_marked(object), 1);
    GC_clear_mark_bit(object);
    CHECK_EQUAL(GC_is_marked(object), 0);
    GC_set_mark_bit(object);
    /* Neap's markers would take the object for one that was scanned: docs/boehm.md. */
    CHECK_EQUAL(GC_is_marked(object), !on_neap());
    return object;
}

static int asked;
static int has_roots(const char *name, void *start, size_t bytes)
{
    CHECK(name != NULL && start != NULL && bytes > 0);
    asked++;
    return 1;
}

/* A program that asks for its end where memory is refused. */
static void end_without_memory(void)
{
    pid_t child = fork();
    if (child == 0) {
        close(2);
        GC_abort_on_oom();
        _exit(0);
    }
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void describe(void *object, char *text)
{
    (void)object;
    snprintf(text, GC_TYPE_DESCR_LEN, "described-object");
}
static APART void leak(void)
{
    for (int index = 0; index < 10; index++)
        ((char *)GC_debug_generic_or_special_malloc(40, (int)described_kind, "runtime_forms.c",
                                                    index))[0] = 1;
}
static void leak_and_find(void)
{
    leak();
    clear_stack();
    GC_gcollect();
    GC_gcollect();
}
static void free_overrun(void)
{
    char *object = GC_debug_generic_or_special_malloc(40, (int)described_kind, "overrun", 1);
    volatile size_t past = 40;
    object[past] = 1;
    GC_debug_free(object);
}
static void check_descriptions(void)
{
    GC_register_describe_type_fn((int)described_kind, describe);
    GC_set_find_leak(1);
    /* libgc asks about leaked objects; here they are gone by then. */
    const char *leaks = capture(2, leak_and_find);
    CHECK(strstr(leaks, on_neap() ? "runtime_forms.c:" : "described-object") != NULL);
    GC_set_find_leak(0);
    if (on_neap())
        CHECK(strstr(capture(2, free_overrun), "described-object") != NULL);
}

/* Ranges in which something is until they are forgotten. */
static void *volatile range[MANY];
static APART void fill_range(void)
{
    for (int index = 0; index < MANY; index++) {
        void *object = GC_malloc(64);
        range[index] = object;
        links[index] = GC_HIDE_POINTER(object);
        GC_general_register_disappearing_link((void **)&links[index], object);
    }
}
static void check_roots(void)
{
    fill_range();
    GC_exclude_static_roots((void *)range, (void *)(range + MANY));
    collect();
    CHECK_NEARLY_ALL(count_gone());
    /* libgc's own data is among what is excluded, and it dies of a collection afterwards. */
    if (on_neap()) {
        GC_clear_exclusion_table();
        fill_range();
        collect();
        CHECK_EQUAL(count_gone(), 0);
    }

    void **outside = malloc(MANY * sizeof(void *));
    GC_add_roots(outside, outside + MANY);
    CHECK_EQUAL(GC_is_tmp_root(outside), 0);
    static int inside = 1;
    CHECK(GC_is_tmp_root(&inside));
    fill_range();
    memcpy(outside, (void *)range, sizeof range);
    memset((void *)range, 0, sizeof range);
    collect();
    CHECK_EQUAL(count_gone(), 0);
    GC_clear_roots();
    collect();
    CHECK_NEARLY_ALL(count_gone());
    free(outside);
}

static void *volatile thread_object;
static void *make_object(void *data)
{
    sigset_t none, old;
    sigemptyset(&none);
    sigset_t one, now;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    CHECK_EQUAL(GC_pthread_sigmask(SIG_BLOCK, &one, &old), 0);
    CHECK_EQUAL(GC_pthread_sigmask(SIG_BLOCK, &none, &now), 0);
    CHECK(sigismember(&now, SIGUSR2) && !sigismember(&old, SIGUSR2));
    CHECK(GC_thread_is_registered());
    thread_object = GC_malloc(100);
    GC_gcollect();
    if (data != NULL)
        GC_pthread_exit((void *)7);
    return (void *)8;
}
static void *wait_for_ever(void *data)
{
    (void)data;
    for (;;)
        pause();
}
static void check_detaching(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    int state = -1;
    CHECK_EQUAL(GC_pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
    CHECK_EQUAL(GC_pthread_detach(thread), 0);
    CHECK_EQUAL(pthread_getattr_np(thread, &attributes), 0);
    CHECK_EQUAL(pthread_attr_getdetachstate(&attributes, &state), 0);
    CHECK_EQUAL(state, PTHREAD_CREATE_DETACHED);
    CHECK_EQUAL(pthread_attr_destroy(&attributes), 0);
    CHECK_EQUAL(GC_pthread_cancel(thread), 0);
}

static void check_threads(void)
{
    pthread_t thread;
    void *result = NULL;
    CHECK_EQUAL(GC_pthread_create(&thread, NULL, make_object, NULL), 0);
    CHECK_EQUAL(GC_pthread_join(thread, &result), 0);
    CHECK(result == (void *)8);
    CHECK_EQUAL(GC_pthread_create(&thread, NULL, make_object, &thread), 0);
    CHECK_EQUAL(GC_pthread_join(thread, &result), 0);
    CHECK(result == (void *)7);
    CHECK_EQUAL(GC_pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
    CHECK_EQUAL(GC_pthread_cancel(thread), 0);
    CHECK_EQUAL(GC_pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
    thread_object = NULL;
    CHECK_EQUAL(GC_pthread_create(&thread, NULL, make_object, NULL), 0);
    CHECK_EQUAL(GC_pthread_detach(thread), 0);
    check_detaching();
    while (thread_object == NULL)
        usleep(1000);

    struct GC_stack_base base;
    CHECK(GC_get_my_stackbottom(&base) != NULL || !on_neap());
    GC_alloc_lock();
    GC_set_stackbottom(NULL, &base);
    GC_alloc_unlock();
    static char alternate[1 << 14];
    GC_register_altstack(base.mem_base, 0, alternate, sizeof alternate);
    GC_gcollect();
}

static void check_fork(void)
{
    void **kept = GC_malloc(64);
    kept[0] = GC_strdup("kept");
    fflush(NULL);
    GC_atfork_prepare();
    pid_t child = fork();
    if (child == 0) {
        GC_atfork_child();
        GC_gcollect();
        for (int index = 0; index < 100000; index++)
            GC_malloc(64);
        _exit(strcmp(kept[0], "kept") != 0);
    }
    GC_atfork_parent();
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    GC_gcollect();
    CHECK(strcmp(kept[0], "kept") == 0);
}

int main(void)
{
    GC_set_handle_fork(-1);
    GC_register_has_static_roots_callback(has_roots);
    GC_INIT();
    GC_allow_register_threads();
    check_marking();
    check_root_procedure();
    check_descriptions();
    check_roots();
    check_threads();
    check_fork();
    check_macros();
    void *volatile marked = GC_malloc(64);
    GC_gcollect();
    GC_call_with_alloc_lock(mark_bits, marked);
    CHECK(asked > 0);
    end_without_memory();
    return finish();
}
