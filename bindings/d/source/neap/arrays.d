/// What lies in a block beside the program's data: how much of an array is in use, and the type of
/// structs whose destructors are to run. Druntime keeps both itself up to 2.110, and leaves them to
/// the collector from 2.111 on; the places are the same.
///
/// Invariant: where things lie follows from the block's size and attributes. A length is changed
/// only from the value that the caller saw, so of two slices of one array only the one that ends
/// where the array does can grow it. Called on any thread; arrays that threads share by `atomic`.
module neap.arrays;

import core.atomic : atomicLoad, cas, MemoryOrder;
import neap.attributes;
import neap.c;
import neap.versions : BlkAttr, lengthPrefixWords, pageBytes;

/// Blocks up to this have their length in one byte, larger ones in two, and those of a page or more
/// in a word in front: they can grow, and their end moves.
private enum size_t largestByteBlock = 256;
private enum size_t prefixBytes = lengthPrefixWords * size_t.sizeof;
/// So that what ends where the array ends does not point to the next block.
private enum size_t gapBytes = 1;

/// Where an array begins in its block.
private size_t beginOf(size_t bytes) pure nothrow @nogc @safe
{
    return bytes >= pageBytes ? prefixBytes : 0;
}

private size_t typeBytes(uint bits) pure nothrow @nogc @safe
{
    return bits & BlkAttr.STRUCTFINAL ? (void*).sizeof : 0;
}

/// How much an array in a block can hold.
private size_t capacityOf(size_t bytes, uint bits) pure nothrow @nogc @safe
{
    if (bytes >= pageBytes)
        return bytes - prefixBytes - gapBytes;
    const width = bytes <= largestByteBlock ? ubyte.sizeof : ushort.sizeof;
    return bytes - typeBytes(bits) - width;
}

/// The place of the type of structs that are to be destroyed.
private const(TypeInfo)* typePlace(const void* start, size_t bytes, uint bits) pure nothrow @nogc
{
    const isInFront = bits & BlkAttr.APPENDABLE && bytes >= pageBytes;
    return cast(const(TypeInfo)*)(start + (isInFront ? size_t.sizeof : bytes - (void*).sizeof));
}

/// The type of the structs in a block with destructors; null if there is none (yet).
const(TypeInfo) typeOf(const void* start, size_t bytes, uint bits) pure nothrow @nogc
{
    return bits & BlkAttr.STRUCTFINAL ? *typePlace(start, bytes, bits) : null;
}

/// A block's destructor has run, or is not to: who looks through blocks that are free but not yet
/// used again finds none.
void forgetDestructor(void* start, size_t bytes, uint bits) nothrow @nogc
{
    if (bits & BlkAttr.STRUCTFINAL)
        *cast(void**) typePlace(start, bytes, bits) = null;
    else if (bits & BlkAttr.FINALIZE)
        *cast(void**) start = null;
}

/// How large a block has to be for an array, or structs with destructors, of `size` bytes;
/// `blockBytes` says how large a block for so many bytes is.
size_t withPlaces(alias blockBytes)(size_t size, uint bits) nothrow @nogc
{
    const type = typeBytes(bits);
    if (!(bits & BlkAttr.APPENDABLE))
        return blockBytes(size + type);
    auto bytes = blockBytes(size + type + ubyte.sizeof);
    if (bytes > largestByteBlock)
        bytes = blockBytes(size + type + ushort.sizeof);
    return bytes >= pageBytes ? blockBytes(size + prefixBytes + gapBytes) : bytes;
}

/// Notes both in a new block, and says where its data begins.
void* setUp(void* start, size_t bytes, uint bits, size_t used, const TypeInfo type) nothrow @nogc
{
    if (bits & BlkAttr.STRUCTFINAL)
        *cast(TypeInfo*) typePlace(start, bytes, bits) = cast() type;
    if (!(bits & BlkAttr.APPENDABLE))
        return start;
    if (bytes >= pageBytes && !(bits & BlkAttr.STRUCTFINAL))
        // Where a type would be.
        (cast(size_t*) start)[1] = 0;
    auto array = Array(start, bytes, bits);
    array.write(used);
    return array.begin;
}

/// Of a block, what the program has in use: without what is noted in it.
void[] dataOf(void* start, size_t bytes, uint bits) nothrow @nogc
{
    if (!(bits & BlkAttr.APPENDABLE))
        return start[0 .. bytes - typeBytes(bits)];
    const array = Array(start, bytes, bits);
    return start[beginOf(bytes) .. beginOf(bytes) + array.used(false)];
}

/// A block that an array lies in.
struct Array
{
    private void* start;
    private size_t bytes;
    private uint bits;

    /// Finds the one that the address lies in. False if there is none.
    bool find(const void* address) nothrow @nogc
    {
        ObjectInfo info;
        if (!neap_object_at(address, &info))
            return false;
        bits = attributesOf(info);
        start = info.start;
        bytes = info.bytes;
        return (bits & BlkAttr.APPENDABLE) && address >= begin;
    }

    /// Where its data begins.
    inout(void)* begin() inout pure nothrow @nogc
    {
        return start + beginOf(bytes);
    }

    /// How much it can hold.
    size_t capacity() const pure nothrow @nogc
    {
        return capacityOf(bytes, bits);
    }

    private inout(void)* place() inout pure nothrow @nogc
    {
        return bytes >= pageBytes ? start : start + capacity;
    }

    /// How much of it is in use.
    size_t used(bool atomic) const nothrow @nogc
    {
        if (bytes >= pageBytes)
            return read!size_t(atomic);
        return bytes <= largestByteBlock ? read!ubyte(atomic) : read!ushort(atomic);
    }

    private size_t read(Cell)(bool atomic) const nothrow @nogc
    {
        auto cell = cast(const(Cell)*) place;
        return atomic ? atomicLoad!(MemoryOrder.acq)(*cast(const shared(Cell)*) cell) : *cell;
    }

    private void write(size_t now) nothrow @nogc
    {
        if (bytes >= pageBytes)
            *cast(size_t*) place = now;
        else if (bytes <= largestByteBlock)
            *cast(ubyte*) place = cast(ubyte) now;
        else
            *cast(ushort*) place = cast(ushort) now;
    }

    /// Changes how much is in use. False if it is not what was seen.
    bool change(size_t seen, size_t now, bool atomic) nothrow @nogc
    {
        if (!atomic)
        {
            if (used(false) != seen)
                return false;
            write(now);
            return true;
        }
        if (bytes >= pageBytes)
            return swap!size_t(seen, now);
        return bytes <= largestByteBlock ? swap!ubyte(seen, now) : swap!ushort(seen, now);
    }

    private bool swap(Cell)(size_t seen, size_t now) nothrow @nogc
    {
        return cas(cast(shared(Cell)*) place, cast(Cell) seen, cast(Cell) now);
    }

    /// Makes the block large enough for so much, in place. False if that cannot be.
    bool grow(alias resize)(size_t wanted) nothrow
    {
        if (wanted <= capacity)
            return true;
        const more = resize(start, bytes, wanted - capacity);
        if (more == 0)
            return false;
        bytes = more;
        return true;
    }
}

/// Whether a block is of structs with destructors: their type is noted in it.
bool isOfStructs(uint bits, const TypeInfo ti) pure nothrow @nogc
{
    return bits & BlkAttr.FINALIZE && ti !is null && typeid(ti) is typeid(TypeInfo_Struct);
}
