/* Registrations of finalizers for which there is no memory: nothing changes, and the caller's
   variables for the former finalizer stay as they were. */
#include "check.h"
#include <sys/resource.h>

/* So many refused one after the other: there is memory for none. */
enum { OBJECTS = 300000, SPARSE = 64, REFUSED = 1000 };

static int warnings, data;

static void count_warning(char *message, GC_word argument)
{
    (void)message, (void)argument;
    warnings++;
}

static void first(void *object, void *argument)
{
    (void)object, (void)argument;
}

static void second(void *object, void *argument)
{
    (void)object, (void)argument;
}

static void of_caller(void *object, void *argument)
{
    (void)object, (void)argument;
}

static GC_finalization_proc former;
static void *former_data;

static void registered(void *object, GC_finalization_proc finalizer, void *argument)
{
    former = of_caller, former_data = &former;
    GC_debug_register_finalizer(object, finalizer, argument, &former, &former_data);
}

static int is_former(GC_finalization_proc finalizer, void *argument)
{
    return former == finalizer && former_data == argument;
}

int main(void)
{
    struct rlimit before, none = {0, 0};
    int refused = 0;
    GC_INIT();
    GC_set_warn_proc(count_warning);
    void *object = GC_debug_malloc(64, __FILE__, __LINE__);
    void *other = GC_debug_malloc(64, __FILE__, __LINE__);
    void **objects = GC_malloc(OBJECTS * sizeof *objects);
    for (int at = 0; at < OBJECTS; at++)
        objects[at] = GC_malloc_atomic(16);
    /* What the library has for addresses close to each other is there then. */
    for (int at = 0; at < OBJECTS; at += SPARSE)
        GC_register_finalizer_no_order(objects[at], first, NULL, NULL, NULL);
    registered(object, first, &data);
    CHECK(is_former(NULL, NULL));
    GC_disable();
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    none.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    for (int at = 0; at < OBJECTS && refused < REFUSED; at++) {
        former = of_caller;
        GC_register_finalizer_no_order(objects[at], second, NULL, &former, NULL);
        refused = former == of_caller ? refused + 1 : at % SPARSE == 0 ? refused : 0;
    }
    CHECK(refused == REFUSED);
    registered(other, second, &data);
    CHECK(is_former(of_caller, &former));
    /* libgc needs no memory to replace one. */
    registered(object, second, &warnings);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(is_former(of_caller, &former) || is_former(first, &data));
    int is_replaced = former == first;
    CHECK(!on_neap() || warnings > 0);
    registered(object, NULL, NULL);
    CHECK(is_replaced ? is_former(second, &warnings) : is_former(first, &data));
    registered(other, NULL, NULL);
    CHECK(is_former(NULL, NULL));
    GC_enable();
    GC_reachable_here(objects);
    return finish();
}
