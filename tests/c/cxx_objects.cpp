// Objects of C++: destructors of cycles and arrays, classes with several bases, exceptions that
// leave destructors, layouts that a class gives, weak references and handles, every standard
// container, what std::thread and std::function hold.
#include "check.h"
#include <neap.hpp>

#include <atomic>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <stack>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

// Destructors run on the library's threads and on this one at the same time.
static std::atomic<int> halves_destroyed, twice, wrong;

// Two objects that point at each other: each is destroyed once, and finds the other's memory.
struct half {
    half *other = nullptr;
    std::atomic<int> state{1};
    ~half()
    {
        if (state.exchange(2) != 1)
            twice++;
        if (other->state != 1 && other->state != 2)
            wrong++;
        halves_destroyed++;
    }
};

static APART void make_pairs(int count)
{
    for (int i = 0; i < count; i++) {
        half *one = neap::make<half>(), *two = neap::make<half>();
        one->other = two;
        two->other = one;
    }
}

static void cycles()
{
    make_pairs(1000);
    collect();
    CHECK(halves_destroyed >= 2000 - 2 * STRAY);
    collect();
    CHECK(halves_destroyed <= 2000);
    CHECK_EQUAL(twice, 0);
    CHECK_EQUAL(wrong, 0);
}

static std::atomic<int> shapes_destroyed;

struct shape {
    double area = 1;
    virtual ~shape() { shapes_destroyed++; }
};
struct named {
    int length = 2;
    virtual ~named() = default;
};
struct circle : shape, named {
    double radius = 3;
};

static named *held[MANY];

static APART void make_circles()
{
    for (int i = 0; i < MANY; i++)
        held[i] = neap::make<circle>();
}

// A pointer to the second base keeps the whole alive, and can destroy it: once.
static void bases()
{
    make_circles();
    collect();
    churn(sizeof(circle), 1000);
    CHECK_EQUAL(shapes_destroyed, 0);
    for (named *one : held) {
        circle *whole = static_cast<circle *>(one);
        CHECK(static_cast<void *>(one) != whole && whole->radius == 3 && whole->area == 1);
        neap::destroy(one);
    }
    CHECK_EQUAL(shapes_destroyed, MANY);
    memset(held, 0, sizeof held);
    collect();
    CHECK_EQUAL(shapes_destroyed, MANY);
}

static std::atomic<int> order_broken;

// Objects with a place in their array; of one `Kind`, how many there are, and may be.
template <int Kind> struct element {
    static std::atomic<int> made, gone, most;
    int place = made++ - gone;
    std::string text = "a text that is too long to lie in the string itself";
    element()
    {
        if (made - gone > most) {
            gone++;
            throw std::runtime_error("full");
        }
    }
    ~element()
    {
        gone++;
        // The last one first.
        if (Kind == 1 && place != made - gone)
            order_broken++;
    }
};
template <int Kind> std::atomic<int> element<Kind>::made;
template <int Kind> std::atomic<int> element<Kind>::gone;
template <int Kind> std::atomic<int> element<Kind>::most{1 << 30};
using dropped = element<0>;
using explicitly = element<1>;

static const int ELEMENTS = 7;

static APART void make_arrays()
{
    for (int i = 0; i < MANY; i++)
        neap::make_array<dropped>(ELEMENTS);
}

