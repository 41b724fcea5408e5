/// What a program can see of the collector, one line for each thing: run on druntime's own and on
/// Neap, and every line that differs has to stand in the table of differences of `docs/d.md`.
/// `run.sh` does so.
module compared;

import core.exception : FinalizeError, InvalidMemoryOperationError, OutOfMemoryError;
import core.memory : GC;
import core.stdc.stdio : printf;

alias Bits = GC.BlkAttr;
enum many = 100;

void say(T)(string name, T value)
{
    import std.conv : to;

    const text = value.to!string;
    printf("%.*s: %.*s\n", cast(int) name.length, name.ptr, cast(int) text.length, text.ptr);
}

pragma(inline, false) void clearStack()
{
    import core.volatile : volatileStore;

    ubyte[16384] room = void;
    foreach (ref cell; room)
        volatileStore(&cell, cast(ubyte) 0);
}

void collectWell()
{
    foreach (turn; 0 .. 3)
    {
        clearStack();
        GC.collect();
    }
}

/// What came of an attempt.
string outcome(scope void delegate() attempt)
{
    try
        attempt();
    catch (InvalidMemoryOperationError)
        return "InvalidMemoryOperationError";
    catch (OutOfMemoryError)
        return "OutOfMemoryError";
    catch (FinalizeError)
        return "FinalizeError";
    return "done";
}

void attributes()
{
    enum names = ["NO_SCAN", "NO_MOVE", "NO_INTERIOR", "APPENDABLE"];
    foreach (index, bits; [Bits.NO_SCAN, Bits.NO_MOVE, Bits.NO_INTERIOR, Bits.APPENDABLE])
    {
        const name = names[index];
        auto p = GC.malloc(64, bits);
        say(name ~ ", getAttr after malloc", GC.getAttr(p));
        auto large = GC.malloc(100_000, bits);
        say(name ~ ", getAttr of a large block", GC.getAttr(large));
        say(name ~ ", qalloc", GC.qalloc(64, bits).attr);
        auto q = GC.malloc(64);
        GC.setAttr(q, bits);
        say(name ~ ", getAttr after setAttr", GC.getAttr(q));
        GC.clrAttr(q, bits);
        say(name ~ ", getAttr after clrAttr", GC.getAttr(q));
    }
    say("getAttr of an interior pointer", GC.getAttr(GC.malloc(64, Bits.NO_SCAN) + 8));
    say("setAttr of an interior pointer", GC.setAttr(GC.malloc(64, Bits.NO_SCAN) + 8, Bits.NO_MOVE));
}

/// Whether nothing is left behind a block that is made smaller.
bool isCleared(size_t before, size_t after)
{
    auto block = cast(ubyte*) GC.malloc(before);
    block[0 .. before] = 1;
    block = cast(ubyte*) GC.realloc(block, after);
    bool isWhole = true, isCleared = true;
    foreach (at; 0 .. after)
        isWhole &= block[at] == 1;
    foreach (at; after .. GC.sizeOf(block))
        isCleared &= block[at] == 0;
    return isWhole && isCleared;
}

void blocks()
{
    say("malloc of 0 bytes", GC.malloc(0) is null);
    foreach (size; [1, 16, 17, 33, 100, 256, 1000, 2048, 2049, 4096, 5000, 100_000])
    {
        import std.conv : to;

        const name = size.to!string;
        auto p = GC.malloc(size);
        say("sizeOf at least what was asked for, " ~ name, GC.sizeOf(p) >= size);
        say("multiple of 16, " ~ name, (cast(size_t) p & 15) == 0);
        say("addrOf of an interior pointer, " ~ name, GC.addrOf(p + size - 1) is p);
        say("sizeOf of an interior pointer, " ~ name, GC.sizeOf(p + size - 1 + (size == 1)) == 0);
        say("query of an interior pointer, " ~ name, GC.query(p + size - 1).base is p);
        say("sizeOf of what was freed by an interior pointer, " ~ name, {
            if (size > 16)
                GC.free(p + 16);
            return GC.sizeOf(p) >= size;
        }());
        say("realloc keeps attributes, " ~ name, GC.getAttr(GC.realloc(GC.malloc(size,
                    Bits.NO_SCAN), size * 3)));
        say("realloc takes new attributes, " ~ name, GC.getAttr(GC.realloc(GC.malloc(size), size * 3,
                    Bits.NO_SCAN)));
        uint made = uint.max;
        say("realloc to an appendable block, " ~ name, outcome({
                auto p = GC.malloc(size, Bits.NO_SCAN);
                made = GC.getAttr(GC.realloc(p, size * 3, Bits.APPENDABLE));
            }));
        say("which has, " ~ name, made);
    }
    foreach (sizes; [[64, 40], [1000, 600], [100_000, 60_000]])
        say("realloc to a smaller block clears what lies behind", isCleared(sizes[0], sizes[1]));
    say("realloc to 0 bytes", GC.realloc(GC.malloc(100), 0) is null);
    auto p = GC.malloc(100_000);
    say("extend of a small block", GC.extend(GC.malloc(64), 16, 32));
    say("extend of null", GC.extend(null, 16, 32));
    say("extend of an interior pointer", GC.extend(p + 4096, 4096, 8192) == 0);
    say("reserve", GC.reserve(1 << 20) >= 1 << 20);
    say("sizes in steps of 16", GC.sizeOf(GC.malloc(200)) % 16 == 0);
    say("sizeOf for 200 bytes", GC.sizeOf(GC.malloc(200)));
    say("sizeOf for 5000 bytes", GC.sizeOf(GC.malloc(5000)));
    say("array capacity after reserve(1000)", { int[] a; a.reserve(1000); return a.capacity; }());
}

