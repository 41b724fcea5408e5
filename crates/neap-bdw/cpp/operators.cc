/* libgccpp: new and delete of every class that brings none of its own. Their memory is looked into
   by the collector and stays until it is deleted, so that pointers in it keep collected objects.
   Forms with an alignment, or with std::nothrow, come down to these or to malloc in the C++
   library. */
#define GC_BUILD
#include "gc/gc_cpp.h"
#include <new>

#define SHOWN __attribute__((visibility("default")))

SHOWN void *operator new(size_t bytes)
{
    void *object = GC_MALLOC_UNCOLLECTABLE(bytes);
    GC_OP_NEW_OOM_CHECK(object);
    return object;
}

SHOWN void *operator new[](size_t bytes)
{
    return operator new(bytes);
}

SHOWN void operator delete(void *object) noexcept
{
    GC_FREE(object);
}

SHOWN void operator delete[](void *object) noexcept
{
    GC_FREE(object);
}

SHOWN void operator delete(void *object, size_t) noexcept
{
    GC_FREE(object);
}

SHOWN void operator delete[](void *object, size_t) noexcept
{
    GC_FREE(object);
}
