/* What only language runtimes use: gcj objects, disclaim procedures, finalized allocation, toggle
   references. */
#include "check.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

/* A gcj type: the descriptor in its second word. */
static struct type { void *first; GC_word descriptor; } bitmap_type, proc_type;
/* One whose descriptor says that the descriptor is elsewhere in the type. */
static struct { struct type type; GC_word descriptor; } nested_type;
struct object { struct type *type; void *one, *two; };
static int proc_calls;

static struct GC_ms_entry *mark(GC_word *at, struct GC_ms_entry *stack, struct GC_ms_entry *limit,
                                GC_word environment)
{
    struct object *object = environment == 1 ? GC_USR_PTR_FROM_BASE(at) : (void *)at;
    if (!object->type)
        return stack;
    __atomic_add_fetch(&proc_calls, 1, __ATOMIC_RELAXED);
    return GC_MARK_AND_PUSH(object->two, stack, limit, &object->two);
}

static struct object *volatile objects[MANY];
static GC_hidden_pointer one[MANY], two[MANY];

static APART void make_objects(struct type *type, int debug)
{
    for (int index = 0; index < MANY; index++) {
        struct object *object = debug ? GC_debug_gcj_malloc(sizeof *object, type, "runtimes.c", 1)
                                      : GC_gcj_malloc(sizeof *object, type);
        CHECK(object->type == type && !object->one && !object->two);
        object->one = GC_malloc_atomic(16);
        object->two = GC_malloc_atomic(16);
        one[index] = GC_HIDE_POINTER(object->one);
        two[index] = GC_HIDE_POINTER(object->two);
        GC_general_register_disappearing_link((void **)&one[index], object->one);
        GC_general_register_disappearing_link((void **)&two[index], object->two);
        objects[index] = object;
    }
}

static void gcj(struct type *type, int debug)
{
    make_objects(type, debug);
    collect();
    int gone = 0, kept = 0;
    for (int index = 0; index < MANY; index++) {
        gone += one[index] == 0;
        kept += two[index] != 0 && objects[index] != NULL;
        GC_unregister_disappearing_link((void **)&one[index]);
        GC_unregister_disappearing_link((void **)&two[index]);
        objects[index] = NULL;
    }
    CHECK_EQUAL(kept, MANY);
    CHECK_NEARLY_ALL(gone);
}

static int closures;
static void close_it(void *object, void *data)
{
    CHECK(((long *)object)[0] == 4711);
    CHECK(data == &closures);
    closures++;
}
static APART void make_finalized(void)
{
    static const struct GC_finalizer_closure closure = {close_it, &closures};
    for (int index = 0; index < MANY; index++) {
        long *object = GC_finalized_malloc(24, &closure);
        CHECK(((uintptr_t)object & 7) == 0 && object[0] == 0 && object[2] == 0);
        CHECK(GC_base(object) == (void *)(object - 1));
        object[0] = 4711;
    }
}

static int asked, refused;
static int kind;
static int disclaim(void *at)
{
    long *object = at;
    if (object[1] == 0) /* libgc also asks for objects that were never given out */
        return 0;
    asked++;
    if (object[1] == 1) {
        object[1] = 2;
        refused++;
        return 1;
    }
    object[1] = 0;
    return 0;
}
static APART void make_disclaimed(void)
{
    for (int index = 0; index < MANY; index++)
        ((long *)GC_generic_malloc(32, kind))[1] = 1;
}

static GC_ToggleRefStatus status = GC_TOGGLE_REF_STRONG;
static GC_ToggleRefStatus decide(void *object)
{
    (void)object;
    return status;
}
static GC_hidden_pointer toggled[MANY];
static APART void make_toggled(void)
{
    for (int index = 0; index < MANY; index++) {
        void *object = GC_malloc(32);
        toggled[index] = GC_HIDE_POINTER(object);
        GC_general_register_disappearing_link((void **)&toggled[index], object);
        CHECK_EQUAL(GC_toggleref_add(object, 1), GC_SUCCESS);
    }
}
static int toggled_alive(void)
{
    int count = 0;
    for (int index = 0; index < MANY; index++)
        count += toggled[index] != 0;
    return count;
}

int main(void)
{
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)mark);
    bitmap_type.descriptor = (GC_word)1 << 61 | GC_DS_BITMAP;
    proc_type.descriptor = GC_MAKE_PROC(GC_GCJ_RESERVED_MARK_PROC_INDEX, 0);
    CHECK(GC_gcj_kind > 3 && GC_gcj_debug_kind > 3);
    nested_type.type.descriptor =
        (GC_word)(-(GC_signed_word)sizeof(struct type) - GC_INDIR_PER_OBJ_BIAS) | GC_DS_PER_OBJECT;
    nested_type.descriptor = bitmap_type.descriptor;
    gcj(&bitmap_type, 0);
    gcj(&nested_type.type, 0);
    CHECK_EQUAL(proc_calls, 0);
    gcj(&proc_type, 0);
    CHECK(proc_calls >= MANY);
    gcj(&bitmap_type, 1);
    CHECK(GC_gcj_malloc_ignore_off_page(100000, &bitmap_type) != NULL);

    GC_init_finalized_malloc();
    make_finalized();
    collect();
    collect();
    CHECK_NEARLY_ALL(closures);

    kind = GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    GC_register_disclaim_proc(kind, disclaim, 0);
    make_disclaimed();
    for (int round = 0; round < 4; round++) {
        collect();
        for (int index = 0; index < 10000; index++) /* sweeps blocks of that size */
            GC_generic_malloc(32, kind);
    }
    CHECK_NEARLY_ALL(refused);
    CHECK(asked - refused >= MANY - 2 * STRAY);

    CHECK_EQUAL(GC_toggleref_add(GC_malloc(10), 1), GC_SUCCESS); /* no callback yet: no effect */
    GC_set_toggleref_func(decide);
    CHECK(GC_get_toggleref_func() == decide);
    make_toggled();
    collect();
    CHECK_EQUAL(toggled_alive(), MANY);
    status = GC_TOGGLE_REF_WEAK;
    collect();
    CHECK(toggled_alive() <= STRAY);
    status = GC_TOGGLE_REF_STRONG;
    make_toggled();
    collect();
    CHECK_EQUAL(toggled_alive(), MANY);
    status = GC_TOGGLE_REF_DROP;
    collect();
    CHECK(toggled_alive() <= STRAY);
    return finish();
}