__gshared int destroyed;
__gshared Exception prepared;
__gshared string what;

final class Attempts
{
    void* block;
    this()
    {
        block = GC.malloc(100);
    }

    ~this()
    {
        destroyed++;
        void* own = block;
        int onStack;
        what = outcome({
            switch (attempted)
            {
            case "GC.malloc":
                cast(void) GC.malloc(10);
                break;
            case "new":
                auto made = new int[10];
                break;
            case "GC.free":
                GC.free(own);
                break;
            case "GC.realloc":
                cast(void) GC.realloc(own, 1000);
                break;
            case "GC.extend":
                GC.extend(own, 10, 10);
                break;
            case "GC.reserve":
                cast(void) GC.reserve(1000);
                break;
            case "GC.collect":
                GC.collect();
                break;
            case "GC.minimize":
                GC.minimize();
                break;
            case "GC.enable and disable":
                GC.disable();
                GC.enable();
                break;
            case "GC.addrOf":
                GC.addrOf(own);
                break;
            case "GC.sizeOf":
                GC.sizeOf(own);
                break;
            case "GC.query":
                GC.query(own);
                break;
            case "GC.getAttr":
                GC.getAttr(own);
                break;
            case "GC.setAttr":
                GC.setAttr(own, Bits.NO_MOVE);
                break;
            case "GC.addRoot":
                GC.addRoot(own);
                GC.removeRoot(own);
                break;
            case "GC.addRange":
                GC.addRange(&onStack, 4);
                GC.removeRange(&onStack);
                break;
            case "GC.stats":
                GC.stats();
                break;
            case "GC.profileStats":
                GC.profileStats();
                break;
            default:
                GC.inFinalizer();
            }
        });
    }
}

__gshared string attempted;

final class Throws
{
    int number;
    this(int number)
    {
        this.number = number;
    }

    ~this()
    {
        destroyed++;
        throw prepared;
    }
}

pragma(inline, false) void make(T, A...)(A arguments)
{
    foreach (i; 0 .. many)
        new T(arguments);
    clearStack();
}

void destructors()
{
    foreach (attempt; ["GC.malloc", "new", "GC.free", "GC.realloc", "GC.extend", "GC.reserve",
        "GC.collect", "GC.minimize", "GC.enable and disable", "GC.addrOf", "GC.sizeOf", "GC.query",
        "GC.getAttr", "GC.setAttr", "GC.addRoot", "GC.addRange", "GC.stats", "GC.profileStats",
        "GC.inFinalizer"])
    {
        attempted = attempt;
        destroyed = 0;
        what = "never";
        make!Attempts;
        collectWell();
        say(attempt ~ " in a destructor", what);
        say("destroyed, " ~ attempt, destroyed >= many - 10);
    }
}

/// Comes last: an object that a stray word on the stack kept may throw at any time.
void throwing()
{
    prepared = new Exception("from a destructor");
    destroyed = 0;
    make!Throws(7);
    int caught;
    string said;
    foreach (turn; 0 .. 2 * many)
        try
            GC.collect();
        catch (FinalizeError error)
        {
            caught++;
            said = error.msg;
        }
    say("a destructor that throws", said);
    say("each is caught", caught == destroyed && caught >= many - 10);
    string went;
    foreach (turn; 0 .. 10)
        if (went != "done")
            went = outcome({
                foreach (i; 0 .. 1000)
                    auto made = new int[1000];
            });
    say("and allocation goes on", went != "InvalidMemoryOperationError");
}

final class Noted
{
    ~this()
    {
        destroyed++;
    }
}

/// Blocks made without pointers that are scanned since, and refer to an object, and to
/// themselves if asked.
pragma(inline, false) void makeScanned(bool toThemselves)
{
    foreach (i; 0 .. many)
    {
        auto block = cast(void**) GC.calloc(64, Bits.NO_SCAN);
        GC.clrAttr(block, Bits.NO_SCAN);
        block[0] = cast(void*) new Noted;
        if (toThemselves)
            block[1] = block;
    }
    clearStack();
}

