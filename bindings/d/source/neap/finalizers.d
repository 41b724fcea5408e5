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
import neap.attributes;
import neap.c;
import neap.shared_lock;
import neap.versions;

/// Whether this thread is running a destructor for the collector.
bool inFinalizer;

private __gshared void** waiting;
private __gshared size_t count, room;
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
    if (count == room)
    {
        const wanted = room ? room * 2 : 256;
        auto moved = cast(void**) realloc(waiting, wanted * (void*).sizeof);
        if (moved is null)
            return false;
        waiting = moved;
        room = wanted;
    }
    waiting[count++] = start;
    return true;
}

private void* take() nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    return count == 0 ? null : waiting[--count];
}

/// A cycle has ended, world running.
void noteEnd() nothrow @nogc
{
    if (neap_finalizers_ready() != 0)
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
    while (auto start = take())
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
    inFinalizer = true;
    scope (exit)
        inFinalizer = false;
    rt_finalizeFromGC(start, info.bytes, bits);
}

/// World stopped.
void nameWaiting(RangeVisitor visit, void* visitor) nothrow
{
    visit(waiting, waiting + count, visitor);
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
    while (search.isFull && grow());
    while (auto start = take())
    {
        ObjectInfo info;
        if (!neap_object_at(start, &info))
            continue;
        const bits = attributesOf(info);
        if (!hasDestructor(info, bits) ||
            !rt_hasFinalizerInSegment(start, info.bytes, bits, segment))
            continue;
        unwatch(start);
        change(info, bits & ~BlkAttr.FINALIZE);
        inFinalizer = true;
        scope (exit)
            inFinalizer = false;
        rt_finalizeFromGC(start, info.bytes, bits);
    }
}

private bool grow() nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    const wanted = room ? room * 4 : 1024;
    auto moved = cast(void**) realloc(waiting, wanted * (void*).sizeof);
    if (moved is null)
        return false;
    waiting = moved;
    room = wanted;
    return true;
}

private extern (C) void* listBlocks(void* search) nothrow
{
    count = 0;
    neap_for_each_object(&listBlock, search);
    return null;
}

private extern (C) void listBlock(void* start, size_t, int, void* argument) nothrow
{
    auto search = cast(Search*) argument;
    ObjectInfo info;
    if (!neap_object_at(start, &info) || !(attributesOf(info) & BlkAttr.FINALIZE))
        return;
    if (count < room)
        waiting[count++] = start;
    else
        search.isFull = true;
}

/// A cell that a thread holds ready has no class, and no `TypeInfo` at its end.
private bool hasDestructor(ref const ObjectInfo info, uint bits) nothrow @nogc
{
    if (!(bits & BlkAttr.FINALIZE))
        return false;
    const where = bits & BlkAttr.STRUCTFINAL ? info.bytes - (void*).sizeof : 0;
    return *cast(const(void*)*)(info.start + where) !is null;
}
