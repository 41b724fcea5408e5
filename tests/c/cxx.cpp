// The C++ interface: destructors run once and in order, constructors that throw lose nothing,
// containers, roots in malloc memory, guards, exceptions around frames of C.
#include "check.h"
#include <neap.hpp>

#include <atomic>
#include <list>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Destructors run on the library's threads and on this one at the same time.
static std::atomic<int> constructed, destroyed;

struct part {
    part *next;
    int number;
    part(part *following, int index) : next(following), number(index) { constructed++; }
    ~part()
    {
        // Topological: the next one is still there.
        CHECK(next == nullptr || next->number == number + 1);
        number = -1;
        destroyed++;
    }
};

template <> struct neap::is_ordered<part> : std::true_type {};

static APART void make_chains()
{
    for (int i = 0; i < MANY; i++) {
        part *tail = neap::make<part>(nullptr, 2);
        part *middle = neap::make<part>(tail, 1);
        neap::make<part>(middle, 0);
    }
}

struct thrower {
    std::string text;
    explicit thrower(int number) : text(100, 'x')
    {
        if (number % 2 == 1)
            throw std::runtime_error("odd");
        constructed++;
    }
    ~thrower()
    {
        CHECK(text.size() == 100);
        destroyed++;
    }
};

static APART void make_throwers()
{
    int caught = 0;
    for (int i = 0; i < 2 * MANY; i++)
        try {
            thrower *made = neap::make<thrower>(i);
            CHECK(i % 2 == 0 && made->text[99] == 'x');
        } catch (const std::runtime_error &error) {
            CHECK(std::string(error.what()) == "odd");
            caught++;
        }
    CHECK_EQUAL(caught, MANY);
}

struct alignas(64) wide {
    double values[8];
};
enum colour { red, green };
static_assert(neap::is_leaf<int>::value && neap::is_leaf<double>::value &&
    neap::is_leaf<colour>::value, "numbers are leaves");
static_assert(!neap::is_leaf<int *>::value && !neap::is_leaf<part>::value,
    "what may hold a pointer is not");

static int kind_of(const void *object)
{
    neap_object_info info;
    CHECK(neap_object_at(object, &info));
    return info.kind;
}

static APART void kinds()
{
    CHECK_EQUAL(kind_of(neap::make<int>(7)), NEAP_LEAF);
    CHECK_EQUAL(*neap::make<int>(7), 7);
    CHECK_EQUAL(kind_of(neap::make_array<const double>(3)), NEAP_LEAF);
    CHECK_EQUAL(kind_of(neap::make_array<int[3]>(3)), NEAP_LEAF);
    CHECK_EQUAL(kind_of(neap::make_array<int *[3]>(3)), NEAP_CONSERVATIVE);
    CHECK_EQUAL(kind_of(neap::make<int *>(nullptr)), NEAP_CONSERVATIVE);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(neap::make<wide>()) % 64, 0);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(neap::make_array<wide>(3)) % 64, 0);
    int *numbers = neap::make_array<int>(1000);
    for (int i = 0; i < 1000; i++)
        CHECK_EQUAL(numbers[i], 0);
    try {
        neap::make_array<wide>(~std::size_t(0) / 3);
        CHECK(!"so many");
    } catch (const std::bad_alloc &) {
        CHECK(true);
    }
}

typedef std::vector<void *, neap::allocator<void *>> vector;
typedef std::map<int, void *, std::less<int>, neap::allocator<std::pair<const int, void *>>> map;

static vector *in_static_data;

static APART void containers()
{
    in_static_data = neap::make<vector>();
    map ordered;
    for (int i = 0; i < MANY; i++) {
        void *first = neap_alloc(32), *second = neap_alloc(32);
        watch(i, first);
        watch(MANY + i, second);
        in_static_data->push_back(first);
        ordered[i] = second;
    }
    collect();
    churn(32, 10000);
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    for (int i = 0; i < MANY; i += 2)
        ordered.erase(i);
    vector moved(std::move(*in_static_data));
    CHECK(in_static_data->empty());
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_EQUAL(ordered.size(), MANY / 2);
    std::list<int, neap::allocator<int>> numbers(1000, 5);
    numbers.clear();
    CHECK(neap::allocator<int>() == neap::allocator<char>());
}

// Vectors that are full have pointers past their last element: they do not keep each other alive.
static vector *kept_vectors[2];