void scannedLater()
{
    foreach (toThemselves; [false, true])
    {
        destroyed = 0;
        makeScanned(toThemselves);
        foreach (turn; 0 .. 3)
            collectWell();
        say(toThemselves ? "NO_SCAN cleared, a block that refers to itself is collected"
            : "NO_SCAN cleared, a block is collected", destroyed >= many - 10);
    }
}

/// Where a hidden pointer to an object is, which a destructor clears or a dispose event.
__gshared size_t[2] hidden;

final class Clears
{
    ~this()
    {
        hidden[0] = 0;
    }
}

final class Observed
{
}

alias DisposeEvent = void delegate(Object);
extern (C) void rt_attachDisposeEvent(Object, DisposeEvent);

final class Observer
{
    void forget(Object)
    {
        hidden[1] = 0;
    }
}

__gshared Observer observer;

pragma(inline, false) void hide()
{
    hidden[0] = ~cast(size_t) cast(void*) new Clears;
    auto observed = new Observed;
    rt_attachDisposeEvent(observed, &observer.forget);
    hidden[1] = ~cast(size_t) cast(void*) observed;
}

/// Looks for a dead object, as `std.signals` would, right after the allocation that collected.
void hiddenPointers()
{
    observer = new Observer;
    int left, seen;
    foreach (turn; 0 .. many)
    {
        hide();
        clearStack();
        const before = GC.profileStats.numCollections;
        for (int i; i < 2000 && GC.profileStats.numCollections == before; i++)
            cast(void) GC.malloc(1 << 18, Bits.NO_SCAN);
        seen += GC.profileStats.numCollections != before;
        foreach (place; hidden)
            left += place != 0;
    }
    say("an allocation that collected has destroyed what was dead", seen > many - 10 && left < 20);
}

/// Objects whose only pointers lie in memory of C, so many bytes from a multiple of eight.
pragma(inline, false) ubyte* makeOutside(size_t offset)
{
    import core.stdc.stdlib : calloc;

    auto place = cast(ubyte*) calloc(many + 2, size_t.sizeof) + offset;
    foreach (i; 0 .. many)
        (cast(void**) place)[i] = cast(void*) new Noted;
    return place;
}

void ranges()
{
    foreach (offset; [0, 4])
    {
        GC.disable();
        auto place = makeOutside(offset);
        GC.addRange(place, many * size_t.sizeof);
        GC.enable();
        destroyed = 0;
        collectWell();
        say(offset ? "GC.addRange at no multiple of eight keeps alive" : "GC.addRange keeps alive",
            destroyed == 0);
        GC.removeRange(place);
        collectWell();
    }
}

size_t collectionsMeanwhile()
{
    const before = GC.profileStats.numCollections;
    foreach (i; 0 .. 400)
        cast(void) GC.malloc(1 << 20, Bits.NO_SCAN);
    return GC.profileStats.numCollections - before;
}

/// Whether a collection ends sooner or later, which may run beside the program.
bool collects()
{
    import core.thread : Thread;
    import core.time : msecs;

    const before = GC.profileStats.numCollections;
    foreach (turn; 0 .. 50)
    {
        collectionsMeanwhile();
        if (GC.profileStats.numCollections > before)
            return true;
        Thread.sleep(20.msecs);
    }
    return false;
}

void disabling()
{
    say("collects at first", collects());
    GC.disable();
    // What had begun.
    GC.collect();
    say("collections while disabled", collectionsMeanwhile());
    GC.disable();
    GC.enable();
    say("collections while disabled once", collectionsMeanwhile());
    GC.enable();
    say("collects again", collects());
}

void memory()
{
    say("OutOfMemoryError", outcome({ cast(void) GC.malloc(size_t.max / 4); }));
    say("of nearly everything", outcome({ cast(void) GC.malloc(size_t.max - 100); }));
    say("reserve of nearly everything", GC.reserve(size_t.max / 4));
}

void statistics()
{
    GC.collect();
    const stats = GC.profileStats;
    say("maxPauseTime > 0", stats.maxPauseTime.total!"nsecs" > 0);
    say("maxCollectionTime is that of a stop", stats.maxCollectionTime == stats.maxPauseTime);
    const before = GC.allocatedInCurrentThread;
    cast(void) GC.malloc(160);
    say("allocatedInCurrentThread of 160 bytes", GC.allocatedInCurrentThread - before);
}

/// With `disabled`: only whether something is collected, for `disable:1`. With `alone`: only what
/// holds where no cycle goes on beside the program.
void main(string[] arguments)
{
    if (arguments.length > 1 && arguments[1] == "alone")
        return hiddenPointers();
    if (arguments.length > 1)
    {
        say("collections with disable:1", collectionsMeanwhile());
        GC.enable();
        say("after GC.enable", collects());
        return;
    }
    attributes();
    blocks();
    destructors();
    scannedLater();
    ranges();
    disabling();
    memory();
    statistics();
    throwing();
}
