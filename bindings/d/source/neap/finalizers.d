/// Destructors of dead blocks.
///
/// A block with the attribute FINALIZE has a finalizer of the library. When it is found dead, the
/// library calls `found`, which only remembers the block; the destructor runs in D code's own
/// frames, so that what it throws does not pass through the library. Invariant: a remembered block
/// is a root until its destructor has begun, and then lies on a stack. Destructors begin under the
/// lock of `shared_lock`, where all see which are running, so no two threads run the same. Waiting
/// blocks are under that lock too; under it the library is asked only what it answers at once. A
/// block's words say what its destructor is only while it has a finalizer, or waits: other memory
/// with the attribute, as cells that threads hold ready, may hold anything.
module neap.finalizers;

import core.atomic : atomicLoad, atomicStore, MemoryOrder;
import core.stdc.stdlib : free, realloc;
import core.sys.posix.unistd : usleep;
import core.thread : Thread;
import neap.arrays : forgetDestructor, typeOf;
import neap.attributes;
import neap.c;
import neap.shared_lock;
import neap.versions;

/// Whether this thread is running a destructor for the collector.
bool inFinalizer;

private struct Blocks
{
    void** items;
    size_t count, room;

    /// Makes room for `wanted`. False without memory. Under the lock.
    bool grow(size_t wanted) nothrow @nogc
    {
        auto moved = cast(void**) realloc(items, wanted * (void*).sizeof);
        if (moved is null)
            return false;
        items = moved;
        room = wanted;
        return true;
    }
}

/// Dead blocks, for any thread to destroy.
private __gshared Blocks waiting;
/// Blocks that `runInSegment` looks through. Most of them live: nobody else may take them.
private __gshared Blocks listed;
/// Set at the end of a cycle that found something dead; looked at by every allocation.
private shared bool ready;

/// The block is to be destroyed when it is dead. False without memory.
bool watch(void* start) nothrow @nogc
{
    return neap_finalizer_set(start, &found, null, orderNone) == 0;
}

/// It is not any more.
void unwatch(void* start) nothrow @nogc
{
    neap_finalizer_set(start, null, null, orderNone);
}

private extern (C) void found(void* start, void*) nothrow @nogc
{
    if (!remember(start))
        // Found again by a later cycle, when there may be memory.
        watch(start);
}

private bool remember(void* start) nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    if (waiting.count == waiting.room && !waiting.grow(waiting.room ? waiting.room * 2 : 256))
        return false;
    waiting.items[waiting.count++] = start;
    return true;
}

private bool areWaiting() nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    return waiting.count != 0;
}

/// A cycle has ended, world running.
void noteEnd() nothrow @nogc
{
    // Some still wait if a destructor threw.
    if (neap_finalizers_ready() != 0 || areWaiting())
        atomicStore!(MemoryOrder.raw)(ready, true);
}

/// Whether there is something for `runReady`.
bool areReady() nothrow @nogc
{
    return atomicLoad!(MemoryOrder.raw)(ready);
}

/// Runs the destructors of what was found dead. On a thread of D, which holds no lock; one that
/// druntime does not know leaves them to those: nobody waits for them.
void runReady() nothrow
{
    if (inFinalizer || Thread.getThis() is null)
        return;
    atomicStore!(MemoryOrder.raw)(ready, false);
    neap_finalizers_run();
    while (beginWaiting())
        runBegun();
}

/// A destructor that a thread runs. A thread has one at a time: it runs no others within.
private struct Running
{
    void* start;
    size_t bytes;
    uint bits;
    /// The block's first word, by which a class is known: druntime clears it.
    void* first;
    Running* next;

    /// Whether its code lies in the segment.
    bool isIn(const scope void[] segment) nothrow
    {
        if (bits & BlkAttr.STRUCTFINAL)
            return hasDestructorIn(segment, start, bytes, bits);
        return hasDestructorIn(segment, &first, first.sizeof, BlkAttr.FINALIZE);
    }
}

/// All zero while it has none.
private Running own;
/// Those of all threads. Under the lock.
private __gshared Running* running;

/// Ends this thread's destructor, if one has run, and begins that of a waiting block. False if
/// there is none left. One turn under the lock does both: where many die, turns take long.
private bool beginWaiting() nothrow
{
    acquire();
    scope (exit)
        release();
    end();
    while (waiting.count != 0)
    {
        auto start = waiting.items[--waiting.count];
        const begins = begin(start);
        noteDestroyed(start);
        if (begins)
            return true;
    }
    return false;
}

/// The same for a waiting block whose destructor lies in the segment; `looked` is how many of them
/// have another one.
private bool beginWaitingIn(const scope void[] segment, ref size_t looked) nothrow
{
    acquire();
    scope (exit)
        release();
    end();
    for (; looked < waiting.count; looked++)
        if (begin(waiting.items[looked], &segment))
        {
            noteDestroyed(waiting.items[looked]);
            waiting.items[looked] = waiting.items[--waiting.count];
            return true;
        }
    return false;
}

/// The same for a listed block.
private bool beginListedIn(const scope void[] segment) nothrow
{
    // A turn for each, since others wait: most are not begun.
    for (;;)
    {
        acquire();
        scope (exit)
            release();
        end();
        if (listed.count == 0)
            return false;
        auto start = listed.items[--listed.count];
        if (!neap_finalizer_is_set(start) || !begin(start, &segment))
            continue;
        // The finalizer stays: a cycle that goes on since before the block was listed may take it
        // for dead, and would free it.
        ObjectInfo info;
        if (neap_object_at(start, &info))
            change(info, own.bits & ~BlkAttr.FINALIZE);
        return true;
    }
}

