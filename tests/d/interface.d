/// Every member of druntime's GC interface, called as programs call it, while another thread keeps
/// cycles going. `docs/d.md` names the test of each member. Prints what does not hold; ends with
/// status 0 if everything held. Usage: interface [--quiet-heap]: without the other thread.
module interface_;

import core.atomic;
import core.exception : InvalidMemoryOperationError, OutOfMemoryError;
import core.memory : GC;
import core.stdc.stdio : fprintf, stderr;
import core.thread;

__gshared int failures, checks;

void check(bool holds, string what, size_t line = __LINE__)
{
    checks++;
    if (!holds)
    {
        failures++;
        fprintf(stderr, "interface.d:%d: does not hold: %.*s\n", cast(int) line,
            cast(int) what.length, what.ptr);
    }
}

alias Bits = GC.BlkAttr;
enum many = 100, stray = 8;

/// Frames that made objects are overwritten.
pragma(inline, false) void clearStack()
{
    ubyte[16384] room = void;
    foreach (ref cell; room)
        volatileStore(&cell, 0);
}

void volatileStore(ubyte* at, ubyte value)
{
    import core.volatile : store = volatileStore;

    store(at, value);
}

void collectWell()
{
    foreach (turn; 0 .. 3)
    {
        clearStack();
        GC.collect();
    }
}

/// Blocks that die are seen by destructors that count those made since `beginCounting`: what the
/// stack kept of an earlier test may die at any time.
shared int destroyed, round;

void beginCounting()
{
    round.atomicOp!"+="(1);
    destroyed.atomicStore(0);
}

final class Counted
{
    Object[] held;
    int number = 7, madeIn;
    this()
    {
        madeIn = round.atomicLoad;
    }

    ~this()
    {
        if (number == 7 && madeIn == round.atomicLoad)
            atomicOp!"+="(destroyed, 1);
    }
}

struct CountedStruct
{
    int[4] filler;
    void* pointer;
    ~this()
    {
        if (filler[0] == 5 && filler[1] == round.atomicLoad)
            atomicOp!"+="(destroyed, 1);
    }
}

pragma(inline, false) void makeClasses()
{
    foreach (i; 0 .. many)
        new Counted;
    clearStack();
}

pragma(inline, false) CountedStruct[] makeStructs()
{
    // Made at once: an array that moves leaves copies behind, which are destroyed too.
    auto array = new CountedStruct[many];
    beginCounting();
    foreach (ref element; array)
        element.filler[0 .. 2] = [5, round.atomicLoad];
    return array;
}

void testMalloc()
{
    check(GC.malloc(0) is null, "no block for no bytes");
    foreach (size; [1, 15, 16, 17, 100, 255, 256, 257, 2046, 2047, 2048, 4000, 4096, 30_000, 40_000,
        1 << 20])
        foreach (bits; [0, Bits.NO_SCAN, Bits.APPENDABLE, Bits.NO_SCAN | Bits.APPENDABLE
            | Bits.NO_INTERIOR])
        {
            auto p = GC.malloc(size, bits);
            check((cast(size_t) p & 15) == 0, "aligned to 16");
            (cast(ubyte*) p)[0 .. size] = 0x5a;
            // From 2.111 on a large array does not begin where its block does.
            auto whole = GC.query(p);
            check(whole.base + whole.size >= p + size && GC.sizeOf(whole.base) == whole.size,
                "as large as asked for");
            check(whole.base is p || (__VERSION__ >= 2111 && bits & Bits.APPENDABLE), "at its start");
            check(GC.getAttr(whole.base) == bits, "its attributes");
            auto block = GC.qalloc(size, bits);
            check(block.attr == bits && block.size == GC.sizeOf(block.base),
                "qalloc says what it gave");
            auto zeroed = cast(ubyte*) GC.calloc(size, bits);
            foreach (offset; [0, size / 2, size - 1])
                check(zeroed[offset] == 0, "calloc clears");
            GC.free(whole.base);
        }
}

void testAttributes()
{
    auto p = GC.malloc(64);
    check(GC.getAttr(p) == 0 && GC.getAttr(p + 8) == 0 && GC.getAttr(null) == 0, "none");
    check(GC.setAttr(p, Bits.APPENDABLE) == 0, "setAttr tells what was");
    check(GC.setAttr(p, Bits.NO_INTERIOR) == Bits.APPENDABLE, "and again");
    check(GC.getAttr(p) == (Bits.APPENDABLE | Bits.NO_INTERIOR), "both are set");
    check(GC.clrAttr(p, Bits.APPENDABLE) == (Bits.APPENDABLE | Bits.NO_INTERIOR),
        "clrAttr tells what was");
    check(GC.query(p + 3).attr == Bits.NO_INTERIOR, "query sees them");
    check(GC.setAttr(p + 8, Bits.NO_SCAN) == 0, "not through interior pointers");
    GC.free(p);
    check(GC.getAttr(GC.malloc(64)) == 0, "a new block at the same place has its own");
    testScannedLeaf();
}

