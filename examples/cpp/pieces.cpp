// pieces.cpp: the pieces of programs that docs/cpp.md shows, in one that runs: each is used once,
// with what it needs around it.
#include <neap.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

struct stream {
    stream *behind;
    ~stream() { std::fflush(stdout); }
};
template <> struct neap::is_ordered<stream> : std::true_type {};

struct node {
    node *next;
    std::uint64_t hash;
    double values[6];
    using neap_pointers = neap::pointers<node, &node::next>;
};

static std::size_t friends()
{
    struct person {
        std::string name;
        std::vector<person *, neap::allocator<person *>> friends;
    };
    person *ada = neap::make<person>();
    double *table = neap::make_array<double>(1000);
    table[999] = 1;
    ada->friends.push_back(neap::make<person>());
    return ada->friends.size();
}

struct runner {
    int runs = 0;
    void run() { runs = 2; }
};

static int threaded()
{
    neap::root<runner> ada(neap::make<runner>());
    std::thread thread(neap::rooted([ada] { ada->run(); }));
    thread.join();
    return ada->runs;
}

int main()
{
    stream *last = neap::make<stream>(), *first = neap::make<stream>();
    first->behind = last;
    node *list = nullptr;
    for (int i = 0; i < 100000; i++) {
        node *more = neap::make<node>();
        more->next = i % 1000 == 0 ? nullptr : list;
        more->hash = 3;
        list = more;
    }
    int nodes = 0;
    for (node *at = list; at != nullptr; at = at->next)
        nodes += at->hash == 3;
    std::printf("%zu %d %d\n", friends(), threaded(), nodes);
}
