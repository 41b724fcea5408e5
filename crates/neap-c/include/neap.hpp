// neap.hpp: Neap from C++11 on: objects with constructors and destructors, containers in collected
// memory, references from memory that is not scanned, and guards. Everything is inline and built on
// neap.h, whose rules hold: which pointers keep objects alive, which functions may be called when.
//
// Invariant: no exception leaves a function that C calls. A destructor that throws while the
// collector runs it ends the program, as in any other place.
#ifndef NEAP_HPP
#define NEAP_HPP

#include "neap.h"

#include <cstddef>
#include <exception>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace neap {

// Whether objects of T hold no pointers, so that they need not be scanned: numbers and
// enumerations, and what you say by a specialisation
//     template <> struct neap::is_leaf<pixel> : std::true_type {};
template <class T> struct is_leaf : std::integral_constant<bool, std::is_arithmetic<T>::value ||
    std::is_enum<T>::value> {};

namespace detail {

// Memory for `bytes` bytes; throws std::bad_alloc.
inline void *allocate(std::size_t bytes, std::size_t alignment, int kind)
{
    void *memory = alignment <= 8 || (alignment == 16 && bytes % 16 == 0)
        ? neap_alloc_kind(bytes, kind)
                                                                         : neap_alloc_aligned(bytes,
                                                                             alignment, kind);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

template <class T> int kind_of()
{
    // An array is what its elements are.
    typedef typename std::remove_cv<typename std::remove_all_extents<T>::type>::type element;
    return is_leaf<element>::value ? NEAP_LEAF : NEAP_CONSERVATIVE;
}

template <class T> void destroy(void *object, void *) noexcept
{
    static_cast<T *>(object)->~T();
}

// Frees memory unless it is kept.
struct guard {
    void *memory;
    ~guard() { neap_free(memory); }
};

template <class T> void finalize_on_death(T *, std::true_type) {}
template <class T> void finalize_on_death(T *object, std::false_type)
{
    if (neap_finalizer_set(object, destroy<T>, nullptr, NEAP_ORDER_IGNORE_SELF) != NEAP_OK) {
        object->~T();
        throw std::bad_alloc();
    }
}

// Calls a function object from C and carries its exception around the frames of C.
template <class F> struct call {
    F &function;
    std::exception_ptr thrown;

    static void *from_c(void *argument) noexcept
    {
        call *self = static_cast<call *>(argument);
        try {
            self->function();
        } catch (...) {
            self->thrown = std::current_exception();
        }
        return nullptr;
    }

    void through(void *(*how)(neap_function *, void *))
    {
        how(from_c, this);
        if (thrown)
            std::rethrow_exception(thrown);
    }
};

} // namespace detail

// A new T in collected memory. Its destructor, if it does anything, runs some time after it was
// found dead, on the terms of neap_finalizers_set_automatic: an object's before those of the
// objects that only it points to, and never for objects on a cycle. Throws std::bad_alloc, and what
// the constructor throws.
template <class T, class... Arguments> T *make(Arguments &&...arguments)
{
    detail::guard memory = {detail::allocate(sizeof(T), alignof(T), detail::kind_of<T>())};
    T *object = ::new (memory.memory) T(std::forward<Arguments>(arguments)...);
    detail::finalize_on_death(object, std::is_trivially_destructible<T>());
    memory.memory = nullptr;
    return object;
}

// A new array of value-initialised elements, which need no destruction.
template <class T> T *make_array(std::size_t count)
{
    static_assert(std::is_trivially_destructible<T>::value,
                  "the elements need destruction: use a std::vector with neap::allocator, made by neap::make");
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
        throw std::bad_alloc();
    detail::guard memory = {detail::allocate(count * sizeof(T), alignof(T), detail::kind_of<T>())};
    typedef typename std::remove_cv<T>::type element;
    element *array = static_cast<element *>(memory.memory);
    for (std::size_t i = 0; i < count; i++)
        ::new (static_cast<void *>(array + i)) element();
    memory.memory = nullptr;
    return array;
}

// Destroys and frees an object of make now. Null is fine.
template <class T> void destroy(T *object)
{
    if (object == nullptr)
        return;
    object->~T();
    neap_free(object);
}

// The standard allocator: containers whose elements and nodes are collected memory. What they hold
// keeps objects alive if the container is itself scanned: on a stack, in static data, in a
// collected object. A container gives memory back as it always does; one that is dropped is
// collected.
template <class T> class allocator {
public:
    typedef T value_type;
    typedef std::true_type is_always_equal;
    typedef std::true_type propagate_on_container_move_assignment;

    allocator() noexcept {}
    template <class U> allocator(const allocator<U> &) noexcept {}

    T *allocate(std::size_t count)
    {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw std::bad_alloc();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T),
            detail::kind_of<T>()));
    }
    void deallocate(T *memory, std::size_t) noexcept { neap_free(memory); }
};
template <class T, class U> bool operator==(const allocator<T> &,
    const allocator<U> &) noexcept { return true; }
