/// Destructors that `runFinalizers`, which a library that is unloaded asks for, meets: on other
/// threads, in the child of a `fork`, in a destructor, beside another thread that unloads, and some
/// that throw; and memory that has none. Prints what does not hold; ends with status 0 if
/// everything held. Only on Neap: druntime's own runs destructors with its lock held.
module finalizers;

import core.atomic;
import core.exception : FinalizeError, InvalidMemoryOperationError;
import core.memory : GC;
import core.stdc.stdio : fprintf, stderr;
import core.sys.posix.sys.wait : waitpid;
import core.sys.posix.unistd : _exit, alarm, fork;
import core.thread;

extern (C) void gc_runFinalizers(const scope void[] segment);

int failures;

void check(bool holds, string what)
{
    if (holds)
        return;
    failures++;
    fprintf(stderr, "does not hold: %.*s\n", cast(int) what.length, what.ptr);
}

/// A segment with the destructor of one class alone.
const(void)[] codeOf(Type)()
{
    return (cast(const(void)*) typeid(Type).destructor)[0 .. 1];
}

void runFinalizersOf(Type)()
{
    gc_runFinalizers(codeOf!Type);
}

/// So that nothing of what they made stays on the stack.
pragma(inline, false) void make(Type)(int many)
{
    foreach (number; 0 .. many)
        new Type(number);
}

enum many = 50;
shared bool begun, ended, isCalling, goOn;
shared int[many] timesDestroyed;

/// The first one that is destroyed is so until it is let go on.
final class Slow
{
    int number;
    this(int number)
    {
        this.number = number;
    }

    ~this()
    {
        timesDestroyed[number].atomicOp!"+="(1);
        if (!cas(&begun, false, true))
            return;
        for (int look; !goOn.atomicLoad && look < 20_000; look++)
            Thread.sleep(1.msecs);
        ended.atomicStore(true);
    }
}

/// A thread that runs a destructor, and does not end it by itself.
Thread startSlow()
{
    timesDestroyed[] = 0;
    begun.atomicStore(false);
    ended.atomicStore(false);
    isCalling.atomicStore(false);
    goOn.atomicStore(false);
    auto other = new Thread({ make!Slow(many); GC.collect(); }).start();
    while (!begun.atomicLoad)
        Thread.sleep(1.msecs);
    return other;
}

void testRunningElsewhere()
{
    auto other = startSlow();
    // What lies elsewhere is not waited for.
    runFinalizersOf!Other();
    check(!ended.atomicLoad, "a destructor of other code goes on beside");
    auto letGoOn = new Thread({
        while (!isCalling.atomicLoad)
            Thread.sleep(1.msecs);
        Thread.sleep(50.msecs);
        goOn.atomicStore(true);
    }).start();
    isCalling.atomicStore(true);
    runFinalizersOf!Slow();
    check(ended.atomicLoad, "a destructor that another thread runs has ended");
    other.join();
    letGoOn.join();
    GC.collect();
    bool isOnce = true;
    foreach (ref times; timesDestroyed)
        isOnce &= times.atomicLoad == 1;
    check(isOnce, "each is destroyed once");
}

bool isOnceAtMost()
{
    foreach (ref times; timesDestroyed)
        if (times.atomicLoad > 1)
            return false;
    return true;
}

/// In the child there is no such thread, to wait for; what it had begun is not run again.
void testInChild()
{
    auto other = startSlow();
    const child = fork();
    if (child == 0)
    {
        alarm(20);
        runFinalizersOf!Slow();
        _exit(ended.atomicLoad ? 1 : isOnceAtMost() ? 0 : 2);
    }
    int status = -1;
    waitpid(child, &status, 0);
    check(status == 0 || status == 2 << 8, "a child waits for no thread of its parent");
    check(status != 2 << 8, "what a thread of the parent had begun is not destroyed again");
    goOn.atomicStore(true);
    other.join();
}

