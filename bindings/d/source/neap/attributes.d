/// Attributes of blocks. They are the label of the block's layout, so they cost nothing per object;
/// the few blocks whose attributes the program changed are in a table.
///
/// Invariant: the table holds live objects only, and such as wait for their destructor: what a
/// cycle found dead is taken out before the world goes on, or by a cycle after its destructor.
/// Under the lock of `shared_lock`; lookups skip it while the table is empty, and allocate nothing:
/// they happen with the world stopped too.
module neap.attributes;

import core.atomic : atomicLoad, atomicStore, MemoryOrder;
import core.stdc.stdlib : calloc, free;
import neap.c;
import neap.shared_lock;
import neap.versions : BlkAttr;

nothrow @nogc:

/// All bits that are kept. Not NO_MOVE, as in druntime's own collector: nothing moves, and a block
/// whose attributes were changed costs time in each cycle.
enum uint knownBits = BlkAttr.FINALIZE | BlkAttr.NO_SCAN | BlkAttr.APPENDABLE
    | BlkAttr.NO_INTERIOR | BlkAttr.STRUCTFINAL;
private enum uint combinations = 64;
static assert(knownBits < combinations);

/// Layouts of blocks without type information, by their attributes.
private __gshared uint[combinations] layouts;

/// Called once. False if the library gave no layout.
bool initializeAttributes()
{
    const whole = neap_layout_prefix(size_t.max);
    const leaf = neap_layout_leaf();
    if (whole == noLayout || leaf == noLayout)
        return false;
    foreach (bits; 0 .. combinations)
    {
        if (bits & ~knownBits)
            continue;
        layouts[bits] = neap_layout_labelled(bits & BlkAttr.NO_SCAN ? leaf : whole, labelOf(bits));
        if (layouts[bits] == noLayout)
            return false;
    }
    return true;
}

/// The label for these bits; 0 is no label.
uint labelOf(uint bits)
{
    return bits + 1;
}

/// The layout of a block of which nothing is known but its attributes.
uint untypedLayout(uint bits)
{
    return layouts[bits];
}

/// The attributes that a block has, as it was made.
private uint born(ref const ObjectInfo info)
{
    const label = neap_layout_label(info.layout);
    if (label != 0)
        return label - 1;
    return info.kind == Kind.leaf || info.kind == Kind.uncollectableLeaf ? BlkAttr.NO_SCAN : 0;
}

private struct Changed
{
    void* start;
    size_t bytes;
    uint bits;
    bool isLeaf;
    /// Whether it is a block that was made without pointers and has some now.
    bool isScannedLeaf() const nothrow @nogc
    {
        return isLeaf && !(bits & BlkAttr.NO_SCAN);
    }

    /// The next of those whose starts are of one place, in the numbers of `firsts`.
    size_t next;
}

/// One behind the other, with room for a power of two.
private __gshared Changed* changed;
private __gshared size_t count, room;
/// How many of them are scanned leaves.
private __gshared size_t scannedLeaves;
private shared size_t countSeen;
/// By the place of a start, one more than the number of the first entry there; 0 is none. As many
/// places as there is room.
private __gshared size_t* firsts;

private size_t* firstOf(const void* start)
{
    import core.bitop : bsr;

    return &firsts[cast(size_t) start * 0x9e37_79b9_7f4a_7c15UL >> 64 - bsr(room)];
}

private Changed* find(const void* start)
{
    if (count == 0)
        return null;
    for (auto number = *firstOf(start); number != 0; number = changed[number - 1].next)
        if (changed[number - 1].start is start)
            return &changed[number - 1];
    return null;
}

/// The attributes of a block.
uint attributesOf(ref const ObjectInfo info)
{
    if (atomicLoad!(MemoryOrder.raw)(countSeen) != 0)
    {
        acquire();
        scope (exit)
            release();
        if (auto entry = find(info.start))
            return entry.bits;
    }
    return born(info);
}

