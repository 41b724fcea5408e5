// References of the C++ interface behave as pointers do: null, compared, hashed, converted to those
// of bases and of void; and aggregates are made from their members. Compiled as C++17 and C++20.
#include "check.h"
#include <neap.hpp>

#include <string>
#include <unordered_map>
#include <unordered_set>

struct first_base {
    int one;
};
struct second_base {
    int two;
};
struct derived : first_base, second_base {
    int three;
    derived(int a, int b, int c) : first_base{a}, second_base{b}, three(c) {}
};

struct unlike {};

template <class P, class Q, class = void> struct are_compared : std::false_type {};
template <class P, class Q>
struct are_compared<P, Q, std::void_t<decltype(std::declval<P>() == std::declval<Q>())>>
    : std::true_type {};

static_assert(sizeof(neap::root<int>) == sizeof(void *) && sizeof(neap::handle<int>) == 16,
    "what the reference says");
static_assert(std::is_convertible_v<neap::root<derived>, neap::root<second_base>> &&
    !std::is_convertible_v<neap::root<second_base>, neap::root<derived>>, "to bases alone");
static_assert(std::is_convertible_v<std::nullptr_t, neap::root<int>> &&
    !std::is_convertible_v<int *, neap::root<int>> && !std::is_convertible_v<int, neap::root<int>>,
    "null is a reference, a pointer is made one by saying so");
static_assert(are_compared<neap::root<derived>, neap::root<second_base>>::value &&
    !are_compared<neap::root<first_base>, neap::root<second_base>>::value &&
    !are_compared<neap::root<derived>, std::string>::value &&
    !are_compared<neap::root<derived>, int>::value, "what pointers are compared with");

template <class R> static void null()
{
    derived *object = neap::make<derived>(1, 2, 3);
    R empty = nullptr, other(nullptr), reference(object);
    CHECK(empty == nullptr && nullptr == empty && !(empty != nullptr) && !(nullptr != empty));
    CHECK(reference != nullptr && nullptr != reference && reference && !(reference == nullptr));
    CHECK(empty == other && empty != reference);
    reference = nullptr;
    CHECK(reference == nullptr && !reference && reference == empty);
    reference = R(object);
    CHECK(reference == object && object->three == 3);
    reference = {};
    CHECK(reference == nullptr && R(NULL) == nullptr && R(0) == nullptr);
}

// `Of` is one of the templates.
template <template <class> class Of> static void bases()
{
    derived *object = neap::make<derived>(1, 2, 3);
    Of<derived> whole(object);
    Of<second_base> part = whole;
    Of<first_base> first;
    first = whole;
    CHECK_EQUAL(part.get()->two, 2);
    CHECK_EQUAL(first.get()->one, 1);
    CHECK(whole == part && part == whole && whole == first && !(whole != part));
    CHECK(part == object && object == part && first == static_cast<first_base *>(object));
    Of<derived> other(neap::make<derived>(1, 2, 3));
    CHECK(other != part && part != other && other != object);

    Of<void> anything = part;
    CHECK(anything.get() == static_cast<second_base *>(object) && anything != nullptr);
    CHECK(anything == part);
    anything = whole;
    CHECK(anything.get() == object && anything == object && anything == whole);
    Of<const void> constant = anything;
    CHECK(constant == anything);
    anything.reset(neap::make<int>(4));
    CHECK_EQUAL(*static_cast<int *>(anything.get()), 4);
    anything = nullptr;
    CHECK(!anything && constant);
}

static void of_each_other()
{
    derived *object = neap::make<derived>(1, 2, 3);
    neap::root<derived> root(object);
    neap::handle<second_base> handle(object);
    neap::weak<void> weak(object);
    CHECK(root == handle && handle == root && weak == root && root == weak);
    handle = nullptr;
    CHECK(root != handle && handle != root);
}

template <template <class> class Of> static void hashed()
{
    std::unordered_set<Of<int>> set;
    std::unordered_map<Of<void>, int> numbers;
    Of<int> kept[MANY];
    for (int i = 0; i < MANY; i++) {
        kept[i].reset(neap::make<int>(i));
        CHECK(set.insert(kept[i]).second && !set.insert(Of<int>(kept[i].get())).second);
        numbers[kept[i]] = i;
    }
    collect();
    for (int i = 0; i < MANY; i++)
        CHECK(set.count(kept[i]) == 1 && numbers.at(kept[i]) == i);
    CHECK(set.count(Of<int>(neap::make<int>(0))) == 0 && set.count(nullptr) == 0);
    CHECK(std::hash<Of<int>>()(nullptr) == std::hash<int *>()(nullptr));
}

// A root of void alone keeps its object.
static APART neap::root<void> *make_rooted()
{
    auto *roots = new neap::root<void>[MANY];
    for (int i = 0; i < MANY; i++) {
        roots[i].reset(neap::make<int>(i));
        watch(i, roots[i].get());
    }
    return roots;
}

static APART void lifetimes()
{
    neap::root<void> *roots = make_rooted();
    collect();
    CHECK_ALL_ALIVE(0);
    for (int i = 0; i < MANY; i++)
        roots[i] = nullptr;
    collect();
    CHECK_DEAD(0);
    delete[] roots;
}

struct aggregate {
    int number;
    std::string text;
    aggregate *next;
};
struct nested : first_base {
    aggregate whole;
    int pair[2] = {5, 6};
};
// Braces would make this one of two elements.
struct counted {
    std::size_t size;
    counted(int count, int) : size(count) {}
    counted(std::initializer_list<int> list) : size(list.size()) {}
};

static APART void aggregates()
{
    aggregate *last = neap::make<aggregate>(1, "one", nullptr);
    CHECK(last->number == 1 && last->text == "one" && last->next == nullptr);
    aggregate *some = neap::make<aggregate>(2);
    CHECK(some->number == 2 && some->text.empty() && some->next == nullptr);
    aggregate *none = neap::make<aggregate>();
    CHECK(none->number == 0 && none->next == nullptr);
    aggregate *copy = neap::make<aggregate>(*last);
    CHECK(copy->text == "one" && neap::make<aggregate>(std::move(*copy))->text == "one");
    CHECK(copy->text.empty());
    const nested *outer = neap::make<const nested>(first_base{7}, aggregate{3, "three", last});
    CHECK(outer->one == 7 && outer->whole.next == last && outer->pair[1] == 6);
    CHECK_EQUAL(neap::make<counted>(9, 0)->size, 9);
}

int main()
{
    null<neap::root<derived>>();
    null<neap::handle<derived>>();
    null<neap::weak<derived>>();
    null<neap::root<void>>();
    null<neap::handle<void>>();
    null<neap::weak<void>>();
    bases<neap::root>();
    bases<neap::handle>();
    bases<neap::weak>();
    of_each_other();
    hashed<neap::root>();
    hashed<neap::handle>();
    lifetimes();
    aggregates();
    return finish();
}
