/// What keeps blocks alive under each collector: pointers, and words that only look like pointers,
/// in blocks of every kind of type. Prints what does not hold; ends with status 0 if everything
/// held. Usage: precise conservative|precise, the mode that the collector was chosen in.
module precise;

import core.atomic;
import core.memory : GC;
import core.stdc.stdio : fprintf, stderr;

enum many = 200, stray = 12;
shared int destroyed;

final class Counted
{
    int number = 7;
    ~this()
    {
        if (number == 7)
            destroyed.atomicOp!"+="(1);
    }
}

/// A word that is a pointer, and one that only looks like one.
struct Mixed
{
    size_t number;
    void* pointer;
    size_t other;
}

final class MixedClass
{
    size_t number;
    void* pointer;
    Mixed[3] inside;
}

pragma(inline, false) size_t fresh()
{
    return cast(size_t) cast(void*) new Counted;
}

pragma(inline, false) void clearStack()
{
    import core.volatile : volatileStore;

    ubyte[32768] room = void;
    foreach (ref cell; room)
        volatileStore(&cell, 0);
}

__gshared void*[] holders;
__gshared Mixed[] array;
__gshared Mixed[4][] arrays;
__gshared Mixed[int] table;
__gshared size_t[int] numbers;
__gshared void*[int] pointers;
__gshared size_t delegate()[] closures;

alias Make = void function(int);

void asStruct(bool isPointer)(int)
{
    auto one = new Mixed;
    static if (isPointer)
        one.pointer = cast(void*) fresh();
    else
        one.number = fresh();
    holders ~= one;
}

void asClass(bool isPointer)(int)
{
    auto one = new MixedClass;
    static if (isPointer)
        one.inside[2].pointer = cast(void*) fresh();
    else
        one.inside[2].other = fresh();
    holders ~= cast(void*) one;
}

void asArray(bool isPointer)(int)
{
    array ~= isPointer ? Mixed(1, cast(void*) fresh(), 2) : Mixed(fresh(), null, 1);
}

void asStatic(bool isPointer)(int)
{
    Mixed[4] four;
    static if (isPointer)
        four[3].pointer = cast(void*) fresh();
    else
        four[3].other = fresh();
    arrays ~= four;
}

void asEntry(bool isPointer)(int key)
{
    table[key] = isPointer ? Mixed(1, cast(void*) fresh(), 2) : Mixed(fresh(), null, 1);
}

void asNumber(int key)
{
    numbers[key] = fresh();
}

void asPointer(int key)
{
    pointers[key] = cast(void*) fresh();
}

void asClosure(bool isPointer)(int)
{
    static if (isPointer)
    {
        auto held = cast(void*) fresh();
        closures ~= () => cast(size_t) held;
    }
    else
    {
        auto held = fresh();
        closures ~= () => held;
    }
}

void asBlock(uint attributes)(int)
{
    auto block = cast(size_t*) GC.calloc(64, attributes);
    block[3] = fresh();
    holders ~= block;
}

/// Held by a pointer into the middle of the block that holds it.
void asInterior(uint attributes)(int)
{
    auto block = cast(size_t*) GC.calloc(64, attributes);
    block[3] = fresh();
    holders ~= block + 2;
}

/// A block that is larger than its type: nothing says what lies behind.
struct Head
{
    size_t number;
    void* pointer;
}

void asTail(size_t words, uint attributes)(int)
{
    const bytes = Head.sizeof + words * size_t.sizeof;
    auto block = cast(size_t*) GC.calloc(bytes, attributes, typeid(Head));
    block[words / 2 * 2] = fresh();
    holders ~= block;
}

/// Where the type says that there is a number.
void asTyped(int)
{
    auto block = cast(size_t*) GC.calloc(Head.sizeof, 0, typeid(Head));
    block[0] = fresh();
    holders ~= block;
}

/// What druntime calls when it unloads a library.
extern (C) void gc_runFinalizers(const scope void[] segment);