/// Destroyed at the end only.
final class Other
{
    bool isExpected;
    ~this()
    {
        if (!isExpected)
            failures++;
    }
}

shared bool isRefused, isLeft;
__gshared Other kept;

/// A destructor that unloads a library.
final class Unloads
{
    this(int)
    {
    }

    ~this()
    {
        try
            runFinalizersOf!Other();
        catch (InvalidMemoryOperationError)
            isRefused.atomicStore(true);
        if (!GC.inFinalizer)
            isLeft.atomicStore(true);
    }
}

void testWithin()
{
    kept = new Other;
    make!Unloads(many);
    GC.collect();
    check(isRefused.atomicLoad, "refused in a destructor");
    check(!isLeft.atomicLoad, "which is one still");
    check(!GC.inFinalizer, "and is none afterwards");
    kept.isExpected = true;
}

/// Live ones, of two classes: each has a thread that destroys those of its own.
final class Live(int of)
{
    static shared int destroyed;
    ~this()
    {
        destroyed.atomicOp!"+="(1);
    }
}

enum rounds = 20, lives = 1000;
__gshared Object[2 * lives] held;
shared int lost;

void destroyLives(int of)()
{
    foreach (round; 0 .. rounds)
    {
        Live!of.destroyed.atomicStore(0);
        foreach (ref place; held[of * lives .. (of + 1) * lives])
            place = new Live!of;
        runFinalizersOf!(Live!of);
        if (Live!of.destroyed.atomicLoad != lives)
            lost.atomicOp!"+="(1);
    }
}

void testTwoAtOnce()
{
    auto other = new Thread(&destroyLives!0).start();
    destroyLives!1();
    other.join();
    check(lost.atomicLoad == 0, "two threads destroy all of their own");
    held[] = null;
}

__gshared Exception prepared;

final class Throws
{
    ~this()
    {
        throw prepared;
    }
}

enum stray = 8;

/// So many on each side of one that throws: what is looked at after it is a root no longer.
void testThrowing()
{
    prepared = new Exception("from a destructor");
    pragma(inline, false) static void fill()
    {
        foreach (index, ref place; held)
            place = index == lives ? new Throws : new Live!0;
    }

    fill();
    bool isThrown;
    try
        runFinalizersOf!Throws();
    catch (FinalizeError)
        isThrown = true;
    check(isThrown, "what a destructor throws comes out");
    Live!0.destroyed.atomicStore(0);
    held[] = null;
    foreach (turn; 0 .. 3)
        GC.collect();
    check(Live!0.destroyed.atomicLoad >= 2 * lives - 1 - stray, "the others die as ever");
}

/// What throws and is of other code waits for its turn: that is not now.
void testThrowingElsewhere()
{
    prepared = new Exception("from a destructor");
    // First of all: an allocation runs what waits.
    foreach (ref place; held[0 .. lives])
        place = new Live!0;
    auto other = new Thread({
        make!ThrowsToo(many);
        try
            GC.collect();
        catch (FinalizeError)
        {
        }
    }).start();
    other.join();
    Live!0.destroyed.atomicStore(0);
    bool isThrown;
    try
        runFinalizersOf!(Live!0);
    catch (FinalizeError)
        isThrown = true;
    check(!isThrown, "a destructor of other code does not throw meanwhile");
    check(Live!0.destroyed.atomicLoad == lives, "and all of this code run");
    held[] = null;
    // At the end nothing is to throw.
    foreach (turn; 0 .. 2 * many)
        try
            GC.collect();
        catch (FinalizeError)
        {
        }
}

final class ThrowsToo
{
    this(int)
    {
    }

    ~this()
    {
        throw prepared;
    }
}

/// Without pointers, as is memory that holds anything.
final class Leaf
{
    static int destroyed;
    int[4] words;
    ~this()
    {
        destroyed++;
    }
}

