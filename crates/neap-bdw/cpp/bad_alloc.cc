/* What gc_cpp.h throws where memory is refused. In libgccpp and in libgctba. */
#define GC_BUILD
#include "gc/gc_cpp.h"
#include <new>

GC_API __attribute__((visibility("default"))) void GC_CALL GC_throw_bad_alloc()
{
    throw std::bad_alloc();
}
