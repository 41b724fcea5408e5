/// Destructors of dead blocks.
///
/// A block with the attribute FINALIZE has a finalizer of the library. When it is found dead, the
/// library calls `found`, which only remembers the block; the destructor runs in D code's own
/// frames, so that what it throws does not pass through the library. Invariant: a remembered block
/// is a root until its destructor has begun, and then lies on a stack. Waiting blocks are under the
/// lock of `shared_lock`.
module neap.finalizers;

import core.atomic : atomicLoad, atomicStore, MemoryOrder;
import core.stdc.stdlib : free, realloc;
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

    void* take() nothrow @nogc
    {
        acquire();
        scope (exit)
            release();
        return count == 0 ? null : items[--count];
    }

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

/// Runs the destructors of what was found dead. On a thread of D, which holds no lock.
void runReady() nothrow
{
    if (inFinalizer)
        return;
    atomicStore!(MemoryOrder.raw)(ready, false);
    neap_finalizers_run();
    while (auto start = waiting.take())
        destroyBlock(start);
}

private void destroyBlock(void* start) nothrow
{
    ObjectInfo info;
    if (!neap_object_at(start, &info))
        return;
    const bits = attributesOf(info);
    if (!(bits & BlkAttr.FINALIZE))
        return;
    destroyNow(start, info.bytes, bits);
}

/// Runs the destructor. One that throws makes druntime throw a FinalizeError, which goes on to who
/// allocated or collected; what waits behind it is destroyed after the next cycle.
private void destroyNow(void* start, size_t bytes, uint bits) nothrow
{
    inFinalizer = true;
    // Not `scope (exit)`: what is `nothrow` counts as never left in another way.
    scope (failure)
    {
        inFinalizer = false;
        forgetDestructor(start, bytes, bits);
    }
    runDestructor(start, bytes, bits);
    inFinalizer = false;
    forgetDestructor(start, bytes, bits);
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

/// Runs the destructors whose code lies in `segment`, of live blocks too: the code is about to go.
void runInSegment(const scope void[] segment) nothrow
{
    runReady();
    // Blocks are listed with the world stopped, when nothing may be allocated: so room is made
    // first, and again until it is enough.
    Search search;
    do
    {
        search = Search.init;
        neap_with_stopped_world(&listBlocks, &search);
    }
    while (search.isFull && makeRoom());
    while (auto start = listed.take())
    {
        ObjectInfo info;
        if (!neap_object_at(start, &info))
            continue;
        const bits = attributesOf(info);
        if (!hasDestructor(info, bits) ||
            !hasDestructorIn(segment, start, info.bytes, bits))
            continue;
        unwatch(start);
        change(info, bits & ~BlkAttr.FINALIZE);
        destroyNow(start, info.bytes, bits);
    }
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

/// A cell that a thread holds ready has no class, and no type of structs; nor has one that was
/// destroyed or freed.
private bool hasDestructor(ref const ObjectInfo info, uint bits) nothrow @nogc
{
    if (!(bits & BlkAttr.FINALIZE))
        return false;
    if (bits & BlkAttr.STRUCTFINAL)
        return typeOf(info.start, info.bytes, bits) !is null;
    return *cast(const(void*)*) info.start !is null;
}
