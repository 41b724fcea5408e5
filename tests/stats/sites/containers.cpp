// Fills containers of C++ in functions of known names: names.sh looks which functions the sites
// are named by.
#include <map>
#include <memory>
#include <neap.hpp>
#include <string>
#include <vector>

struct node {
    node *next;
    long value;
};
template <class T> using vector = std::vector<T, neap::allocator<T>>;
template <class K, class V>
using map = std::map<K, V, std::less<K>, neap::allocator<std::pair<const K, V>>>;
using string = std::basic_string<char, std::char_traits<char>, neap::allocator<char>>;

struct tables {
    vector<long> row;
    map<long, long> tree;
    string text;
};

#define APART __attribute__((noinline))

APART static node *make_nodes(long count)
{
    node *first = nullptr;
    for (long i = 0; i < count; i++)
        first = neap::make<node>(node{first, i});
    return first;
}

APART static void fill_row(tables &of)
{
    for (long i = 0; i < 1 << 18; i++)
        of.row.push_back(i);
}

APART static void fill_tree(tables &of)
{
    for (long i = 0; i < 1 << 14; i++)
        of.tree[i] = i;
}

APART static void fill_text(tables &of)
{
    for (long i = 0; i < 1 << 20; i++)
        of.text += 'x';
}

APART static std::shared_ptr<tables> share()
{
    std::shared_ptr<tables> last;
    for (int i = 0; i < 10000; i++)
        last = std::allocate_shared<tables>(neap::allocator<tables>());
    return last;
}

int main()
{
    auto held = neap::make<tables>();
    fill_row(*held);
    fill_tree(*held);
    fill_text(*held);
    auto shared = share();
    node *nodes = make_nodes(100000);
    return nodes->value == 99999 && shared->row.empty() && held->tree.size() == 1 << 14 ? 0 : 1;
}
