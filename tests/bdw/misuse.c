/* Wrong use, one case per run: `misuse CASE`. The program has to die by abort(3) with a message
   that names the function; run.sh looks. For Neap only: what libgc does in these cases is not
   defined. */
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <sys/resource.h>

static int local;

static struct GC_ms_entry *marks_nothing(GC_word *object, struct GC_ms_entry *top,
                                         struct GC_ms_entry *limit, GC_word environment)
{
    (void)object, (void)limit, (void)environment;
    return top;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    GC_INIT();
    char *volatile object = GC_malloc(100);
    char *volatile other = &((char *)&local)[0];
    if (!strcmp(what, "double-free")) {
        GC_free(object);
        GC_free(object);
    } else if (!strcmp(what, "interior-free")) {
        GC_free(object + 8);
    } else if (!strcmp(what, "foreign-free")) {
        GC_free(other);
    } else if (!strcmp(what, "malloc-free")) {
        GC_free(malloc(100));
    } else if (!strcmp(what, "interior-realloc")) {
        object = GC_realloc(object + 16, 200);
    } else if (!strcmp(what, "foreign-realloc")) {
        other = GC_realloc(other, 200);
    } else if (!strcmp(what, "debug-double-free")) {
        object = GC_debug_malloc(10, "here.c", 1);
        GC_debug_free(object);
        GC_debug_free(object);
    } else if (!strcmp(what, "large-double-free")) {
        object = GC_malloc(1 << 20);
        GC_free(object);
        GC_free(object);
    } else if (!strcmp(what, "unaligned-link")) {
        static char link[32] __attribute__((aligned(8)));
        GC_general_register_disappearing_link((void **)(link + 1), object);
    } else if (!strcmp(what, "no-such-kind")) {
        object = GC_generic_malloc(16, 63);
    } else if (!strcmp(what, "gcj-before-init")) {
        object = GC_gcj_malloc(16, &local);
    } else if (!strcmp(what, "kinds-without-end")) {
        for (int round = 0; round < 1000; round++)
            GC_new_kind(GC_new_free_list(), 0, 1, 1);
    } else if (!strcmp(what, "kind-without-memory")) {
        /* Not wrong use: what its procedure marks must not be lost for want of memory. */
        struct rlimit none = {0, 0};
        unsigned procedure = GC_new_proc(marks_nothing);
        void **lists = GC_new_free_list();
        setrlimit(RLIMIT_AS, &none);
        GC_new_kind(lists, GC_MAKE_PROC(procedure, 0), 0, 1);
    } else if (!strcmp(what, "typed-without-memory")) {
        struct rlimit none = {0, 0};
        unsigned procedure = GC_new_proc(marks_nothing);
        setrlimit(RLIMIT_AS, &none);
        object = GC_malloc_explicitly_typed(64, GC_MAKE_PROC(procedure, 0));
    } else if (!strcmp(what, "not-the-same-object")) {
        GC_same_obj(object, other);
    } else {
        fprintf(stderr, "no such case: %s\n", what);
        return 2;
    }
    GC_reachable_here(object);
    GC_reachable_here(other);
    fprintf(stderr, "went on\n");
    return 0;
}