pragma(inline, false) void** leafWithPointers()
{
    auto leaf = cast(void**) GC.calloc(many * 8, Bits.NO_SCAN);
    GC.clrAttr(leaf, Bits.NO_SCAN);
    foreach (i; 0 .. many)
        leaf[i] = cast(void*) new Counted;
    return leaf;
}

/// A block made without pointers, whose NO_SCAN is cleared, keeps what it holds.
void testScannedLeaf()
{
    beginCounting();
    auto leaf = leafWithPointers();
    collectWell();
    check(destroyed.atomicLoad == 0, "what a scanned leaf holds is alive");
    GC.setAttr(leaf, Bits.NO_SCAN);
    collectWell();
    check(destroyed.atomicLoad >= many - stray, "what a leaf holds is not");
}

void testRealloc()
{
    // From 2.111 on what the collector keeps with an array is not handed on.
    enum kept = Bits.NO_SCAN | (__VERSION__ >= 2111 ? 0 : Bits.APPENDABLE);
    auto p = cast(ubyte*) GC.malloc(100, Bits.NO_SCAN | Bits.APPENDABLE);
    foreach (i; 0 .. 100)
        p[i] = cast(ubyte) i;
    foreach (size; [200, 5000, 50_000, 500_000, 60_000, 300, 100])
    {
        p = cast(ubyte*) GC.realloc(p, size);
        check(GC.sizeOf(p) >= size, "the new size");
        check(GC.sizeOf(p) / 2 <= size, "and it uses half of its block");
        check(GC.getAttr(p) == kept,
            "attributes are kept without new ones");
        foreach (i; 0 .. 100)
            check(p[i] == i, "contents are kept");
    }
    p = cast(ubyte*) GC.realloc(p, 120, Bits.NO_SCAN);
    check(GC.getAttr(p) == Bits.NO_SCAN && p[99] == 99, "new attributes replace them");
    check(GC.realloc(p, 0) is null, "no bytes: freed");
    check(GC.sizeOf(GC.realloc(null, 33)) >= 33, "no block: a new one");
    bool none;
    try
        GC.realloc(GC.malloc(100_000), size_t.max);
    catch (OutOfMemoryError)
        none = true;
    check(none, "nothing is as large as the address space");
}

void testExtend()
{
    check(GC.extend(GC.malloc(64), 16, 32) == 0, "small blocks have no room behind them");
    check(GC.extend(null, 1, 1) == 0, "null has none");
    int extended;
    foreach (i; 0 .. 10)
    {
        auto p = GC.malloc(100_000);
        const before = GC.sizeOf(p);
        if (const after = GC.extend(p, 4096, 100_000))
        {
            extended++;
            check(after >= before + 4096 && after == GC.sizeOf(p), "extend tells the whole size");
            auto words = cast(size_t*) p;
            check(words[before / 8] == 0 && words[after / 8 - 1] == 0,
                "what was gained holds no old pointers");
            check(GC.addrOf(p + after - 1) is p, "and belongs to the block");
        }
    }
    check(extended > 0, "some large blocks can be extended");

    auto large = GC.malloc(1 << 20);
    const size = GC.sizeOf(large), told = GC.extend(large, 65_536, size_t.max);
    check(told == 0 || told >= size + 65_536, "it extends by as much as is asked for, or not");
    holdInWhatWasGained();
}

/// Without pointers at first, scanned later, and then longer.
void holdInWhatWasGained()
{
    enum mark = 0x600d;
    auto leaf = cast(size_t**) GC.malloc(100_000, Bits.NO_SCAN);
    GC.clrAttr(leaf, Bits.NO_SCAN);
    const before = GC.sizeOf(leaf);
    const after = GC.extend(leaf, 4096, 100_000);
    if (after == 0)
        return;
    fillWith!mark(leaf[before / 8 .. after / 8]);
    clearStack();
    GC.collect();
    foreach (i; 0 .. 20_000)
        *cast(size_t*) GC.malloc(64) = 1;
    size_t lost;
    foreach (held; leaf[before / 8 .. after / 8])
        lost += *held != mark;
    check(lost == 0, "what lies in it is kept");
}

