/* The interface for C++: classes derived from gc are allocated in the collected heap, those from
   gc_cleanup have their destructor run when they are found dead, and new takes a place to allocate
   in: `new (UseGC) T`, `new (PointerFreeGC) char[100]`, `new (UseGC, cleanup, data) T`. Programs
   link libgccpp, which has operator new for every other class allocate uncollectable memory that
   is looked into; or libgctba, which leaves it alone. */
#ifndef GC_CPP_H
#define GC_CPP_H

#include "gc.h"

#ifdef GC_INCLUDE_NEW
#include <new>
#endif

#if !defined(GC_NO_OPERATOR_NEW_ARRAY) && !defined(GC_OPERATOR_NEW_ARRAY)
#define GC_OPERATOR_NEW_ARRAY
#endif
#ifndef GC_PLACEMENT_DELETE
#define GC_PLACEMENT_DELETE
#endif

/* Where memory is refused: the end with GC_NEW_ABORTS_ON_OOM, std::bad_alloc otherwise. */
#ifdef GC_NEW_ABORTS_ON_OOM
#define GC_OP_NEW_OOM_CHECK(object) \
    do { \
        if (!(object)) \
            GC_abort_on_oom(); \
    } while (0)
#elif defined(GC_INCLUDE_NEW)
#define GC_OP_NEW_OOM_CHECK(object) \
    do { \
        if (!(object)) \
            throw std::bad_alloc(); \
    } while (0)
#else
/* In libgccpp and libgctba. */
GC_API void GC_CALL GC_throw_bad_alloc();
#define GC_OP_NEW_OOM_CHECK(object) \
    do { \
        if (!(object)) \
            GC_throw_bad_alloc(); \
    } while (0)
#endif

#ifdef GC_NAMESPACE
namespace boehmgc {
#endif

enum GCPlacement {
    UseGC,
#ifndef GC_NAME_CONFLICT
    GC = UseGC,
#endif
    NoGC,
    PointerFreeGC
#ifdef GC_ATOMIC_UNCOLLECTABLE
    ,
    PointerFreeNoGC
#endif
};

namespace gc_detail {
inline void *allocate(size_t bytes, GCPlacement placement)
{
    void *object;
    switch (placement) {
    case UseGC:
        object = GC_MALLOC(bytes);
        break;
    case PointerFreeGC:
        object = GC_MALLOC_ATOMIC(bytes);
        break;
#ifdef GC_ATOMIC_UNCOLLECTABLE
    case PointerFreeNoGC:
        object = GC_MALLOC_ATOMIC_UNCOLLECTABLE(bytes);
        break;
#endif
    default:
        object = GC_MALLOC_UNCOLLECTABLE(bytes);
    }
    GC_OP_NEW_OOM_CHECK(object);
    return object;
}
} // namespace gc_detail

class gc {
public:
    void *operator new(size_t bytes) { return gc_detail::allocate(bytes, UseGC); }
    void *operator new(size_t bytes, GCPlacement placement)
    {
        return gc_detail::allocate(bytes, placement);
    }
    void *operator new(size_t, void *place) GC_NOEXCEPT { return place; }
    void operator delete(void *object) GC_NOEXCEPT { GC_FREE(object); }
    void operator delete(void *object, GCPlacement) GC_NOEXCEPT { GC_FREE(object); }
    void operator delete(void *, void *) GC_NOEXCEPT {}
#ifdef GC_OPERATOR_NEW_ARRAY
    void *operator new[](size_t bytes) { return gc_detail::allocate(bytes, UseGC); }
    void *operator new[](size_t bytes, GCPlacement placement)
    {
        return gc_detail::allocate(bytes, placement);
    }
    void *operator new[](size_t, void *place) GC_NOEXCEPT { return place; }
    void operator delete[](void *object) GC_NOEXCEPT { GC_FREE(object); }
    void operator delete[](void *object, GCPlacement) GC_NOEXCEPT { GC_FREE(object); }
    void operator delete[](void *, void *) GC_NOEXCEPT {}
#endif
};

/* The destructor runs once, when the object is found dead or deleted. An object that reaches itself
   through others never is; and a member or base of this kind counts for the whole object. */
class gc_cleanup : virtual public gc {
public:
    gc_cleanup()
    {
        /* A real start: no macro of GC_DEBUG's, which takes what lies behind its own header. */
        void *start = GC_base(this);
        if (!start)
            return;
        GC_finalization_proc before = 0;
        void *data_before = 0;
        ptrdiff_t offset = reinterpret_cast<char *>(this) - static_cast<char *>(start);
        GC_register_finalizer_ignore_self(start, cleanup, reinterpret_cast<void *>(offset), &before,
                                          &data_before);
        /* One that is there belongs to the object as a whole. */
        if (before)
            GC_register_finalizer_ignore_self(start, before, data_before, 0, 0);
    }
    virtual ~gc_cleanup()
    {
        void *start = GC_base(this);
        if (start)
            GC_register_finalizer_ignore_self(start, 0, 0, 0, 0);
    }

private:
    static void GC_CALLBACK cleanup(void *start, void *offset)
    {
        char *object = static_cast<char *>(start) + reinterpret_cast<ptrdiff_t>(offset);
        reinterpret_cast<gc_cleanup *>(object)->~gc_cleanup();
    }
};

extern "C" {
typedef void(GC_CALLBACK *GCCleanUpFunc)(void *object, void *data);
}

#define GC_cdecl GC_CALLBACK
#ifdef GC_NAMESPACE
}
#define GC_NS_QUALIFY(name) boehmgc::name
#else
#define GC_NS_QUALIFY(name) name
#endif

/* For classes that do not derive from gc. The function is called with an object of UseGC that is
   found dead. */
inline void *operator new(size_t bytes, GC_NS_QUALIFY(GCPlacement) placement,
                          GC_NS_QUALIFY(GCCleanUpFunc) cleanup = 0, void *data = 0)
{
    void *object = GC_NS_QUALIFY(gc_detail::allocate)(bytes, placement);
    if (cleanup && placement == GC_NS_QUALIFY(UseGC))
        GC_REGISTER_FINALIZER_IGNORE_SELF(object, cleanup, data, 0, 0);
    return object;
}
inline void operator delete(void *object, GC_NS_QUALIFY(GCPlacement), GC_NS_QUALIFY(GCCleanUpFunc),
                            void *) GC_NOEXCEPT
{
    GC_FREE(object);
}
#ifdef GC_OPERATOR_NEW_ARRAY
inline void *operator new[](size_t bytes, GC_NS_QUALIFY(GCPlacement) placement,
                            GC_NS_QUALIFY(GCCleanUpFunc) cleanup = 0, void *data = 0)
{
    return ::operator new(bytes, placement, cleanup, data);
}
inline void operator delete[](void *object, GC_NS_QUALIFY(GCPlacement),
                              GC_NS_QUALIFY(GCCleanUpFunc), void *) GC_NOEXCEPT
{
    GC_FREE(object);
}
#endif

#endif
