/// Walks the collector's roots and ranges, as druntime does where one collector hands them to
/// another, with a delegate that allocates, collects and removes while another thread collects too.
/// Prints what does not hold; ends with status 0 if everything held, and never if they wait for
/// each other. Run by `run.sh`.
module walked;

import core.atomic : atomicLoad, atomicStore;
import core.gc.gcinterface : Collector = GC, Range, Root;
import core.memory : GC;
import core.stdc.stdio : fprintf, stderr;
import core.stdc.stdlib : calloc;
import core.thread : Thread;

extern (C) Collector gc_getProxy() nothrow;

enum many = 200, word = 0x1234_5678;
shared bool isOver;
int failures;

void check(bool holds, string what) nothrow
{
    if (holds)
        return;
    failures++;
    fprintf(stderr, "does not hold: %.*s\n", cast(int) what.length, what.ptr);
}

pragma(inline, false) void addRoots()
{
    foreach (i; 0 .. many)
    {
        auto block = cast(size_t*) GC.malloc(48, GC.BlkAttr.NO_SCAN);
        block[0] = word;
        GC.addRoot(block);
    }
}

pragma(inline, false) void clearStack()
{
    import core.volatile : volatileStore;

    ubyte[16384] room = void;
    foreach (ref cell; room)
        volatileStore(&cell, cast(ubyte) 0);
}

int main()
{
    auto other = new Thread({
        while (!isOver.atomicLoad)
            GC.collect();
    }).start();
    addRoots();
    clearStack();
    size_t roots, wrong;
    gc_getProxy().rootIter()((ref Root root) {
        if (GC.sizeOf(root.proot) != 48)
            return 0;
        roots++;
        // It stays for as long as the delegate looks at it.
        GC.removeRoot(root.proot);
        if (roots % 10 == 0)
            GC.collect();
        foreach (i; 0 .. 1000)
            cast(void) GC.malloc(48);
        wrong += *cast(size_t*) root.proot != word;
        return 0;
    });
    check(roots == many, "each root is seen");
    check(wrong == 0, "and is there");
    auto outside = cast(void**) calloc(many, 2 * size_t.sizeof);
    foreach (i; 0 .. many)
        GC.addRange(outside + 2 * i, size_t.sizeof);
    size_t ranges;
    const ended = gc_getProxy().rangeIter()((ref Range range) {
        if (range.pbot < outside || range.pbot >= outside + 2 * many)
            return 0;
        check(range.ptop == range.pbot + size_t.sizeof, "a range is as long as it was added");
        if (++ranges % 10 == 0)
            GC.collect();
        return ranges == many / 2 ? 7 : 0;
    });
    check(ended == 7 && ranges == many / 2, "a walk ends where the delegate says so");
    isOver.atomicStore(true);
    other.join();
    return failures != 0;
}