pragma(inline, false) void fillWith(size_t mark)(size_t*[] words)
{
    foreach (ref word; words)
    {
        word = cast(size_t*) GC.malloc(64);
        *word = mark;
    }
}

void testReserveAndMinimize()
{
    check(GC.reserve(1 << 20) == 1 << 20, "a mebibyte can be reserved");
    check(GC.reserve(size_t.max / 2) == 0, "half of the address space cannot");
    auto large = GC.malloc(64 << 20, Bits.NO_SCAN);
    (cast(ubyte*) large)[0 .. 64 << 20] = 1;
    GC.free(large);
    GC.minimize();
    check(GC.stats.usedSize < 1UL << 32, "the heap is in order afterwards");
}

void testFree()
{
    auto p = GC.malloc(5000);
    GC.free(p + 16);
    check(GC.addrOf(p) is p, "interior pointers free nothing");
    GC.free(null);
    int onStack;
    GC.free(&onStack);
    beginCounting();
    GC.free(cast(void*) new Counted);
    collectWell();
    check(destroyed.atomicLoad == 0, "what is freed is not destroyed");
}

void testQuery()
{
    auto p = GC.malloc(3000, Bits.NO_SCAN);
    int onStack;
    check(GC.addrOf(p) is p && GC.addrOf(p + 2999) is p, "addrOf finds the start");
    check(GC.addrOf(&onStack) is null && GC.addrOf(null) is null, "and nothing elsewhere");
    check(GC.sizeOf(p + 1) == 0 && GC.sizeOf(&onStack) == 0 && GC.sizeOf(null) == 0,
        "sizeOf wants the start");
    const block = GC.query(p + 1234);
    check(block.base is p && block.size == GC.sizeOf(p) && block.attr == Bits.NO_SCAN,
        "query does not");
    check(GC.query(&onStack).base is null, "nor elsewhere");
}

void testStatistics()
{
    const before = GC.stats, allocated = GC.allocatedInCurrentThread;
    auto p = GC.malloc(10 << 20);
    check(GC.allocatedInCurrentThread >= allocated + (10 << 20),
        "this thread's allocation is counted");
    check(GC.stats.allocatedInCurrentThread == GC.allocatedInCurrentThread, "in both places");
    check(GC.stats.usedSize > 0 && GC.stats.usedSize + GC.stats.freeSize > 10 << 20,
        "the block is in use");
    const cycles = GC.profileStats.numCollections;
    GC.collect();
    const after = GC.profileStats;
    check(after.numCollections > cycles, "collections are counted");
    check(after.maxPauseTime <= after.totalPauseTime &&
        after.totalPauseTime <= after.totalCollectionTime, "and timed");
    check(after.maxPauseTime.total!"nsecs" > 0, "in nanoseconds");
    GC.free(p);
}

/// Nothing collects by itself between `disable` and as many `enable`.
void testDisable()
{
    GC.disable();
    GC.disable();
    GC.enable();
    const cycles = GC.profileStats.numCollections;
    foreach (i; 0 .. 200)
        cast(void) GC.malloc(1 << 20, Bits.NO_SCAN);
    check(GC.profileStats.numCollections == cycles, "200 MB without a collection");
    GC.collect();
    check(GC.profileStats.numCollections > cycles, "asking for one works");
    GC.enable();
    // One beside the program may end later than the allocations that it came for.
    bool goesOn;
    for (int turn; turn < 50 && !goesOn; turn++)
    {
        goesOn = collectionsOver(400) != 0;
        Thread.sleep(1.msecs);
    }
    check(goesOn, "and they go on afterwards");
}

size_t collectionsOver(int mebibytes)
{
    const before = GC.profileStats.numCollections;
    foreach (i; 0 .. mebibytes)
        cast(void) GC.malloc(1 << 20, Bits.NO_SCAN);
    return GC.profileStats.numCollections - before;
}

/// However threads cross in `disable` and `enable`: while one has disabled collections there is
/// none.
void testDisableOnThreads()
{
    shared bool over;
    auto other = new Thread({
        while (!over.atomicLoad!(MemoryOrder.raw))
        {
            GC.disable();
            GC.enable();
        }
    }).start();
    bool none = true;
    foreach (turn; 0 .. 1000)
    {
        GC.disable();
        none &= collectionsOver(40) == 0;
        GC.enable();
        collectionsOver(8);
    }
    over.atomicStore(true);
    other.join();
    check(none, "no collections while a thread has disabled them");
}