struct LeafStruct
{
    static int destroyed;
    int[4] words;
    ~this()
    {
        destroyed++;
    }
}

enum garbage = 300_000;
enum uint leafBits = GC.BlkAttr.FINALIZE | GC.BlkAttr.NO_SCAN;

/// Memory that others are to have, full of what is no address.
pragma(inline, false) void makeGarbage(uint bits)
{
    foreach (number; 0 .. garbage)
    {
        auto block = cast(ubyte*) GC.malloc(32, bits);
        block[0 .. 32] = 'A';
        if (bits & GC.BlkAttr.FINALIZE)
            GC.clrAttr(block, GC.BlkAttr.FINALIZE);
    }
}

/// Cells that a thread holds ready, and blocks whose class is not noted yet, have no destructor.
void testGarbage(uint bits)
{
    makeGarbage(bits);
    foreach (turn; 0 .. 3)
        GC.collect();
    __gshared Object one;
    __gshared void*[many] blocks;
    __gshared LeafStruct[] structs;
    one = new Leaf;
    structs = new LeafStruct[1];
    bool isClear = true;
    foreach (ref block; blocks)
    {
        block = GC.malloc(32, leafBits);
        isClear &= *cast(void**) block is null;
    }
    check(isClear, "a new block has no class");
    Leaf.destroyed = LeafStruct.destroyed = 0;
    runFinalizersOf!Leaf();
    check(Leaf.destroyed == 1, "one is destroyed, and no garbage");
    const type = cast() typeid(LeafStruct);
    gc_runFinalizers((cast(const(void)*) type.xdtor)[0 .. 1]);
    check(LeafStruct.destroyed == 1, "one struct is");
}

/// Objects that are to have no destructor, and die, are not destroyed later.
void testCleared()
{
    pragma(inline, false) static void makeCleared()
    {
        foreach (number; 0 .. garbage)
            GC.clrAttr(cast(void*) new Leaf, GC.BlkAttr.FINALIZE);
    }

    makeCleared();
    foreach (turn; 0 .. 3)
        GC.collect();
    __gshared Object one;
    one = new Leaf;
    Leaf.destroyed = 0;
    runFinalizersOf!Leaf();
    check(Leaf.destroyed == 1, "what was to have no destructor has none when it is dead");
}

/// Its objects die all the time.
final class Dying(bool hasPointers)
{
    static if (hasPointers)
        void*[3] words;
    else
        int[4] words;

    this()
    {
        made.atomicOp!"+="(1);
    }

    ~this()
    {
        gone.atomicOp!"+="(1);
    }
}

shared int made, gone;
shared bool isOver;

void makeDying()
{
    Object[200] last;
    for (int number; !isOver.atomicLoad; number++)
    {
        last[number % 100] = new Dying!false;
        last[100 + number % 100] = new Dying!true;
        if (number % 7 == 0)
            GC.clrAttr(cast(void*) new Leaf, GC.BlkAttr.FINALIZE);
        if (number % 20_000 == 0)
            GC.collect();
    }
}

/// Beside threads that make objects, and cycles that find them dead, each is destroyed once.
void testBesideCycles()
{
    auto one = new Thread(&makeDying).start(), two = new Thread(&makeDying).start();
    foreach (turn; 0 .. 40)
    {
        runFinalizersOf!(Dying!false);
        runFinalizersOf!(Dying!true);
    }
    isOver.atomicStore(true);
    one.join();
    two.join();
    runFinalizersOf!(Dying!false);
    runFinalizersOf!(Dying!true);
    check(made.atomicLoad == gone.atomicLoad, "beside cycles each is destroyed once");
}

int main()
{
    testRunningElsewhere();
    testInChild();
    testWithin();
    testTwoAtOnce();
    testThrowing();
    testThrowingElsewhere();
    testGarbage(GC.BlkAttr.NO_SCAN);
    testGarbage(leafBits);
    testCleared();
    testBesideCycles();
    return failures != 0;
}