/// More often than there are places to look for the layout of a type.
pragma(inline, false) void unloadOften()
{
    int elsewhere;
    foreach (turn; 0 .. 1000)
    {
        gc_runFinalizers((cast(void*)&elsewhere)[0 .. 4]);
        cast(void) GC.malloc(Head.sizeof, 0, typeid(Head));
    }
}

/// Pointers where `Mixed` has numbers.
struct Turned
{
    void* pointer;
    size_t number;
    void* other;
}

/// What is reallocated is of the type that is given then; without one nothing is known of it.
void asReallocated(size_t bytes, Type)(int)
{
    static if (is(Type == void))
        const TypeInfo type = null;
    else
        const type = typeid(Type);
    auto block = cast(size_t*) GC.calloc(Mixed.sizeof, 0, typeid(Mixed));
    block = cast(size_t*) GC.realloc(block, bytes, 0, type);
    block[2] = fresh();
    holders ~= block;
}

pragma(inline, false) void fill(Make make)
{
    foreach (turn; 0 .. many)
        make(turn);
    clearStack();
}

int failures;

/// `isAlive`: what was made is held.
void expect(string what, Make make, bool isAlive)
{
    holders = null;
    array = null;
    arrays = null;
    closures = null;
    table = null;
    numbers = null;
    pointers = null;
    foreach (turn; 0 .. 3)
    {
        clearStack();
        GC.collect();
    }
    destroyed.atomicStore(0);
    fill(make);
    foreach (turn; 0 .. 3)
    {
        clearStack();
        GC.collect();
    }
    const dead = destroyed.atomicLoad;
    if (isAlive ? dead != 0 : dead < many - stray)
    {
        failures++;
        fprintf(stderr, "%.*s: %d of %d died, which should %s\n", cast(int) what.length, what.ptr,
            dead, many,
            isAlive ? "live".ptr : "die".ptr);
    }
}

int main(string[] arguments)
{
    const isConservative = arguments[1] == "conservative";
    alias Bits = GC.BlkAttr;
    expect("structs, pointers", &asStruct!true, true);
    // What `new` makes of a struct has no type information in some druntimes.
    expect("structs, numbers", &asStruct!false, isConservative ||
        (__VERSION__ >= 2108 && __VERSION__ < 2111));
    expect("classes with static arrays, pointers", &asClass!true, true);
    expect("classes with static arrays, numbers", &asClass!false, isConservative);
    expect("arrays of structs, pointers", &asArray!true, true);
    expect("arrays of structs, numbers", &asArray!false, isConservative);
    expect("arrays of static arrays, pointers", &asStatic!true, true);
    expect("arrays of static arrays, numbers", &asStatic!false, isConservative);
    expect("tables of structs, pointers", &asEntry!true, true);
    expect("tables of structs, numbers", &asEntry!false, isConservative);
    expect("tables of numbers", &asNumber, false);
    expect("tables of pointers", &asPointer, true);
    // Druntime says nothing of the words of a closure, so both modes scan it whole.
    expect("closures, pointers", &asClosure!true, true);
    expect("closures, numbers", &asClosure!false, true);
    expect("blocks without a type", &asBlock!0, true);
    expect("blocks of a type, numbers", &asTyped, isConservative);
    expect("behind a type", &asTail!(8, 0), true);
    expect("behind a type, large", &asTail!(6000, 0), true);
    expect("arrays of a type, numbers", &asTail!(8, Bits.APPENDABLE), isConservative);
    expect("of another type now", &asReallocated!(Mixed.sizeof, Turned), true);
    expect("of no type now", &asReallocated!(Mixed.sizeof, void), true);
    expect("of no type now, moved", &asReallocated!(200, void), true);
    expect("of the same type, numbers", &asReallocated!(Mixed.sizeof, Mixed), isConservative);
    expect("NO_SCAN", &asBlock!(Bits.NO_SCAN), false);
    expect("interior pointers", &asInterior!0, true);
    expect("interior pointers, NO_INTERIOR", &asInterior!(Bits.NO_INTERIOR), true);
    unloadOften();
    expect("of a type, numbers, after libraries went", &asTyped, isConservative);
    expect("of a type, pointers, after libraries went", &asStruct!true, true);
    return failures != 0;
}