static void arrays()
{
    make_arrays();
    CHECK_EQUAL(dropped::made, ELEMENTS * MANY);
    collect();
    CHECK(dropped::gone >= ELEMENTS * (MANY - STRAY));
    collect();
    CHECK(dropped::gone <= ELEMENTS * MANY && dropped::gone % ELEMENTS == 0);

    neap::destroy_array(neap::make_array<explicitly>(5), 5);
    neap::destroy_array(neap::make_array<explicitly>(0), 0);
    neap::destroy_array(neap::make_array<explicitly[3]>(4), 4);
    neap::destroy_array(static_cast<explicitly *>(nullptr), 5);
    CHECK_EQUAL(explicitly::made, 17);
    CHECK_EQUAL(explicitly::gone, 17);
    // Those that are there are destroyed when one cannot be made.
    explicitly::most = 4;
    try {
        neap::make_array<explicitly>(5);
        CHECK(!"an array of five");
    } catch (const std::runtime_error &error) {
        CHECK(std::string(error.what()) == "full");
    }
    CHECK_EQUAL(explicitly::made, 22);
    CHECK_EQUAL(explicitly::gone, 22);
    CHECK_EQUAL(order_broken, 0);
}

// What leaves a destructor is told of on standard error; the program and other destructors go on.
static std::atomic<int> throwing_destroyed;

struct throwing {
    int number = 0;
    ~throwing() noexcept(false)
    {
        throwing_destroyed++;
        if (number % 2 == 0)
            throw std::runtime_error("from a destructor");
    }
};

static APART void make_throwing()
{
    for (int i = 0; i < MANY; i++)
        neap::make<throwing>()->number = i;
    for (int i = 0; i < MANY; i++)
        neap::make_array<throwing>(2)[0].number = 1;
}

static void exceptions()
{
    make_throwing();
    collect();
    CHECK(throwing_destroyed >= 3 * (MANY - STRAY) && throwing_destroyed <= 3 * MANY);
    int before = throwing_destroyed;
    throwing *array = neap::make_array<throwing>(4);
    array[0].number = array[1].number = array[3].number = 1;
    try {
        neap::destroy_array(array, 4);
        CHECK(!"an exception");
    } catch (const std::runtime_error &) {
        CHECK(throwing_destroyed >= before + 4);
    }
}

// The word that is not named does not keep anything alive.
struct link_and_number {
    std::uintptr_t number;
    char *link;
    char *links[2];
    using neap_pointers =
        neap::pointers<link_and_number, &link_and_number::link, &link_and_number::links>;
};
struct with_more : link_and_number {
    char *more;
};
struct with_all : with_more {
    double values[100];
    using neap_pointers =
        neap::pointers<with_all, &with_all::link, &with_all::links, &with_all::more>;
};
struct pixel {
    unsigned char red, green, blue;
    using neap_pointers = neap::pointers<pixel>;
};

static neap_object_info info_of(const void *object)
{
    neap_object_info info = {};
    CHECK(neap_object_at(object, &info));
    return info;
}

static link_and_number **precise;

static APART void make_precise()
{
    precise = neap::make_array<link_and_number *>(MANY);
    for (int i = 0; i < MANY; i++) {
        precise[i] = neap::make<link_and_number>();
        char *dead = static_cast<char *>(neap_alloc(48));
        char *live = static_cast<char *>(neap_alloc(48));
        watch(i, dead);
        watch(MANY + i, live);
        precise[i]->number = reinterpret_cast<std::uintptr_t>(dead);
        (i % 2 ? precise[i]->link : precise[i]->links[1]) = live;
    }
}

static void layouts()
{
    make_precise();
    collect();
    CHECK_DEAD(0);
    CHECK_ALL_ALIVE(MANY);
    CHECK(info_of(precise[0]).layout != NEAP_NO_LAYOUT);
    CHECK_EQUAL(info_of(neap::make_array<link_and_number>(3)).layout, info_of(precise[0]).layout);
    // What a base says of itself does not count for what is derived from it.
    CHECK_EQUAL(info_of(neap::make<with_more>()).layout, NEAP_NO_LAYOUT);
    CHECK_EQUAL(info_of(neap::make<with_more>()).kind, NEAP_CONSERVATIVE);
    CHECK(info_of(neap::make<with_all>()).layout != NEAP_NO_LAYOUT);
    with_all *all = neap::make<with_all>();
    std::uint64_t bits[2] = {1 << 1 | 1 << 2 | 1 << 3 | 1 << 4, 0};
    CHECK_EQUAL(info_of(all).layout, neap_layout_bitmap(105, bits));
    CHECK_EQUAL(info_of(neap::make<pixel>()).kind, NEAP_LEAF);
    std::vector<link_and_number, neap::allocator<link_and_number>> typed(3);
    CHECK_EQUAL(info_of(typed.data()).layout, info_of(precise[0]).layout);
    precise = nullptr;
    collect();
    CHECK_DEAD(MANY);
}

