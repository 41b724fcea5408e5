// neap.hpp: Neap from C++17 on: objects and arrays with constructors and destructors, containers
// and coroutine frames in collected memory, references from memory that is not scanned, and guards.
// Everything is inline and built on neap.h, whose rules hold: which pointers keep objects alive,
// which functions may be called when. docs/cpp.md has an overview.
//
// A plain T * is a reference to an object, wherever pointers are seen: in objects, on stacks, in
// static data. A pointer to any base of an object is one too.
//
// Destructors. That of an object of make, and those of an array of make_array, run once, some time
// after the object was found dead, on a thread of the library; never because the program ends. They
// run in no order: of objects that die together, whether they point at each other or not, any may
// be first, and two may run at once. So a destructor may use what its object holds by itself and
// any object without a destructor; what other objects with destructors held may be gone. Where the
// order matters, and no cycle of pointers can arise, is_ordered gives one. Destructors that use
// what others use take a lock.
//
// Invariant: no exception leaves a function that C calls, but for a destructor's that is declared
// noexcept(false): the library tells of that one and drops it.
#ifndef NEAP_HPP
#define NEAP_HPP

#include "neap.h"

#if __cplusplus < 201703L
#error "neap.hpp wants C++17"
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace neap {

// Whether objects of T hold no pointers, so that they need not be scanned: numbers and
// enumerations, and what you say by a specialisation
//     template <> struct neap::is_leaf<pixel> : std::true_type {};
template <class T>
struct is_leaf : std::bool_constant<std::is_arithmetic_v<T> || std::is_enum_v<T>> {};

// Whether the destructors of objects of T wait for each other: an object's runs before those of the
// objects that only it points to, and never for objects on a cycle of pointers. By a specialisation
// as above.
template <class T> struct is_ordered : std::false_type {};

// Which members of a class may hold pointers to objects, those of its bases included; of the others
// no word is taken for a pointer. Said in the class, by the name neap_pointers:
//     struct node {
//         node *next;
//         double values[7];
//         using neap_pointers = neap::pointers<node, &node::next>;
//     };
// It counts for this class alone: one that is derived from it is scanned whole, or has a list of
// its own. A member is a pointer, or anything that holds some.
template <class T, auto... Members> struct pointers {};

namespace detail {

inline void *or_throw(void *memory)
{
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

// Offset of a member of T or of a base.
template <class T, class Class, class Member> std::size_t offset_of(Member Class::*member)
{
    alignas(T) unsigned char place[sizeof(T)] = {};
    const T *object = reinterpret_cast<const T *>(place);
    return static_cast<std::size_t>(
        reinterpret_cast<const unsigned char *>(std::addressof(object->*member)) - place);
}
template <class Class, class Member> constexpr std::size_t size_of(Member Class::*)
{
    return sizeof(Member);
}

// What T says of its pointers, if anything.
template <class T, class = void> struct said {
    using type = void;
};
template <class T> struct said<T, std::void_t<typename T::neap_pointers>> {
    using type = typename T::neap_pointers;
};

template <class T, class Said> struct layout {
    static constexpr bool known = false, leaf = false;
};
template <class T> struct layout<T, pointers<T>> {
    static constexpr bool known = false, leaf = true;
};
template <class T, auto... Members> struct layout<T, pointers<T, Members...>> {
    static constexpr bool known = true, leaf = false;

    // NEAP_NO_LAYOUT if there are too many.
    static neap_layout number()
    {
        static const neap_layout made = make();
        return made;
    }

private:
    static neap_layout make()
    {
        constexpr std::size_t word = sizeof(void *);
        static_assert(sizeof(T) % word == 0, "an object of several words");
        std::uint64_t bits[sizeof(T) / word / 64 + 1] = {};
        auto set = [&](std::size_t offset, std::size_t bytes) {
            for (std::size_t i = offset / word; i * word < offset + bytes; i++)
                bits[i / 64] |= std::uint64_t(1) << i % 64;
        };
        (set(offset_of<T>(Members), size_of(Members)), ...);
        return neap_layout_bitmap(sizeof(T) / word, bits);
    }
};

// Memory for so many bytes that hold what `Leaf` says, until it is freed if `Lasting`.
template <bool Leaf, bool Lasting> void *allocate(std::size_t bytes, std::size_t alignment)
{
    constexpr int kind = Lasting ? Leaf ? NEAP_UNCOLLECTABLE_LEAF : NEAP_UNCOLLECTABLE
                                 : Leaf ? NEAP_LEAF : NEAP_CONSERVATIVE;
    if (alignment > 8 && (alignment != 16 || bytes % 16 != 0))
        return or_throw(neap_alloc_aligned(bytes, alignment, kind));
    if constexpr (Lasting)
        return or_throw(neap_alloc_kind(bytes, kind));
    else // inline
        return or_throw(Leaf ? neap_alloc_leaf(bytes) : neap_alloc(bytes));
}

// Memory for an array of T, and so many bytes more.
template <class T, bool Lasting = false>
void *allocate_array(std::size_t count, std::size_t more = 0)
{
    // An array is what its elements are.
    using element = std::remove_cv_t<std::remove_all_extents_t<T>>;
    using shape = layout<element, typename said<element>::type>;
    static_assert(alignof(T) <= 4096, "the collector aligns to 4096 at most");
    if (count > PTRDIFF_MAX / sizeof(T) - 1)
        throw std::bad_array_new_length();
    const std::size_t bytes = count * sizeof(T) + more;
    if constexpr (shape::known && !Lasting && alignof(T) <= 16)
        if (neap_layout number = shape::number(); number != NEAP_NO_LAYOUT)
            return or_throw(neap_alloc_typed(bytes, number));
    return allocate<is_leaf<element>::value || shape::leaf, Lasting>(bytes, alignof(T));
}

// Frees memory unless it is kept.
struct guard {
    void *memory;
    ~guard() { neap_free(memory); }
};

// Objects that are destroyed at the end, the last one first: the others too where one throws.
template <class T> struct built {
    T *first;
    std::size_t count;

    ~built() noexcept(std::is_nothrow_destructible_v<T>)
    {
        if constexpr (std::is_nothrow_destructible_v<T>) {
            while (count != 0)
                first[--count].~T();
        } else {
            while (count != 0)
                try {
                    first[--count].~T();
                } catch (...) {
                    built others{first, count};
                    count = 0;
                    throw;
                }
        }
    }
};

template <class T>
void destroy_found(void *first, void *count) noexcept(std::is_nothrow_destructible_v<T>)
{
    built<T> dead{static_cast<T *>(first), reinterpret_cast<std::size_t>(count)};
}

// Has so many objects of T destroyed when the memory is found dead; takes them over then.
template <class T> void destroy_on_death(built<T> &objects)
{
    if constexpr (!std::is_trivially_destructible_v<T>) {
        // A number so small is no address.
        void *count = reinterpret_cast<void *>(objects.count);
        if (neap_finalizer_set(objects.first, destroy_found<T>, count,
                is_ordered<T>::value ? NEAP_ORDER_IGNORE_SELF : NEAP_ORDER_NONE) != NEAP_OK)
            throw std::bad_alloc();
    }
    objects.count = 0;
}

// What aggregates may leave out, as with parentheses from C++20 on, is no mistake of the header's.
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
template <class T, class... Arguments> T *construct(void *memory, Arguments &&...arguments)
{
    // A class with constructors keeps its meaning of parentheses, which braces can change.
    if constexpr (std::is_aggregate_v<T> && !std::is_constructible_v<T, Arguments...>)
        return ::new (memory) T{std::forward<Arguments>(arguments)...};
    else
        return ::new (memory) T(std::forward<Arguments>(arguments)...);
}
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

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

// A new T in collected memory, which is destroyed when it dies (above). An aggregate gets its
// members from the arguments, also before C++20, which has parentheses do so. Throws
// std::bad_alloc, and what the constructor throws.
template <class T, class... Arguments> T *make(Arguments &&...arguments)
{
    static_assert(!std::is_array_v<T>, "make_array makes arrays");
    using object = std::remove_cv_t<T>;
    detail::guard memory{detail::allocate_array<T>(1)};
    detail::built<object> made{
        detail::construct<object>(memory.memory, std::forward<Arguments>(arguments)...), 1};
    detail::destroy_on_death(made);
    memory.memory = nullptr;
    return made.first;
}

// A new array of value-initialised elements, which are destroyed when it dies, the last one first.
// Those that are there are destroyed if a constructor throws.
template <class T> T *make_array(std::size_t count)
{
    using element = std::remove_cv_t<std::remove_all_extents_t<T>>;
    detail::guard memory{detail::allocate_array<T>(count)};
    detail::built<element> made{static_cast<element *>(memory.memory), 0};
    for (count *= sizeof(T) / sizeof(element); made.count < count; made.count++)
        ::new (static_cast<void *>(made.first + made.count)) element();
    detail::destroy_on_death(made);
    return static_cast<T *>(std::exchange(memory.memory, nullptr));
}

// Destroys and frees an object of make now; through a pointer to any base, if that has a virtual
// destructor. Null is fine. Not for an object with a destructor that may be dead already: so not
// for one that only the caller's object points to, in the caller's destructor.
template <class T> void destroy(T *object)
{
    if (object == nullptr)
        return;
    detail::guard memory{neap_base(object)};
    object->~T();
}

// The same for an array of make_array of so many elements.
template <class T> void destroy_array(T *array, std::size_t count)
{
    using element = std::remove_cv_t<std::remove_all_extents_t<T>>;
    if (array == nullptr)
        return;
    void *first = const_cast<std::remove_cv_t<T> *>(array);
    detail::guard memory{first};
    detail::built<element> objects{static_cast<element *>(first),
        count * (sizeof(T) / sizeof(element))};
}

// A base of classes whose `new` gives collected memory, and of promises of coroutines, whose frames
// then are collected memory. Nothing is destroyed when such an object dies: `delete`, or `destroy`
// of a coroutine's handle, does so now.
struct collected {
    static void *operator new(std::size_t bytes)
    {
        return detail::allocate<false, false>(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    }
    static void *operator new(std::size_t bytes, std::align_val_t alignment)
    {
        return detail::allocate<false, false>(bytes, static_cast<std::size_t>(alignment));
    }
    static void *operator new[](std::size_t bytes) { return operator new(bytes); }
    static void *operator new[](std::size_t bytes, std::align_val_t alignment)
    {
        return operator new(bytes, alignment);
    }
    static void operator delete(void *memory) noexcept { neap_free(memory); }
    static void operator delete(void *memory, std::align_val_t) noexcept { neap_free(memory); }
    static void operator delete[](void *memory) noexcept { neap_free(memory); }
    static void operator delete[](void *memory, std::align_val_t) noexcept { neap_free(memory); }
};

// The standard allocator: containers whose elements and nodes are collected memory. What they hold
// keeps objects alive if the container is itself scanned: on a stack, in static data, in a
// collected object. A container gives memory back as it always does; one that is dropped is
// collected. With `Root` the memory lives until the container gives it back, and all that is in it:
// for containers that lie in memory that is not scanned.
template <class T, bool Root = false> class allocator {
public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    template <class U> struct rebind {
        using other = allocator<U, Root>;
    };

    allocator() noexcept = default;
    template <class U> allocator(const allocator<U, Root> &) noexcept {}

    T *allocate(std::size_t count)
    {
        // Containers keep pointers past their last element, which must not be another's first.
        return static_cast<T *>(detail::allocate_array<T, Root>(count, alignof(T)));
    }
    void deallocate(T *memory, std::size_t) noexcept { neap_free(memory); }
};
template <class T> using root_allocator = allocator<T, true>;

template <class T, class U, bool Root>
bool operator==(const allocator<T, Root> &, const allocator<U, Root> &) noexcept
{
    return true;
}
template <class T, class U, bool Root>
bool operator!=(const allocator<T, Root> &, const allocator<U, Root> &) noexcept
{
    return false;
}

namespace detail {

// The base of references, by which they are known to each other.
struct compared {};

template <class P> using if_reference = std::enable_if_t<std::is_base_of_v<compared, P>>;
template <class P> using if_null = std::enable_if_t<std::is_same_v<P, std::nullptr_t>>;

template <class P, class = if_reference<P>> auto pointer(const P &reference) noexcept
{
    return reference.get();
}
template <class T> T *pointer(T *object) noexcept { return object; }
inline std::nullptr_t pointer(std::nullptr_t) noexcept { return nullptr; }

template <class P, class Q>
using if_compared = std::enable_if_t<
    std::is_base_of_v<compared, P> || std::is_base_of_v<compared, Q>,
    decltype(pointer(std::declval<const P &>()) == pointer(std::declval<const Q &>()))>;

// References with each other, with plain pointers and with nullptr: as the pointers would.
template <class P, class Q, class = if_compared<P, Q>>
bool operator==(const P &left, const Q &right) noexcept
{
    return pointer(left) == pointer(right);
}
template <class P, class Q, class = if_compared<P, Q>>
bool operator!=(const P &left, const Q &right) noexcept
{
    return pointer(left) != pointer(right);
}

} // namespace detail

// A reference that keeps its object alive from wherever it is itself, memory of malloc included.
// Owned by one; a moved-from one is empty until it is assigned to.
template <class T> class root : detail::compared {
public:
    root() noexcept : cell(nullptr) {}
    template <class Null, class = detail::if_null<Null>> root(Null) noexcept : root() {}
    explicit root(T *object) : cell(nullptr) { reset(object); }
    root(const root &other) : root(other.get()) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    root(const root<U> &other) : root(other.get()) {}
    root(root &&other) noexcept : cell(other.cell) { other.cell = nullptr; }
    root &operator=(root other) noexcept
    {
        std::swap(cell, other.cell);
        return *this;
    }
    ~root() { neap_free(cell); }

    T *get() const noexcept { return cell == nullptr ? nullptr : *cell; }
    std::add_lvalue_reference_t<T> operator*() const noexcept { return *get(); }
    T *operator->() const noexcept { return get(); }
    explicit operator bool() const noexcept { return get() != nullptr; }

    // Throws std::bad_alloc, and holds what it held then.
    void reset(T *object = nullptr)
    {
        if (cell == nullptr && object != nullptr)
            cell = static_cast<T **>(detail::allocate_array<T *, true>(1));
        if (cell != nullptr)
            *cell = object;
    }

private:
    T **cell;
};

namespace detail {

template <class T, int Kind> class reference : compared {
public:
    reference() noexcept = default;
    template <class Null, class = if_null<Null>> reference(Null) noexcept {}
    explicit reference(T *object) { reset(object); }
    reference(const reference &other) : reference(other.get()) {}
    reference(reference &&other) noexcept
        : handle(std::exchange(other.handle, 0)), offset(other.offset)
    {
    }
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    reference(const reference<U, Kind> &other) : reference(other.get())
    {
    }
    reference &operator=(reference other) noexcept
    {
        std::swap(handle, other.handle);
        std::swap(offset, other.offset);
        return *this;
    }
    ~reference()
    {
        if (handle != 0)
            neap_handle_free(handle);
    }

    // The object, alive as long as you hold this pointer; null if there is none (any more).
    T *get() const noexcept
    {
        void *start = handle == 0 ? nullptr : neap_handle_get(handle);
        return start == nullptr ? nullptr
                                : reinterpret_cast<T *>(static_cast<char *>(start) + offset);
    }
    T *operator->() const noexcept
    {
        static_assert(Kind == NEAP_HANDLE_STRONG, "take get() of a weak reference and hold it");
        return get();
    }
    std::add_lvalue_reference_t<T> operator*() const noexcept { return *operator->(); }
    explicit operator bool() const noexcept { return get() != nullptr; }

    // Throws std::bad_alloc, and std::invalid_argument for what is no collected object; holds what
    // it held then.
    void reset(T *object = nullptr)
    {
        void *start = nullptr;
        if (object != nullptr && (start = neap_base(object)) == nullptr)
            throw std::invalid_argument("neap: a reference to what is no collected object");
        if (handle != 0)
            neap_handle_set(handle, start);
        else if (start != nullptr && (handle = neap_handle_alloc(start, Kind)) == 0)
            throw std::bad_alloc();
        offset = reinterpret_cast<const volatile char *>(object) - static_cast<char *>(start);
    }

private:
    neap_handle handle = 0;
    std::ptrdiff_t offset = 0; // of the T, which may be a base, in the object
};

} // namespace detail

// A reference that keeps its object alive by a handle of neap.h, from wherever it is itself: 16
// bytes and a slot of 8 where root is 8 and an object of its own; takes no lock.
template <class T> using handle = detail::reference<T, NEAP_HANDLE_STRONG>;
// A reference that does not keep its object alive, from wherever it is itself; empty when nothing
// but destructors could reach the object.
template <class T> using weak = detail::reference<T, NEAP_HANDLE_WEAK>;

// A copy of a function object that keeps alive what it holds, wherever it is itself: std::thread
// and std::function keep theirs in memory that is not scanned.
//     std::thread(neap::rooted([object] { object->run(); }))
template <class F> auto rooted(F &&function)
{
    return [kept = root<std::decay_t<F>>(make<std::decay_t<F>>(std::forward<F>(function)))](
               auto &&...arguments) -> decltype(auto) {
        return (*kept)(std::forward<decltype(arguments)>(arguments)...);
    };
}

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

// Equal references of one type have one hash. A weak one has none: it changes when its object dies,
// and a container would not find it again.
template <class T> struct std::hash<neap::root<T>> {
    std::size_t operator()(const neap::root<T> &reference) const noexcept
    {
        return std::hash<T *>()(reference.get());
    }
};
template <class T> struct std::hash<neap::handle<T>> {
    std::size_t operator()(const neap::handle<T> &reference) const noexcept
    {
        return std::hash<T *>()(reference.get());
    }
};

#endif
