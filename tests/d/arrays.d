/// What is kept in a block beside the program's data, in blocks of every size: the length of an
/// array, and the type of structs that are to be destroyed. With druntime 2.111 and later, where
/// the collector keeps them, its four members for arrays too. Prints what does not hold; ends with
/// status 0 if everything held.
module arrays;

import core.atomic;
import core.memory : GC;
import core.stdc.stdio : fprintf, stderr;
import core.thread;

__gshared int failures, checks;

void check(bool holds, string what, size_t number, size_t line = __LINE__)
{
    checks++;
    if (!holds)
    {
        failures++;
        fprintf(stderr, "arrays.d:%d: does not hold with %zu: %.*s\n", cast(int) line, number,
            cast(int) what.length, what.ptr);
    }
}

/// Around every border between ways to keep a length.
immutable size_t[] lengths = [1, 7, 8, 15, 16, 17, 100, 239, 240, 241, 246, 247, 248, 254, 255, 256,
    257, 1000, 2037, 2038, 2039, 2046, 2047, 2048, 2049, 2500, 3000, 4078, 4079, 4080, 4085, 4086,
    4093, 4094, 4095, 4096, 4097, 5000, 32_750, 32_768, 32_769, 100_000];

/// No byte of the data is one of what is kept beside it.
void testWhole()
{
    foreach (length; lengths)
    {
        auto bytes = new ubyte[length];
        check(bytes.capacity >= length, "an array has room for itself", length);
        bytes[] = 0xa5;
        // All the room that there is.
        const room = bytes.capacity;
        while (bytes.length < room)
            bytes ~= 0xa5;
        bool whole = true;
        foreach (value; bytes)
            whole &= value == 0xa5;
        check(whole, "nothing else is written into it", length);
        check(bytes.capacity >= room, "and its room is what it was", length);
        const block = GC.query(bytes.ptr);
        check(bytes.ptr >= block.base && bytes.ptr + room < block.base + block.size,
            "its end is inside of its block", length);
        auto first = bytes[0 .. length / 2];
        check(first.capacity == 0, "a slice that ends before the array has no room", length);
        auto other = first ~ cast(ubyte) 1;
        check(bytes[length / 2] == 0xa5 && other.length == length / 2 + 1, "nor stomps on it",
            length);
        first.assumeSafeAppend();
        check(first.length == 0 || first.capacity >= length / 2, "unless it may", length);
    }
}

shared int destroyed;

struct Counts(size_t fillers)
{
    ubyte[fillers] filler;
    int isOurs;
    ~this()
    {
        if (isOurs == 77)
            atomicOp!"+="(destroyed, 1);
    }
}

struct Points
{
    void* pointer;
    int isOurs;
    ~this()
    {
        if (isOurs == 77)
            atomicOp!"+="(destroyed, 1);
    }
}

/// Of an array each structure in use is destroyed, and once; no other.
void testDestroyed(T)()
{
    foreach (length; lengths)
    {
        const number = length / T.sizeof + 1;
        enum turns = 10;
        destroyed.atomicStore(0);
        new Thread({
            foreach (turn; 0 .. turns)
            {
                auto array = new T[number];
                foreach (ref element; array)
                    element.isOurs = 77;
                // More room than is in use.
                array.reserve(number + 3);
                if (turn == 0)
                    GC.collect();
                check(array[number - 1].isOurs == 77, "kept while in use", number);
            }
        }).start().join();
        // Those that moved are destroyed where they were too.
        foreach (turn; 0 .. 3)
            GC.collect();
        const count = destroyed.atomicLoad;
        check(count % number == 0, "an array is destroyed as a whole", number);
        check(count >= number * (turns - 4) && count <= 2 * number * turns,
            "nearly all were, each once", number);
    }
}

/// Threads append to arrays of their own, while cycles run.
void testThreads()
{
    shared bool done;
    Thread[] threads;
    foreach (number; 0 .. 3)
        threads ~= new Thread({
            foreach (turn; 0 .. 30)
            {
                int[][] all;
                foreach (index; 0 .. 50)
                {
                    int[] array;
                    foreach (value; 0 .. index * 13)
                        array ~= value;
                    all ~= array;
                }
                bool whole = true;
                foreach (index, array; all)
                {
                    whole &= array.length == index * 13;
                    foreach (value, element; array)
                        whole &= element == value;
                }
                check(whole, "arrays are what was appended", turn);
            }
        }).start();
    while (!done)
    {
        GC.collect();
        Thread.sleep(1.msecs);
        bool isRunning;
        foreach (thread; threads)
            isRunning |= thread.isRunning;
        done = !isRunning;
    }
}

