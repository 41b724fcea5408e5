// A graph of people who know each other: objects that point at each other, their destructors, a
// container in collected memory, a weak reference, and a thread that holds an object.
#include <neap.hpp>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> gone;

struct person {
    std::string name; // memory of malloc, which the destructor frees
    std::vector<person *, neap::allocator<person *>> friends;

    explicit person(const char *called) : name(called) {}
    ~person() { gone++; } // no word of the friends: they may be gone
};

static person *befriended(const char *one, const char *other)
{
    person *first = neap::make<person>(one), *second = neap::make<person>(other);
    first->friends.push_back(second);
    second->friends.push_back(first);
    return first;
}

int main()
{
    neap::root<person> ada(befriended("Ada", "Bob"));
    neap::weak<person> weak(ada.get());
    for (int i = 0; i < 1000; i++)
        befriended("Eve", "Dan");

    std::thread(neap::rooted([somebody = ada.get()] {
        std::printf("%s knows %s\n", somebody->name.c_str(), somebody->friends[0]->name.c_str());
    })).join();

    neap_collect();
    neap_finalizers_run(); // only to see now what else happens in its own time
    std::printf("most of 2000 are gone: %s\n", gone > 1900 ? "yes" : "no");
    std::printf("%s is there: %s\n", ada->name.c_str(), weak ? "yes" : "no");
}
