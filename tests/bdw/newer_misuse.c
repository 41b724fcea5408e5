/* Wrong use of functions of newer versions, one case per run: `newer_misuse CASE`. As misuse.c. */
#include "newer.h"

static GC_ToggleRefStatus drop(void *object)
{
    (void)object;
    return GC_TOGGLE_REF_DROP;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    struct GC_calloc_typed_descr_s prepared;
    GC_INIT();
    char *volatile object = GC_malloc(100);
    if (!strcmp(what, "pointer-mask")) {
        GC_set_pointer_mask((GC_word)-1 >> 16);
    } else if (!strcmp(what, "pointer-shift")) {
        GC_set_pointer_shift(3);
    } else if (!strcmp(what, "gcj-displacement")) {
        GC_init_gcj_malloc_mp(0, NULL, 24);
    } else if (!strcmp(what, "gcj-index")) {
        GC_init_gcj_malloc_mp(64, NULL, sizeof(void *));
    } else if (!strcmp(what, "prepared-null")) {
        GC_calloc_prepare_explicitly_typed(NULL, sizeof prepared, 1, 8, 0);
    } else if (!strcmp(what, "prepared-small")) {
        GC_calloc_prepare_explicitly_typed(&prepared, 8, 1, 8, 0);
    } else if (!strcmp(what, "allocated-null")) {
        object = GC_calloc_do_explicitly_typed(NULL, sizeof prepared);
    } else if (!strcmp(what, "interior-freezero")) {
        GC_freezero(object + 8, 8);
    } else if (!strcmp(what, "double-freezero")) {
        GC_freezero(object, 8);
        GC_freezero(object, 8);
    } else if (!strcmp(what, "foreign-freezero")) {
        GC_freezero(&prepared, 8);
    } else if (!strcmp(what, "foreign-reallocf")) {
        object = GC_reallocf(&prepared, 200);
    } else if (!strcmp(what, "foreign-toggle")) {
        GC_set_toggleref_func(drop);
        GC_debug_toggleref_add(&prepared, 1);
    } else {
        fprintf(stderr, "no such case: %s\n", what);
        return 2;
    }
    GC_reachable_here(object);
    fprintf(stderr, "went on\n");
    return 0;
}