/// Sets and clears some of a block's attributes; `old` is what it had. No thread's change is lost
/// to that of another. False without memory.
bool change(ref const ObjectInfo info, uint set, uint clear, out uint old)
{
    acquire();
    scope (exit)
        release();
    old = attributesOf(info);
    const bits = (old | set) & ~clear;
    return bits == old || change(info, bits);
}

/// Gives a block other attributes. False without memory.
bool change(ref const ObjectInfo info, uint bits)
{
    acquire();
    scope (exit)
        release();
    auto entry = find(info.start);
    if (entry is null)
    {
        if (bits == born(info))
            return true;
        if (count == room && !grow())
            return false;
        entry = &changed[count];
        setCount(count + 1);
        entry.start = cast(void*) info.start;
        link(entry);
    }
    else
        scannedLeaves -= entry.isScannedLeaf;
    entry.bytes = info.bytes;
    entry.bits = bits;
    entry.isLeaf = (born(info) & BlkAttr.NO_SCAN) != 0;
    scannedLeaves += entry.isScannedLeaf;
    return true;
}

/// False without memory.
private bool grow()
{
    const wanted = room ? room * 2 : 64;
    auto moved = cast(Changed*) calloc(wanted, Changed.sizeof);
    auto places = cast(size_t*) calloc(wanted, size_t.sizeof);
    if (moved is null || places is null)
    {
        free(moved);
        free(places);
        return false;
    }
    if (count)
        moved[0 .. count] = changed[0 .. count];
    free(changed);
    free(firsts);
    changed = moved;
    firsts = places;
    room = wanted;
    foreach (ref entry; changed[0 .. count])
        link(&entry);
    return true;
}

private void link(Changed* entry)
{
    auto first = firstOf(entry.start);
    entry.next = *first;
    *first = entry - changed + 1;
}

/// Where the number of an entry is noted.
private size_t* linkTo(const Changed* entry)
{
    auto place = firstOf(entry.start);
    while (*place != entry - changed + 1)
        place = &changed[*place - 1].next;
    return place;
}

/// A block ends, or moves: it has its attributes from birth again.
void forget(const void* start)
{
    if (atomicLoad!(MemoryOrder.raw)(countSeen) == 0)
        return;
    acquire();
    scope (exit)
        release();
    if (auto entry = find(start))
        remove(entry);
}

private void setCount(size_t now)
{
    count = now;
    atomicStore!(MemoryOrder.raw)(countSeen, now);
}

private void remove(Changed* entry)
{
    scannedLeaves -= entry.isScannedLeaf;
    *linkTo(entry) = entry.next;
    auto last = &changed[count - 1];
    if (last !is entry)
    {
        *linkTo(last) = entry - changed + 1;
        *entry = *last;
    }
    setCount(count - 1);
}

/// The block's destructor has run, or runs. Under the lock.
void noteDestroyed(const void* start)
{
    if (auto entry = find(start))
        entry.bits &= ~BlkAttr.FINALIZE;
}

/// World stopped, marking complete: takes out what is dead. Not what still has a destructor: a
/// cycle beside the program finds it and keeps it after the stop, and asks its attributes then.
void forgetDead()
{
    size_t index;
    while (index < count)
        if (changed[index].bits & BlkAttr.FINALIZE || neap_is_marked(changed[index].start))
            index++;
        else
            remove(&changed[index]);
}

/// World stopped: blocks that were made without pointers and have some now are not scanned by the
/// collector, so what they hold counts as roots until they die. One that leads back to itself never
/// does (`docs/d.md` says so).
void nameScannedLeaves(RangeVisitor visit, void* visitor)
{
    if (scannedLeaves == 0)
        return;
    foreach (ref entry; changed[0 .. count])
        if (entry.isScannedLeaf)
        {
            // It may have grown where it is.
            ObjectInfo info;
            const bytes = neap_object_at(entry.start, &info) ? info.bytes : entry.bytes;
            visit(entry.start, entry.start + bytes, visitor);
        }
}
