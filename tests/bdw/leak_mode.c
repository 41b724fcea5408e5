/* The leak-finding mode has neither finalizers nor links: registrations do nothing, the caller's
   variables stay as they are, and links say that there are none. */
#include "check.h"
#include <gc/javaxfc.h>

static void never(void *object, void *data)
{
    (void)object, (void)data;
    CHECK(0);
}

typedef void (*registration)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);

static APART void registers_nothing(registration registers, void *object)
{
    GC_finalization_proc old = never;
    void *data = &old;
    registers(object, never, NULL, &old, &data);
    CHECK(old == never && data == &old);
    registers(object, 0, NULL, &old, &data);
    CHECK(old == never && data == &old);
}

int main(void)
{
    static void *word, **linked;
    GC_set_find_leak(1);
    GC_INIT();
    void *plain = GC_malloc(32), *debug = GC_debug_malloc(32, GC_EXTRAS);
    registers_nothing(GC_register_finalizer, plain);
    registers_nothing(GC_register_finalizer_ignore_self, plain);
    registers_nothing(GC_register_finalizer_no_order, plain);
    registers_nothing(GC_register_finalizer_unreachable, plain);
    registers_nothing(GC_debug_register_finalizer, debug);
    registers_nothing(GC_debug_register_finalizer_ignore_self, debug);
    registers_nothing(GC_debug_register_finalizer_no_order, debug);
    registers_nothing(GC_debug_register_finalizer_unreachable, debug);
    linked = GC_malloc(32);
    *linked = plain;
    word = plain;
    CHECK_EQUAL(GC_register_disappearing_link(linked), GC_UNIMPLEMENTED);
    CHECK_EQUAL(GC_general_register_disappearing_link(&word, plain), GC_UNIMPLEMENTED);
    CHECK_EQUAL(GC_register_long_link(&word, plain), GC_UNIMPLEMENTED);
    CHECK_EQUAL(GC_unregister_disappearing_link(&word), 0);
    CHECK_EQUAL(GC_unregister_long_link(&word), 0);
    CHECK_EQUAL(GC_move_disappearing_link(&word, (void **)linked), GC_NOT_FOUND);
    GC_finalize_all();
    GC_free(plain);
    GC_debug_free(debug);
    GC_free(linked);
    return finish();
}
