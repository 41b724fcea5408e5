/// From `TypeInfo.rtInfo` to layouts: which words of a block may be pointers.
///
/// Invariant: a layout names every word that may be one. Where nothing certain is known the block
/// is scanned whole. Reading the table takes no lock; called from any thread.
///
/// A place of the table has another type's layout only after code was unloaded, which empties the
/// table under the lock, and counts before it begins. Who searches looks at the count before, and
/// again when it has read a layout (written with `rel`, read with `acq`): so a layout that came to
/// the place after the key was read is known by the count, and not used. No reader is waited for,
/// and no table is kept for one.
module neap.layouts;

import core.atomic : atomicLoad, atomicOp, atomicStore, MemoryOrder;
import core.stdc.stdlib : calloc;
import neap.attributes;
import neap.c;
import neap.shared_lock;
import neap.versions;

private enum size_t places = 1 << 14;
/// Search no further than this: a full neighbourhood makes blocks that are scanned whole, which is
/// right too.
private enum size_t probes = 64;

private struct Known
{
    size_t key;
    uint layout;
}

/// Not in static data, which is scanned for roots. Null before `initializeLayouts`.
private __gshared Known* table;

/// Called once. False without memory.
bool initializeLayouts() nothrow @nogc
{
    table = cast(Known*) calloc(places, Known.sizeof);
    return table !is null;
}

/// What this thread asked for lately, by type and attributes: most programs ask for few types again
/// and again, and asking a `TypeInfo` takes longer than an allocation. Types made at run time are
/// not kept.
private Recent[1 << 6] recent;
/// What `unloads` was when they were asked.
private uint recentUnloads;
/// Twice how often code was unloaded, since other types may lie at the addresses of those that went
/// with it; odd while the table is being emptied.
private shared uint unloads;

private struct Recent
{
    const(void)* type;
    uint bits;
    uint layout;
    /// Bytes that the layout says something of. Who asks for more may keep pointers behind them.
    size_t most;
}

/// Whether the block is scanned as one of this type has to be: whole, or by its layout. Without a
/// type nothing is known of its words, whatever was known before.
bool isScannedAs(ref const ObjectInfo info, size_t size, uint bits, const TypeInfo ti) nothrow
{
    if (info.layout == noLayout)
        return true;
    const label = neap_layout_label(info.layout);
    if (label != 0 && info.layout == untypedLayout(label - 1))
        return true;
    return ti !is null && info.layout == layoutOf(ti, size, info.bytes, bits);
}

/// The layout of a block of `bytes` bytes with these attributes, of which `size` were asked for,
/// made for a `ti` that is not null.
uint layoutOf(const scope TypeInfo ti, size_t size, size_t bytes, uint bits) nothrow
{
    const type = cast(const(void)*) ti;
    // Attributes are below 64.
    const what = bits | (bytes >= pageBytes ? 64 : 0);
    const now = atomicLoad!(MemoryOrder.acq)(unloads);
    if (recentUnloads != now)
    {
        recent[] = Recent.init;
        recentUnloads = now;
    }
    auto place = &recent[(cast(size_t) type >> 4 ^ cast(size_t) type >> 10 ^ bits) % recent.length];
    if (place.type is type && place.bits == what)
        return size <= place.most ? place.layout : untypedLayout(bits);
    const layout = find(ti, bytes, bits, now);
    const most = mostOf(ti, layout, bits);
    if (!neap_is_heap_address(type) && !neap_is_heap_address(ti.rtInfo()))
        *place = Recent(type, what, layout, most);
    return size <= most ? layout : untypedLayout(bits);
}

/// Only an array repeats its element as far as its block goes.
private size_t mostOf(const scope TypeInfo ti, uint layout, uint bits) nothrow
{
    if (bits & BlkAttr.APPENDABLE || layout == untypedLayout(bits))
        return size_t.max;
    return *cast(const(size_t)*) ti.rtInfo();
}

/// Code was unloaded: what is known of types may be wrong for those that come to lie where they
/// did.
void forgetLayouts() nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    atomicOp!"+="(unloads, 1);
    foreach (ref known; table[0 .. places])
        if (known.key != 0)
            atomicStore!(MemoryOrder.raw)(*cast(shared) &known.key, 0);
    atomicOp!"+="(unloads, 1);
}