template <class T, class U> bool operator!=(const allocator<T> &,
    const allocator<U> &) noexcept { return false; }

// A reference that keeps its object alive from wherever it is itself, memory of malloc included.
// Owned by one; a moved-from one is empty until it is assigned to.
template <class T> class root {
public:
    root() noexcept : cell(nullptr) {}
    explicit root(T *object) : cell(nullptr) { reset(object); }
    root(const root &other) : cell(nullptr) { reset(other.get()); }
    root(root &&other) noexcept : cell(other.cell) { other.cell = nullptr; }
    root &operator=(root other) noexcept
    {
        std::swap(cell, other.cell);
        return *this;
    }
    ~root() { neap_free(cell); }

    T *get() const noexcept { return cell == nullptr ? nullptr : *cell; }
    T &operator*() const noexcept { return *get(); }
    T *operator->() const noexcept { return get(); }
    explicit operator bool() const noexcept { return get() != nullptr; }

    // Throws std::bad_alloc, and holds what it held then.
    void reset(T *object = nullptr)
    {
        if (cell == nullptr && object != nullptr)
            cell = static_cast<T **>(detail::allocate(sizeof *cell, alignof(T *),
                NEAP_UNCOLLECTABLE));
        if (cell != nullptr)
            *cell = object;
    }

private:
    T **cell;
};

template <class T> bool operator==(const root<T> &left,
    const root<T> &right) noexcept { return left.get() == right.get(); }
template <class T> bool operator!=(const root<T> &left,
    const root<T> &right) noexcept { return left.get() != right.get(); }

// The calling thread is attached while this lives; one that was attached before stays so.
class attached {
public:
    attached() : mine(neap_thread_attach()) {}
    ~attached()
    {
        if (mine)
            neap_thread_detach();
    }
    attached(const attached &) = delete;
    attached &operator=(const attached &) = delete;

private:
    int mine;
};

// No cycle runs while this lives; see neap_hold_collections.
class collections_held {
public:
    collections_held() { neap_hold_collections(); }
    ~collections_held() { neap_release_collections(); }
    collections_held(const collections_held &) = delete;
    collections_held &operator=(const collections_held &) = delete;
};

// No thread starts a cycle while this lives; the heap grows instead.
class collections_disabled {
public:
    collections_disabled() { neap_disable(); }
    ~collections_disabled() { neap_enable(); }
    collections_disabled(const collections_disabled &) = delete;
    collections_disabled &operator=(const collections_disabled &) = delete;
};

// Runs a function object in a blocked region, or as an ordinary thread within one; its exceptions
// come out here.
template <class F> void blocked(F &&function)
{
    detail::call<F> call = {function, nullptr};
    call.through(neap_blocked);
}
template <class F> void unblocked(F &&function)
{
    detail::call<F> call = {function, nullptr};
    call.through(neap_unblocked);
}

} // namespace neap

#endif
