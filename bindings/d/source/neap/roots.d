/// Roots and ranges that the runtime and the program register: `addRoot`, `addRange`, and iteration
/// over them.
///
/// Invariant: under the lock of `shared_lock`; named to the collector by `world.d` with the world
/// stopped. A root registered twice is one root, as in druntime's own collector.
module neap.roots;

import core.gc.gcinterface : Range, Root;
import core.internal.container.treap : Treap;
import neap.c : RangeVisitor;
import neap.shared_lock;

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
    acquire();
    scope (exit)
        release();
    return roots.opApply(dg);
}

int eachRange(scope int delegate(ref Range) nothrow dg) nothrow
{
    acquire();
    scope (exit)
        release();
    return ranges.opApply(dg);
}

/// World stopped.
void nameRoots(RangeVisitor visit, void* visitor) nothrow
{
    foreach (ref root; roots)
        visit(&root.proot, &root.proot + 1, visitor);
    foreach (ref range; ranges)
        visit(range.pbot, range.ptop, visitor);
}