static APART vector *make_full()
{
    vector *full = neap::make<vector>();
    full->push_back(full);
    return full;
}

static APART void make_neighbours()
{
    for (int i = 0; i < 10; i++)
        make_full();
    kept_vectors[0] = make_full();
    for (int i = 0; i < MANY; i++)
        watch(i, make_full());
    kept_vectors[1] = make_full();
}

static APART void neighbours()
{
    make_neighbours();
    collect();
    CHECK_DEAD(0);
    CHECK(kept_vectors[0]->front() == kept_vectors[0]);
    CHECK(kept_vectors[1]->front() == kept_vectors[1]);
}

static std::vector<neap::root<char>> *roots;

static APART void fill_roots()
{
    roots = new std::vector<neap::root<char>>();
    for (int i = 0; i < MANY; i++) {
        char *object = static_cast<char *>(neap_alloc(48));
        watch(i, object);
        roots->push_back(neap::root<char>(object));
    }
}

static APART void use_roots()
{
    fill_roots();
    collect();
    CHECK_ALL_ALIVE(0);
    neap::root<char> copy((*roots)[0]), moved(std::move((*roots)[0]));
    CHECK(copy == moved && copy && !(*roots)[0] && *copy == 0);
    (*roots)[0] = copy;
    for (int i = 0; i < MANY / 2; i++)
        (*roots)[i].reset();
    copy.reset();
    moved = neap::root<char>();
    CHECK(copy == moved && copy.get() == nullptr);
    collect();
    CHECK(alive(0) <= MANY / 2 + STRAY && alive(0) >= MANY / 2);
}

static APART void guards()
{
    neap_collect();
    {
        neap::collections_held held;
        CHECK(!neap_collect());
    }
    {
        neap::collections_disabled disabled;
        CHECK(neap_is_disabled() && !neap_collect());
    }
    CHECK(neap_collect());
    std::thread([] {
        neap_thread_detach();
        CHECK(!neap_thread_is_attached());
        {
            neap::attached here;
            {
                neap::attached again;
            }
            CHECK(neap_thread_is_attached());
        }
        CHECK(!neap_thread_is_attached());
    }).join();

    int done = 0;
    neap::blocked([&] {
        done++;
        neap::unblocked([&] { done += neap_collect(); });
    });
    CHECK_EQUAL(done, 2);
    try {
        neap::blocked([&] {
            try {
                neap::unblocked([] { throw std::runtime_error("inner"); });
            } catch (const std::runtime_error &error) {
                done++;
                throw std::logic_error(error.what());
            }
        });
        CHECK(!"an exception");
    } catch (const std::logic_error &error) {
        CHECK(std::string(error.what()) == "inner");
    }
    CHECK_EQUAL(done, 3);
    CHECK(neap_collect());
}

// An exception unwinds through frames that hold pointers, on a thread of std::thread.
static APART void threads()
{
    std::vector<std::thread> all;
    for (int i = 0; i < 4; i++)
        all.emplace_back([] {
            for (int k = 0; k < 200; k++) {
                std::vector<int, neap::allocator<int>> held(1000, k);
                try {
                    churn(100, 100);
                    throw k;
                } catch (int number) {
                    CHECK(number == k && held[999] == k);
                }
            }
        });
    for (auto &thread : all)
        thread.join();
}

int main()
{
    make_chains();
    for (int i = 0; i < 5; i++)
        collect();
    CHECK_EQUAL(constructed, 3 * MANY);
    CHECK(destroyed >= 3 * (MANY - STRAY) && destroyed <= 3 * MANY);
    for (int i = 0; i < MANY; i++)
        neap::destroy(neap::make<part>(nullptr, 5));
    neap::destroy(static_cast<part *>(nullptr));
    CHECK(destroyed >= 4 * MANY - 3 * STRAY);
    collect();
    CHECK(destroyed <= 4 * MANY);

    constructed = destroyed = 0;
    make_throwers();
    collect();
    CHECK_EQUAL(constructed, MANY);
    CHECK(destroyed >= MANY - STRAY && destroyed <= MANY + 3 * STRAY);

    kinds();
    containers();
    in_static_data = nullptr;
    collect();
    CHECK_DEAD(0);
    CHECK_DEAD(MANY);
    neighbours();
    use_roots();
    delete roots;
    collect();
    CHECK_DEAD(0);
    guards();
    threads();
    return finish();
}