pragma(inline, false) void hide(size_t* hidden)
{
    foreach (i; 0 .. many)
        hidden[i] = ~cast(size_t) cast(void*) new Counted;
}

void testRoots()
{
    import core.stdc.stdlib : calloc, cfree = free;

    beginCounting();
    auto hidden = cast(size_t*) calloc(many, 8), outside = cast(void**) calloc(many, 8);
    // No cycle begins while they are hidden and not yet added.
    GC.disable();
    hide(hidden);
    // Half of them as roots, half in a range.
    void addAll()
    {
        foreach (i; 0 .. many / 2)
            GC.addRoot(cast(void*) ~hidden[i]);
        foreach (i; many / 2 .. many)
            outside[i] = cast(void*) ~hidden[i];
        GC.addRange(outside, many * 8);
    }

    void removeAll()
    {
        foreach (i; 0 .. many / 2)
            GC.removeRoot(cast(void*) ~hidden[i]);
        GC.removeRange(outside);
    }

    addAll();
    GC.enable();
    collectWell();
    check(destroyed.atomicLoad == 0, "roots and ranges keep alive");
    removeAll();
    collectWell();
    check(destroyed.atomicLoad >= many - stray, "until they are removed");
    cfree(hidden);
    cfree(outside);
}

void testFinalizers()
{
    beginCounting();
    makeClasses();
    collectWell();
    check(destroyed.atomicLoad >= many - stray && destroyed.atomicLoad <= many,
        "dead classes are destroyed once");
    auto structs = makeStructs();
    collectWell();
    check(destroyed.atomicLoad == 0, "live arrays of structs are not");
    check(structs[many - 1].filler[0] == 5, "all there");
    structs = null;
    clearStack();
    collectWell();
    check(destroyed.atomicLoad >= many || destroyed.atomicLoad == 0,
        "an array is destroyed as a whole");
    beginCounting();
    auto object = new Counted;
    destroy(object);
    check(destroyed.atomicLoad == 1, "by hand");
}

shared bool refused, wasInFinalizer;

final class Allocates
{
    ~this()
    {
        wasInFinalizer.atomicStore(GC.inFinalizer);
        try
            new int[100];
        catch (InvalidMemoryOperationError)
            refused.atomicStore(true);
    }
}

pragma(inline, false) void makeAllocating()
{
    foreach (i; 0 .. many)
        new Allocates;
}

void testInFinalizer()
{
    check(!GC.inFinalizer, "not here");
    makeAllocating();
    collectWell();
    check(wasInFinalizer.atomicLoad, "in a destructor");
    check(refused.atomicLoad, "where allocation is an InvalidMemoryOperationError");
    check(!GC.inFinalizer, "and not afterwards");
}

/// What `dlclose` needs: destructors whose code lies in a segment run, of live objects too; no
/// other.
extern (C) void gc_runFinalizers(const scope void[] segment);

void testRunFinalizers()
{
    beginCounting();
    auto live = new Counted, other = new Allocates;
    int elsewhere;
    gc_runFinalizers((cast(void*)&elsewhere)[0 .. 4]);
    check(destroyed.atomicLoad == 0, "none lies on the stack");
    auto code = cast(void*) typeid(Counted).destructor;
    gc_runFinalizers(code[0 .. 1]);
    check(destroyed.atomicLoad >= 1, "destroyed while alive");
    const once = destroyed.atomicLoad;
    gc_runFinalizers(code[0 .. 1]);
    check(destroyed.atomicLoad == once && live !is null && other !is null, "once");
}

/// Arrays grow where they are, and are not stomped on, in blocks of every size.
void testAppending()
{
    static void grow(T)(size_t length)
    {
        T[] array;
        foreach (i; 0 .. length)
        {
            array ~= cast(T)(i * 3);
            if (i % 1000 == 0)
                check(array.capacity >= array.length, "an appendable array has a capacity");
        }
        auto part = array[0 .. length / 2];
        part ~= T.init;
        bool kept = true;
        foreach (i; 0 .. length)
            kept &= array[i] == cast(T)(i * 3);
        check(kept, "appending to a slice moves it");
        array.length = length / 3;
        array.assumeSafeAppend();
        array ~= T.init;
        check(array.length == length / 3 + 1 && array[length / 3] == T.init, "safe to append");
        array.reserve(length * 4);
        const where = array.ptr;
        foreach (i; 0 .. length)
            array ~= cast(T) i;
        check(array.ptr is where, "room that was reserved is used");
    }

    foreach (length; [3, 100, 250, 260, 2000, 2050, 5000, 100_000])
    {
        grow!ubyte(length);
        grow!int(length);
        grow!(size_t)(length);
    }
}

