/* What the programs share that use functions which Debian's libgc has not: of libgc 8.3 and later,
   of versions before 7.2, and of its inside. They are compiled with Neap's headers and linked
   against its library. */
#define _GNU_SOURCE
#define GC_REQUIRE_WCSDUP
#include <wchar.h>
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gc/gc_undeclared.h>
#include <pthread.h>
#include <semaphore.h>

/* Live objects enough that collections run beside the program, where they can. */
static inline void *make_ballast(void)
{
    void **list = NULL;
    for (int index = 0; index < 160000; index++) {
        void **object = GC_malloc(112);
        object[0] = list;
        list = object;
    }
    return list;
}

/* Weak references that tell which objects are gone. */
struct weak {
    GC_hidden_pointer hidden[MANY];
};

static inline void watch(struct weak *weak, int index, void *object)
{
    weak->hidden[index] = GC_HIDE_POINTER(object);
    GC_general_register_disappearing_link((void **)&weak->hidden[index], object);
}

static inline int count_gone(struct weak *weak)
{
    int gone = 0;
    for (int index = 0; index < MANY; index++)
        gone += weak->hidden[index] == 0;
    return gone;
}

static inline void forget(struct weak *weak)
{
    for (int index = 0; index < MANY; index++)
        GC_unregister_disappearing_link((void **)&weak->hidden[index]);
}
