// The C++ layer: gc, gc_cleanup and placement forms of gc_cpp.h, the allocators of gc_allocator.h,
// libgccpp on our libgc.
extern "C" {
#include "check.h"
}
#include <gc/gc_allocator.h>
#include <gc/gc_cpp.h>
#include <map>
#include <string>
#include <vector>

static int destroyed;

struct Plain : public gc {
    Plain *next;
    long value;
    Plain(Plain *next, long value) : next(next), value(value) {}
};

struct Cleaned : public gc_cleanup {
    long value = 5;
    ~Cleaned() override
    {
        CHECK_EQUAL(value, 5);
        destroyed++;
    }
};

struct Outside {
    long words[4];
};

static APART void make_cleaned()
{
    for (int index = 0; index < MANY; index++)
        new Cleaned;
}

int main()
{
    /* As libgc's: a statement of its own. */
    GC_INIT()
    Plain *kept = nullptr;
    for (long value = 0; value < 100000; value++) {
        new Plain(nullptr, -1);
        if (value % 10 == 0)
            kept = new Plain(kept, value);
    }
    long expected = 99990;
    for (Plain *at = kept; at; at = at->next, expected -= 10)
        CHECK_EQUAL(at->value, expected);
    CHECK_EQUAL(expected, -10);

    make_cleaned();
    collect();
    CHECK_NEARLY_ALL(destroyed);
    int before = destroyed;
    delete new Cleaned;
    CHECK_EQUAL(destroyed, before + 1);

    CHECK(GC_base(GC_selective_alloc(sizeof(long), GC_true_type(), false)) != nullptr);
    auto *fixed = new (GC_NS_QUALIFY(NoGC)) Outside;
    auto *leaf = new (PointerFreeGC) Outside;
    CHECK(GC_base(fixed) == fixed && GC_base(leaf) == leaf);
    delete fixed;

    std::vector<Plain *, gc_allocator<Plain *>> vector;
    std::map<int, long, std::less<int>, traceable_allocator<std::pair<const int, long>>> map;
    std::basic_string<char, std::char_traits<char>, gc_allocator<char>> text;
    for (int index = 0; index < 20000; index++) {
        vector.push_back(new Plain(nullptr, index));
        map[index] = index * 2L;
        text += 'x';
    }
    GC_gcollect();
    for (int index = 0; index < 20000; index++) {
        CHECK_EQUAL(vector[index]->value, index);
        CHECK_EQUAL(map[index], index * 2L);
    }
    CHECK_EQUAL(text.size(), 20000);
    return finish();
}