/// `now` is what `unloads` was.
private uint find(const scope TypeInfo ti, size_t bytes, uint bits, uint now) nothrow
{
    if (bits & (BlkAttr.NO_SCAN | BlkAttr.STRUCTFINAL))
        // The last word of the latter is a `TypeInfo`, which may have been made at run time.
        return untypedLayout(bits);
    const asClass = cast(const TypeInfo_Class) ti;
    const isClass = asClass !is null;
    if (isClass && bits & BlkAttr.APPENDABLE)
        // The elements are references; the bitmap is that of the objects.
        return untypedLayout(bits);
    if (isClass && holdsRegisters(asClass))
        return untypedLayout(bits);
    auto bitmap = cast(const(size_t)*) ti.rtInfo();
    if (bitmap is rtinfoNoPointers || bitmap is rtinfoHasPointers)
        return untypedLayout(bits);
    // An array of elements that are not whole words is scanned whole.
    if (!isClass && bitmap[0] % size_t.sizeof != 0)
        return untypedLayout(bits);
    const hasPrefix = (bits & BlkAttr.APPENDABLE) && bytes >= pageBytes;
    if (neap_is_heap_address(bitmap))
        // A type made at run time: another one may lie at this address later.
        return makeAlike(bitmap, hasPrefix, bits);
    const key = (cast(size_t) bitmap << 7) | (hasPrefix ? 64 : 0) | bits;
    const start = (key * 0x9e37_79b9_7f4a_7c15UL) >> 50;
    foreach (step; 0 .. probes)
    {
        auto known = &table[(start + step) % places];
        const found = atomicLoad!(MemoryOrder.acq)(*cast(shared) &known.key);
        if (found == key)
        {
            const layout = atomicLoad!(MemoryOrder.acq)(*cast(shared) &known.layout);
            return atomicLoad!(MemoryOrder.raw)(unloads) == now ? layout : untypedLayout(bits);
        }
        if (found == 0)
            return remember(key, start, make(bitmap, hasPrefix, bits), now);
    }
    return untypedLayout(bits);
}

/// Layouts that this thread had made of bitmaps in the heap, by what these say: every entry of an
/// associative array asks for one, and the library looks through all layouts for one alike.
private Alike[1 << 5] alike;

private struct Alike
{
    /// No element has 0 bytes.
    size_t elementBytes;
    size_t pointers;
    uint what;
    uint layout;
}

private uint makeAlike(const(size_t)* bitmap, bool hasPrefix, uint bits) nothrow @nogc
{
    // More has no place here.
    if (bitmap[0] == 0 || bitmap[0] > 64 * size_t.sizeof)
        return make(bitmap, hasPrefix, bits);
    const what = bits | (hasPrefix ? 64 : 0);
    const mixed = (bitmap[0] ^ bitmap[1] << 8 ^ what) * 0x9e37_79b9_7f4a_7c15UL;
    auto place = &alike[mixed >> 59];
    if (place.elementBytes != bitmap[0] || place.pointers != bitmap[1] || place.what != what)
        *place = Alike(bitmap[0], bitmap[1], what, make(bitmap, hasPrefix, bits));
    return place.layout;
}

private uint remember(size_t key, size_t start, uint layout, uint now) nothrow @nogc
{
    acquire();
    scope (exit)
        release();
    // The type may be gone with what was unloaded meanwhile.
    if (atomicLoad!(MemoryOrder.raw)(unloads) != now)
        return layout;
    foreach (step; 0 .. probes)
    {
        auto known = &table[(start + step) % places];
        if (known.key == key)
            break;
        if (known.key == 0)
        {
            atomicStore!(MemoryOrder.rel)(*cast(shared) &known.layout, layout);
            atomicStore!(MemoryOrder.rel)(*cast(shared) &known.key, key);
            break;
        }
    }
    return layout;
}

/// The bits of a bitmap of one element, moved up by the prefix: a block's first words are then
/// words of an element that begins before it.
private uint make(const(size_t)* bitmap, bool hasPrefix, uint bits) nothrow @nogc
{
    enum size_t mostWords = 4096;
    const words = (bitmap[0] + size_t.sizeof - 1) / size_t.sizeof;
    if (words == 0 || words > mostWords)
        return untypedLayout(bits);
    ulong[mostWords / 64] moved = 0;
    foreach (word; 0 .. words)
    {
        const isPointer = (bitmap[1 + word / 64] >> (word % 64)) & 1;
        const place = hasPrefix ? (word + lengthPrefixWords) % words : word;
        moved[place / 64] |= cast(ulong) isPointer << (place % 64);
    }
    const plain = neap_layout_bitmap(words, moved.ptr);
    const layout = plain == noLayout ? noLayout : neap_layout_labelled(plain, labelOf(bits));
    return layout == noLayout ? untypedLayout(bits) : layout;
}