__gshared bool done;

/// A thread that druntime knows, and one that it does not.
final class Tree
{
    Tree left, right;
    this(int depth)
    {
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

void churn()
{
    auto kept = new Tree(12);
    while (!done.atomicLoad!(MemoryOrder.raw))
        if (new Tree(8).count != 511 || kept.count != 8191)
        {
            check(false, "trees are whole while the members are tested");
            return;
        }
}

void testFibers()
{
    auto fiber = new Fiber({
        auto tree = new Tree(10);
        foreach (i; 0 .. 5)
        {
            Fiber.yield();
            check(tree.count == 2047, "what only a fiber's stack holds");
        }
    });
    while (fiber.state != Fiber.State.TERM)
    {
        fiber.call();
        clearStack();
        GC.collect();
    }
    // A fiber has 16 KiB of stack, and cycles are driven from there too.
    auto small = new Fiber({
        auto tree = new Tree(10);
        foreach (i; 0 .. 300)
        {
            check(new Tree(9).count == 1023, "a tree in the making");
            if (i % 30 == 0)
                GC.collect();
        }
        check(tree.count == 2047, "what only the stack of the driving fiber holds");
    });
    small.call();
    check(small.state == Fiber.State.TERM, "it came to its end");
}

int[] inThreadLocal;
__gshared Tree inStatic;

void testStaticAndThreadLocal()
{
    inThreadLocal = [1, 2, 3];
    inStatic = new Tree(9);
    Thread[] threads;
    foreach (i; 0 .. 3)
        threads ~= new Thread({
            inThreadLocal = new int[1000];
            inThreadLocal[] = 9;
            foreach (turn; 0 .. 5)
                new Tree(9);
            foreach (value; inThreadLocal)
                check(value == 9, "thread-local storage of threads");
        }).start();
    collectWell();
    foreach (thread; threads)
        thread.join();
    check(inThreadLocal == [1, 2, 3] && inStatic.count == 1023, "thread-local and static data");
}

shared int onThreads, onStrangers;

/// Notes whether druntime knows the thread that destroys it.
final class Destroyed
{
    int number = 7;
    ~this()
    {
        if (number == 7)
            atomicOp!"+="(Thread.getThis() is null ? onStrangers : onThreads, 1);
    }
}

pragma(inline, false) void makeDestroyed()
{
    foreach (i; 0 .. many)
        new Destroyed;
}

/// A thread of C that allocates without ever being attached to druntime.
void testForeignThread()
{
    import core.sys.posix.pthread;

    static shared bool over;
    static extern (C) void* foreign(void*) nothrow
    {
        void** list;
        do
            foreach (i; 0 .. 200_000)
            {
                auto node = cast(void**) GC.malloc(32);
                node[0] = i % 1000 ? list : null;
                list = node;
            }
        while (!over.atomicLoad);
        int length;
        for (; list !is null; list = cast(void**) list[0])
            length++;
        return cast(void*) cast(size_t) length;
    }

    pthread_t thread;
    void* length;
    pthread_create(&thread, null, &foreign, null);
    foreach (i; 0 .. 20)
    {
        makeDestroyed();
        GC.collect();
    }
    // Cycles of others find these, so who allocates first comes by what is ready.
    foreach (i; 0 .. 80)
    {
        makeDestroyed();
        Thread.sleep(1.msecs);
    }
    over.atomicStore(true);
    pthread_join(thread, &length);
    check(cast(size_t) length == 1000, "a list that only a foreign thread holds");
    collectWell();
    check(onStrangers.atomicLoad == 0, "destructors run on threads of D");
    check(onThreads.atomicLoad >= 100 * many - stray, "and all of them do");
}

int main(string[] arguments)
{
    auto other = new Thread(&churn);
    if (arguments.length == 1)
        other.start();
    static foreach (test; [
            "Malloc", "Attributes", "Realloc", "Extend", "ReserveAndMinimize", "Free", "Query",
            "Finalizers", "InFinalizer", "RunFinalizers", "Roots", "Appending", "Fibers",
            "StaticAndThreadLocal", "ForeignThread"
        ])
        mixin("test" ~ test ~ "();");
    done.atomicStore!(MemoryOrder.raw)(true);
    if (arguments.length == 1)
        other.join();
    // What counts collections wants to be alone.
    testStatistics();
    testDisable();
    testDisableOnThreads();
    if (checks < 100)
        fprintf(stderr, "only %d checks ran\n", checks);
    return failures != 0 || checks < 100;
}
