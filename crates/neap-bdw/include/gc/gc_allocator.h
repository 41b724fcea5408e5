/* Allocators for containers of the C++ library. gc_allocator<T>: memory that is collected, and not
   looked into if T is free of pointers; gc_allocator_ignore_off_page<T>: the same for large blocks
   that something keeps a pointer to the start of; traceable_allocator<T>: memory that is looked
   into and stays until it is deallocated, for containers that lie where the collector does not
   look.

   A type of the program's without pointers is declared so: GC_DECLARE_PTRFREE(type). */
#ifndef GC_ALLOCATOR_H
#define GC_ALLOCATOR_H

#include "gc.h"

#include <new>
#if __cplusplus >= 201103L
#include <utility>
#endif

#ifdef GC_NEW_ABORTS_ON_OOM
#define GC_ALLOCATOR_THROW_OR_ABORT() GC_abort_on_oom()
#else
#define GC_ALLOCATOR_THROW_OR_ABORT() throw std::bad_alloc()
#endif

struct GC_true_type {};
struct GC_false_type {};
template <class T> struct GC_type_traits {
    GC_false_type GC_is_ptr_free;
};
#define GC_DECLARE_PTRFREE(type) \
    template <> struct GC_type_traits<type> { \
        GC_true_type GC_is_ptr_free; \
    }
GC_DECLARE_PTRFREE(char);
GC_DECLARE_PTRFREE(signed char);
GC_DECLARE_PTRFREE(unsigned char);
GC_DECLARE_PTRFREE(signed short);
GC_DECLARE_PTRFREE(unsigned short);
GC_DECLARE_PTRFREE(signed int);
GC_DECLARE_PTRFREE(unsigned int);
GC_DECLARE_PTRFREE(signed long);
GC_DECLARE_PTRFREE(unsigned long);
GC_DECLARE_PTRFREE(float);
GC_DECLARE_PTRFREE(double);
GC_DECLARE_PTRFREE(long double);

namespace gc_detail {
inline void *checked(void *memory)
{
    if (!memory)
        GC_ALLOCATOR_THROW_OR_ABORT();
    return memory;
}
inline void *allocate_for(size_t bytes, GC_false_type, bool ignore_off_page)
{
    return checked(ignore_off_page ? GC_MALLOC_IGNORE_OFF_PAGE(bytes) : GC_MALLOC(bytes));
}
inline void *allocate_for(size_t bytes, GC_true_type, bool ignore_off_page)
{
    return checked(ignore_off_page ? GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(bytes)
                                   : GC_MALLOC_ATOMIC(bytes));
}

} // namespace gc_detail

/* Memory that is collected, not looked into if the second is a GC_true_type; throws if there is
   none. For allocators of the program's own. */
template <class T> inline void *GC_selective_alloc(size_t bytes, T is_free, bool ignore_off_page)
{
    return gc_detail::allocate_for(bytes, is_free, ignore_off_page);
}

namespace gc_detail {
/* What the allocators have in common. */
template <class T> class allocator_members {
public:
    typedef size_t size_type;
    typedef ptrdiff_t difference_type;
    typedef T *pointer;
    typedef const T *const_pointer;
    typedef T &reference;
    typedef const T &const_reference;
    typedef T value_type;

    pointer address(reference object) const { return &object; }
    const_pointer address(const_reference object) const { return &object; }
    void deallocate(pointer memory, size_type) GC_NOEXCEPT { GC_FREE(memory); }
    size_type max_size() const GC_NOEXCEPT { return size_t(-1) / sizeof(T); }
#if __cplusplus >= 201103L
    template <class U, class... Arguments> void construct(U *place, Arguments &&...arguments)
    {
        ::new (static_cast<void *>(place)) U(std::forward<Arguments>(arguments)...);
    }
    template <class U> void destroy(U *object) { object->~U(); }
#else
    void construct(pointer place, const T &value)
    {
        ::new (static_cast<void *>(place)) T(value);
    }
    void destroy(pointer object) { object->~T(); }
#endif
};
template <> class allocator_members<void> {
public:
    typedef size_t size_type;
    typedef ptrdiff_t difference_type;
    typedef void *pointer;
    typedef const void *const_pointer;
    typedef void value_type;
};
} // namespace gc_detail

/* An allocator's name, and the bytes that `count` objects take from the collector. */
#define GC_DEFINE_ALLOCATOR(name, from_collector) \
    template <class T> class name : public gc_detail::allocator_members<T> { \
    public: \
        template <class U> struct rebind { \
            typedef name<U> other; \
        }; \
        name() GC_NOEXCEPT {} \
        name(const name &) GC_NOEXCEPT : gc_detail::allocator_members<T>() {} \
        name &operator=(const name &) GC_NOEXCEPT { return *this; } \
        template <class U> GC_ATTR_EXPLICIT name(const name<U> &) GC_NOEXCEPT {} \
        T *allocate(size_t count, const void * = 0) \
        { \
            if (count > this->max_size()) \
                GC_ALLOCATOR_THROW_OR_ABORT(); \
            GC_type_traits<T> traits; \
            (void)traits; \
            size_t bytes = count * sizeof(T); \
            return static_cast<T *>(from_collector); \
        } \
    }; \
    template <> class name<void> : public gc_detail::allocator_members<void> { \
    public: \
        template <class U> struct rebind { \
            typedef name<U> other; \
        }; \
    }; \
    template <class T, class U> \
    inline bool operator==(const name<T> &, const name<U> &) GC_NOEXCEPT \
    { \
        return true; \
    } \
    template <class T, class U> \
    inline bool operator!=(const name<T> &, const name<U> &) GC_NOEXCEPT \
    { \
        return false; \
    }

GC_DEFINE_ALLOCATOR(gc_allocator,
                    gc_detail::allocate_for(bytes, traits.GC_is_ptr_free, false))
GC_DEFINE_ALLOCATOR(gc_allocator_ignore_off_page,
                    gc_detail::allocate_for(bytes, traits.GC_is_ptr_free, true))
GC_DEFINE_ALLOCATOR(traceable_allocator, gc_detail::checked(GC_MALLOC_UNCOLLECTABLE(bytes)))

#undef GC_DEFINE_ALLOCATOR

#endif
