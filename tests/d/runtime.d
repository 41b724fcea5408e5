/// What D programs do all day on a collected heap: associative arrays, classes, appending,
/// closures, sorting, threads, messages between threads, fibers. Prints results that do not depend
/// on the collector; `run.sh` compares them with druntime's own.
module runtime;

import core.memory : GC;
import core.thread : Fiber, Thread;
import std.algorithm : map, sort, sum;
import std.array : appender, array, join;
import std.concurrency : ownerTid, receiveOnly, send, spawn;
import std.conv : to;
import std.range : iota;
import std.stdio : writeln;

final class Tree
{
    Tree left, right;
    int depth;
    this(int depth)
    {
        this.depth = depth;
        if (depth > 0)
        {
            left = new Tree(depth - 1);
            right = new Tree(depth - 1);
        }
    }

    int count()
    {
        return 1 + (left ? left.count : 0) + (right ? right.count : 0);
    }
}

struct Entry
{
    string name;
    size_t number;
    int[] list;
}

void tables()
{
    int[string] numbers;
    foreach (i; 0 .. 100_000)
        numbers[i.to!string] = i;
    foreach (i; 0 .. 50_000)
        numbers.remove((i * 2).to!string);
    long total;
    foreach (key, value; numbers)
    {
        assert(key.to!int == value);
        total += value;
    }
    Entry[int] entries;
    foreach (i; 0 .. 20_000)
        entries[i] = Entry("entry " ~ i.to!string, i, [i, i + 1, i + 2]);
    foreach (i, ref entry; entries)
        assert(entry.name == "entry " ~ i.to!string && entry.list == [i, i + 1, i + 2]);
    writeln(total, " ", numbers.length, " ", entries.length);
}

void trees()
{
    auto kept = new Tree(15);
    foreach (turn; 0 .. 20)
        assert(new Tree(13).count == 16_383);
    writeln(kept.count);
}

void text()
{
    string[] words;
    foreach (i; 0 .. 50_000)
        words ~= i.to!string ~ "x";
    words.sort();
    auto all = appender!string;
    foreach (word; words)
        all.put(word);
    writeln(words[500], " ", all.data.length, " ",
        iota(1000).map!(n => n.to!string).array.join(",").length);
}

void closures()
{
    int delegate(int)[] functions;
    foreach (i; 0 .. 20_000)
        functions ~= ((int n) => (int x) => x + n)(i);
    long total;
    foreach (i, f; functions)
        total += f(cast(int) i);
    writeln(total);
}

void threads()
{
    Thread[] all;
    foreach (k; 0 .. 4)
        all ~= new Thread({
            foreach (turn; 0 .. 15)
            {
                assert(new Tree(12).count == 8191);
                int[] numbers;
                foreach (i; 0 .. 20_000)
                    numbers ~= i;
                assert(numbers.sum == 199_990_000);
            }
        }).start();
    foreach (thread; all)
        thread.join();
    writeln("threads");
}

void messages()
{
    static void echo()
    {
        foreach (i; 0 .. 5000)
            ownerTid.send(receiveOnly!string ~ "!");
    }

    auto other = spawn(&echo);
    size_t length;
    foreach (i; 0 .. 5000)
    {
        other.send(i.to!string);
        length += receiveOnly!string.length;
    }
    writeln(length);
}

void fibers()
{
    Fiber[] all;
    int total;
    foreach (k; 0 .. 20)
        all ~= new Fiber({
            auto tree = new Tree(8);
            foreach (turn; 0 .. 10)
            {
                Fiber.yield();
                total += tree.count;
            }
        });
    foreach (turn; 0 .. 11)
        foreach (fiber; all)
        {
            fiber.call();
            new Tree(9);
        }
    writeln(total);
}

void main()
{
    tables();
    trees();
    text();
    closures();
    threads();
    messages();
    fibers();
    GC.collect();
    writeln(GC.profileStats.numCollections > 0);
}