// In memory that is not scanned.
struct unseen {
    neap::weak<named> weak[MANY];
    neap::handle<named> strong[MANY];
};
static unseen *references;

static APART void make_references()
{
    references = new unseen;
    for (int i = 0; i < MANY; i++) {
        references->weak[i].reset(neap::make<circle>());
        references->strong[i] = neap::handle<circle>(neap::make<circle>());
    }
}

static APART int count_weak()
{
    int found = 0;
    for (auto &weak : references->weak)
        if (named *object = weak.get())
            found += object->length == 2;
    return found;
}

static APART int count_strong()
{
    int found = 0;
    for (auto &strong : references->strong)
        found += strong && strong->length == 2 && (*strong).length == 2;
    return found;
}

static APART void use_references()
{
    neap::handle<named> copy = references->strong[0], moved = std::move(references->strong[0]);
    CHECK(copy == moved && copy.get() != nullptr && references->strong[0] != copy);
    references->strong[0] = copy;
    neap::root<circle> whole(neap::make<circle>());
    neap::root<named> part = whole;
    CHECK_EQUAL(part->length, 2);
    neap::weak<named> weak(part.get()), other = weak;
    CHECK(weak && weak.get() == part.get() && weak == other);
    weak.reset();
    CHECK(!weak && weak != other);
    weak.reset(part.get());
    CHECK(weak == other);
    named outside;
    try {
        weak.reset(&outside);
        CHECK(!"a reference to the stack");
    } catch (const std::invalid_argument &) {
        CHECK(weak == other);
    }
}

static void weak_and_strong()
{
    make_references();
    CHECK_EQUAL(count_strong(), MANY);
    clear_stack();
    collect();
    churn(sizeof(circle), 1000);
    CHECK(count_weak() <= STRAY);
    CHECK_EQUAL(count_strong(), MANY);
    use_references();
    int before = shapes_destroyed;
    delete references;
    clear_stack();
    collect();
    CHECK(shapes_destroyed >= before + MANY - STRAY);
}

template <class Key> using hash = std::hash<Key>;
template <class Key> using equal = std::equal_to<Key>;
template <class T> using some = neap::allocator<T>;
template <class T> using of_map = neap::allocator<std::pair<const int, T>>;

// All standard containers, in a collected object: what they hold lives, and no longer than they.
struct everything {
    std::vector<char *, some<char *>> vector;
    std::deque<char *, some<char *>> deque;
    std::list<char *, some<char *>> list;
    std::forward_list<char *, some<char *>> forward_list;
    std::set<char *, std::less<char *>, some<char *>> set;
    std::multiset<char *, std::less<char *>, some<char *>> multiset;
    std::map<int, char *, std::less<int>, of_map<char *>> map;
    std::multimap<int, char *, std::less<int>, of_map<char *>> multimap;
    std::unordered_set<char *, hash<char *>, equal<char *>, some<char *>> hash_set;
    std::unordered_multiset<char *, hash<char *>, equal<char *>, some<char *>> hash_bag;
    std::unordered_map<int, char *, hash<int>, equal<int>, of_map<char *>> hash_map;
    std::unordered_multimap<int, char *, hash<int>, equal<int>, of_map<char *>> hash_all;
    std::stack<char *, std::deque<char *, some<char *>>> stack;
    std::queue<char *, std::list<char *, some<char *>>> queue;
    std::priority_queue<char *, std::vector<char *, some<char *>>> priority_queue;
    std::vector<bool, some<bool>> flags;
    std::basic_string<char, std::char_traits<char>, some<char>> string;
    std::shared_ptr<std::pair<char *, int>> shared;

