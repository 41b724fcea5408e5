/// Roots and ranges that the runtime and the program register: `addRoot`, `addRange`, and iteration
/// over them.
///
/// Invariant: under the lock of `shared_lock`; named to the collector by `world.d` with the world
/// stopped. A root registered twice is one root, as in druntime's own collector.
module neap.roots;

import core.gc.gcinterface : Range, Root;
import core.internal.container.treap : Treap;
import neap.c : neap_alloc, neap_free, RangeVisitor;
import neap.shared_lock;
import neap.versions : onNoMemory;

private __gshared Treap!Root roots;
private __gshared Treap!Range ranges;

/// Called once.
void initializeRoots() nothrow @nogc
{
    // The seeds only shape the trees.
    roots.initialize(0x6e65_6170_0001);
    ranges.initialize(0x6e65_6170_0002);
}

void addRoot(void* p) nothrow @nogc
{
    if (p is null)
        return;
    acquire();
    scope (exit)
        release();
    roots.insert(Root(p));
}

void removeRoot(void* p) nothrow @nogc
{
    if (p is null)
        return;
    acquire();
    scope (exit)
        release();
    roots.remove(Root(p));
}

void addRange(void* p, size_t size, const TypeInfo ti) nothrow @nogc
{
    if (p is null || size == 0)
        return;
    acquire();
    scope (exit)
        release();
    ranges.insert(Range(p, p + size, cast() ti));
}

void removeRange(void* p) nothrow @nogc
{
    if (p is null)
        return;
    acquire();
    scope (exit)
        release();
    // Ranges are told apart by where they begin.
    ranges.remove(Range(p, p));
}

int eachRoot(scope int delegate(ref Root) nothrow dg) nothrow
{
    return each(roots, dg);
}

int eachRange(scope int delegate(ref Range) nothrow dg) nothrow
{
    return each(ranges, dg);
}

/// Calls the delegate for each as they are now, without the lock: it may allocate, and so wait for
/// a cycle whose stops take it.
private int each(T)(ref Treap!T items, scope int delegate(ref T) nothrow dg) nothrow
{
    T* copies;
    size_t count, room;
    scope (exit)
        neap_free(copies);
    // Made without the lock too: so until there is room for those that were added meanwhile.
    while (!copy(items, copies, room, count))
    {
        neap_free(copies);
        room = count;
        // Scanned: what is copied is a root while the delegate sees it, whoever removes it.
        copies = cast(T*) neap_alloc(room * T.sizeof);
        if (copies is null)
            onNoMemory();
    }
    int result;
    for (size_t index; index < count && result == 0; index++)
        result = dg(copies[index]);
    return result;
}

/// Copies all; false if there are more than there is room for, which are counted only.
private bool copy(T)(ref Treap!T items, T* copies, size_t room, out size_t count) nothrow
{
    acquire();
    scope (exit)
        release();
    foreach (ref item; items)
    {
        if (count < room)
            copies[count] = item;
        count++;
    }
    return count <= room;
}

/// World stopped.
void nameRoots(RangeVisitor visit, void* visitor) nothrow
{
    foreach (ref root; roots)
        visit(&root.proot, &root.proot + 1, visitor);
    foreach (ref range; ranges)
        visit(range.pbot, range.ptop, visitor);
}
