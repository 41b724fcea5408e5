// libgctba: new of other classes stays malloc's, what is refused is thrown, and placements of
// gc_cpp.h have their effect: where an object lies, and what is called when it is found dead.
extern "C" {
#include "check.h"
}
#define GC_ATOMIC_UNCOLLECTABLE
#include <gc/gc_allocator.h>
#include <gc/gc_cpp.h>
#include <memory>
#include <new>
#include <vector>

struct Plain : gc {
    long words[2];
};
struct Outside {
    long words[4];
};

static int cleaned;
static void clean(void *, void *data)
{
    cleaned += *static_cast<int *>(data);
}

static APART void make(int *data)
{
    for (int index = 0; index < MANY; index++)
        new (UseGC, clean, data) Outside;
}

template <class Function> static bool throws(Function function)
{
    try {
        function();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void *refuse(size_t)
{
    return nullptr;
}

int main()
{
    GC_INIT();
    auto *outside = new Outside;
    CHECK(GC_base(outside) == nullptr);
    delete outside;
    auto *inside = new (UseGC) Outside;
    CHECK(GC_base(inside) == inside);
    auto *array = new Plain[100];
    CHECK(GC_base(array) != nullptr);
    delete[] array;
    auto *uncollectable = new (PointerFreeNoGC) Outside;
    CHECK(GC_base(uncollectable) == uncollectable);

    static int data = 1;
    make(&data);
    collect();
    CHECK_NEARLY_ALL(cleaned);

    // Containers move what cannot be copied.
    std::vector<std::unique_ptr<int>, traceable_allocator<std::unique_ptr<int>>> movable;
    for (int index = 0; index < 1000; index++)
        movable.push_back(std::make_unique<int>(index));
    CHECK_EQUAL(*movable[999], 999);
    std::vector<Plain *, gc_allocator_ignore_off_page<Plain *>> large;
    for (int index = 0; index < 100000; index++)
        large.push_back(new Plain);
    CHECK(GC_base(large[0]) == large[0]);

    GC_set_oom_fn(refuse);
    volatile size_t huge = size_t(1) << 50;
    CHECK(throws([&] { new (UseGC) char[huge]; }));
    CHECK(throws([&] { gc_allocator<char>().allocate(huge); }));
    CHECK(throws([&] { gc_allocator<long>().allocate(~size_t(0) / 4); }));
    CHECK(throws([&] { GC_throw_bad_alloc(); }));
    return finish();
}