/// Takes a block to destroy, with a segment only if its destructor lies there. False if there is
/// nothing to do: it has none (any more), or another thread is running it. Under the lock.
private bool begin(void* start, const void[]* segment = null) nothrow
{
    ObjectInfo info;
    if (!neap_object_at(start, &info))
        return false;
    const bits = attributesOf(info);
    if (!hasDestructor(info, bits))
        return false;
    for (auto other = running; other !is null; other = other.next)
        if (other.start is start)
            return false;
    auto one = Running(start, info.bytes, bits, *cast(void**) start, running);
    if (segment !is null && !one.isIn(*segment))
        return false;
    own = one;
    running = &own;
    return true;
}

/// Under the lock: who asks where a running destructor lies reads what this clears.
private void end() nothrow @nogc
{
    if (own.start is null)
        return;
    forgetDestructor(own.start, own.bytes, own.bits);
    auto place = &running;
    while (*place !is &own)
        place = &(*place).next;
    *place = own.next;
    own = Running.init;
}

/// Runs the destructor that began; who begins the next one ends it. One that throws makes druntime
/// throw a FinalizeError, which goes on to who allocated or collected; what waits behind it is
/// destroyed after the next cycle.
private void runBegun() nothrow
{
    inFinalizer = true;
    // Not `scope (exit)`: what is `nothrow` counts as never left in another way.
    scope (failure)
    {
        inFinalizer = false;
        acquire();
        end();
        release();
    }
    runDestructor(own.start, own.bytes, own.bits);
    inFinalizer = false;
}

/// In the child of a `fork`: other threads are not there to end theirs, which do not run again.
void forgetOtherThreads() nothrow @nogc
{
    for (auto other = running; other !is null; other = other.next)
        if (other !is &own)
            forgetDestructor(other.start, other.bytes, other.bits);
    running = own.start is null ? null : &own;
    own.next = null;
    isUnloading = unloadsHere;
    if (!isUnloading)
        listed.count = 0;
}

/// World stopped.
void nameWaiting(RangeVisitor visit, void* visitor) nothrow
{
    visit(waiting.items, waiting.items + waiting.count, visitor);
    visit(listed.items, listed.items + listed.count, visitor);
}

private struct Search
{
    size_t seen;
    bool isFull;
}

/// Runs the destructors whose code lies in `segment`, of live blocks too, and waits for those that
/// other threads run: the code is about to go. Not in a destructor.
void runInSegment(const scope void[] segment) nothrow
{
    beginUnloading();
    scope (failure)
        endUnloading();
    // Blocks are listed with the world stopped, when nothing may be allocated: so room is made
    // first, and again until it is enough.
    Search search;
    do
    {
        search = Search.init;
        neap_with_stopped_world(&listBlocks, &search);
    }
    while (search.isFull && makeRoom());
    while (beginListedIn(segment))
        runBegun();
    // What has no finalizer any more since it was found dead waits, or will when the library has
    // told; where a cycle is just finding it, it has by the time that cycles are held off.
    neap_hold_collections();
    neap_release_collections();
    neap_finalizers_run();
    size_t looked;
    while (beginWaitingIn(segment, looked))
        runBegun();
    endUnloading();
    while (isRunningIn(segment))
        usleep(betweenLooksMicroseconds);
}

/// One thread at a time has the list of blocks: whether one has it, and whether it is this one.
private __gshared bool isUnloading;
private bool unloadsHere;

private void beginUnloading() nothrow @nogc
{
    while (!unloadsHere)
    {
        acquire();
        if (!isUnloading)
            isUnloading = unloadsHere = true;
        release();
        if (!unloadsHere)
            usleep(betweenLooksMicroseconds);
    }
}

/// What a destructor that threw left in the list is no root any more.
private void endUnloading() nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    listed.count = 0;
    isUnloading = unloadsHere = false;
}

/// How often to look whether another thread has come to its end with destructors: seldom needed.
private enum uint betweenLooksMicroseconds = 100;

/// Whether a thread, which is another one, runs a destructor whose code lies there.
private bool isRunningIn(const scope void[] segment) nothrow
{
    acquire();
    scope (exit)
        release();
    for (auto other = running; other !is null; other = other.next)
        if (other.isIn(segment))
            return true;
    return false;
}

private bool makeRoom() nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    return listed.grow(listed.room ? listed.room * 4 : 1024);
}

private extern (C) void* listBlocks(void* search) nothrow
{
    listed.count = 0;
    neap_for_each_object(&listBlock, search);
    return null;
}

private extern (C) void listBlock(void* start, size_t, int, void* argument) nothrow
{
    auto search = cast(Search*) argument;
    ObjectInfo info;
    if (!neap_object_at(start, &info) || !(attributesOf(info) & BlkAttr.FINALIZE))
        return;
    if (listed.count < listed.room)
        listed.items[listed.count++] = start;
    else
        search.isFull = true;
}

/// A block that is new, or was destroyed or freed, has no class, and no type of structs.
private bool hasDestructor(ref const ObjectInfo info, uint bits) nothrow @nogc
{
    if (!(bits & BlkAttr.FINALIZE))
        return false;
    if (bits & BlkAttr.STRUCTFINAL)
        return typeOf(info.start, info.bytes, bits) !is null;
    return *cast(const(void*)*) info.start !is null;
}