    void add(int i, char *object)
    {
        switch (i % 16) {
        case 0: vector.push_back(object); break;
        case 1: deque.push_back(object); break;
        case 2: list.push_back(object); break;
        case 3: forward_list.push_front(object); break;
        case 4: set.insert(object); break;
        case 5: multiset.insert(object); break;
        case 6: map[i] = object; break;
        case 7: multimap.emplace(i, object); break;
        case 8: hash_set.insert(object); break;
        case 9: hash_bag.insert(object); break;
        case 10: hash_map[i] = object; break;
        case 11: hash_all.emplace(i, object); break;
        case 12: stack.push(object); break;
        case 13: queue.push(object); break;
        case 14: priority_queue.push(object); break;
        default:
            if (shared == nullptr)
                shared = std::allocate_shared<std::pair<char *, int>>(some<int>(), object, i);
            else
                vector.push_back(object);
        }
        flags.push_back(i % 3 == 0);
        string += "0123456789"[i % 10];
    }
};

static everything *all_of_them;
static std::vector<char *, neap::root_allocator<char *>> *rooted_vector;

static APART void fill_containers()
{
    all_of_them = neap::make<everything>();
    rooted_vector = new std::vector<char *, neap::root_allocator<char *>>;
    for (int i = 0; i < MANY; i++) {
        char *object = static_cast<char *>(neap_alloc(48));
        watch(i, object);
        all_of_them->add(i, object);
        object = static_cast<char *>(neap_alloc(48));
        watch(MANY + i, object);
        rooted_vector->push_back(object);
    }
}

static void containers()
{
    fill_containers();
    collect();
    churn(48, 10000);
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    CHECK(all_of_them->string.size() == MANY && all_of_them->string[57] == '7');
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(all_of_them->flags[i], i % 3 == 0);
    CHECK_EQUAL(info_of(rooted_vector->data()).kind, NEAP_UNCOLLECTABLE);
    all_of_them = nullptr;
    delete rooted_vector;
    collect();
    CHECK_DEAD(0);
    CHECK_DEAD(MANY);
}

static std::atomic<bool> go_on;

static APART void start_threads(std::vector<std::thread> &threads, std::atomic<int> &sum)
{
    for (int i = 0; i < 4; i++) {
        int *number = neap::make<int>(i + 1);
        auto text = std::make_unique<std::string>("moved along");
        threads.emplace_back(neap::rooted([number, text = std::move(text), &sum] {
            while (!go_on)
                std::this_thread::yield();
            sum += *number * static_cast<int>(text->size());
        }));
    }
}

static APART std::vector<std::function<int(int)>> *make_functions()
{
    auto *functions = new std::vector<std::function<int(int)>>;
    for (int i = 0; i < MANY; i++) {
        int *object = neap::make<int>(i);
        watch(i, object);
        functions->push_back(neap::rooted([object, i](int more) { return *object + i + more; }));
    }
    return functions;
}

static void threads()
{
    std::vector<std::thread> threads;
    std::atomic<int> sum{0};
    start_threads(threads, sum);
    clear_stack();
    collect();
    for (int i = 0; i < 1000; i++)
        *neap::make<int>(0) = 77;
    go_on = true;
    for (auto &thread : threads)
        thread.join();
    CHECK_EQUAL(sum, 10 * 11);

    auto *functions = make_functions();
    clear_stack();
    collect();
    CHECK_ALL_ALIVE(0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL((*functions)[i](1), 2 * i + 1);
    delete functions;
    clear_stack();
    collect();
    CHECK_DEAD(0);
}

int main()
{
    cycles();
    bases();
    arrays();
    exceptions();
    layouts();
    weak_and_strong();
    containers();
    threads();
    return finish();
}