/// Threads share one array: each slice that ends where it does is extended by one of them only.
/// The array itself is shared: of an array of shared elements druntime 2.100 does not know that
/// it is, and lets two threads extend it at once.
void testShared()
{
    enum others = 4, turns = 50;
    foreach (start; [1, 100, 1000, 5000])
        foreach (turn; 0 .. turns)
        {
            auto reserved = new ubyte[start];
            reserved.reserve(start + 100);
            auto array = cast(shared(ubyte[])) reserved;
            shared int inPlace, ready;
            Thread[others] threads;
            foreach (ref thread; threads)
                thread = new Thread({
                    auto own = array;
                    atomicOp!"+="(ready, 1);
                    while (ready.atomicLoad < others)
                        Thread.yield();
                    own ~= 1;
                    if (own.ptr is array.ptr)
                        atomicOp!"+="(inPlace, 1);
                }).start();
            foreach (thread; threads)
                thread.join();
            check(inPlace == 1, "one of them appends in place", start);
        }
}

static if (__VERSION__ >= 2111)
{
    extern (C) void[] gc_getArrayUsed(void* p, bool atomic) nothrow;
    extern (C) bool gc_expandArrayUsed(void[] slice, size_t newUsed, bool atomic) nothrow;
    extern (C) size_t gc_reserveArrayCapacity(void[] slice, size_t request, bool atomic) nothrow;
    extern (C) bool gc_shrinkArrayUsed(void[] slice, size_t existingUsed, bool atomic) nothrow;

    /// The members as their documentation has them.
    void testMembers()
    {
        foreach (length; lengths)
            foreach (atomic; [false, true])
            {
                auto p = GC.malloc(length, GC.BlkAttr.APPENDABLE | GC.BlkAttr.NO_SCAN);
                auto used = gc_getArrayUsed(p, atomic);
                check(used.ptr is p && used.length == length, "malloc sets what is in use", length);
                check(gc_getArrayUsed(p + length / 2, atomic) == used,
                    "an interior pointer finds it", length);
                const room = gc_reserveArrayCapacity(used, 0, atomic);
                check(room >= length, "capacity of the whole", length);
                check(gc_reserveArrayCapacity(used[0 .. length - 1], 0, atomic) == 0,
                    "a part that ends before has none", length);
                check(gc_expandArrayUsed(used, room, atomic), "expands to its capacity", length);
                check(gc_getArrayUsed(p, atomic).length == room, "and says so", length);
                check(room == length || !gc_expandArrayUsed(used, room, atomic),
                    "not by what it was", length);
                check(!gc_expandArrayUsed(p[0 .. room], room - 1, atomic), "does not shrink",
                    length);
                check(!gc_shrinkArrayUsed(p[0 .. 1], room - 1, atomic),
                    "shrinks from what is in use only", length);
                check(gc_shrinkArrayUsed(p[0 .. 1], room, atomic), "shrinks", length);
                check(gc_getArrayUsed(p, atomic).length == 1, "to what was said", length);
                check(!gc_shrinkArrayUsed(p[0 .. 2], 1, atomic), "does not grow", length);
                auto tail = p[1 .. 1];
                check(gc_reserveArrayCapacity(tail, 0, atomic) == room - 1,
                    "capacity from the end on", length);
                check(gc_reserveArrayCapacity(p[0 .. 1], room + 1, atomic) == 0 ||
                    gc_reserveArrayCapacity(p[0 .. 1], 0, atomic) > room,
                    "more than there is, or 0", length);
                auto plain = GC.malloc(length, GC.BlkAttr.NO_SCAN);
                check(gc_getArrayUsed(plain, atomic) is null &&
                    !gc_expandArrayUsed(plain[0 .. length], length, atomic) &&
                    gc_reserveArrayCapacity(plain[0 .. length], 0, atomic) == 0 &&
                    !gc_shrinkArrayUsed(plain[0 .. 1], length, atomic),
                    "none of it without APPENDABLE", length);
            }
        int onStack;
        check(gc_getArrayUsed(&onStack, false) is null && gc_getArrayUsed(null, false) is null &&
            !gc_expandArrayUsed(null, 0, false) && gc_reserveArrayCapacity(null, 10, false) == 0 &&
            !gc_shrinkArrayUsed(null, 0, false), "nor elsewhere", 0);
    }

    /// Large arrays grow in place.
    void testExpandsInPlace()
    {
        int grown;
        foreach (turn; 0 .. 10)
        {
            auto p = GC.malloc(100_000, GC.BlkAttr.APPENDABLE | GC.BlkAttr.NO_SCAN);
            (cast(ubyte*) p)[0 .. 100_000] = 7;
            if (gc_expandArrayUsed(p[0 .. 100_000], 300_000, false))
            {
                grown++;
                check(gc_getArrayUsed(p, false).length == 300_000, "by as much as asked for", turn);
                check((cast(ubyte*) p)[99_999] == 7, "and keeps its data", turn);
            }
        }
        check(grown > 0, "some can", grown);
    }
}

int main()
{
    testWhole();
    testDestroyed!(Counts!1);
    testDestroyed!(Counts!60);
    testDestroyed!Points;
    testThreads();
    testShared();
    static if (__VERSION__ >= 2111)
    {
        testMembers();
        testExpandsInPlace();
    }
    if (checks < 700)
        fprintf(stderr, "only %d checks ran\n", checks);
    return failures != 0 || checks < 700;
}
