/// The collector as druntime sees it: `core.gc.gcinterface.GC`, each member with its documented
/// meaning. `docs/d.md` has them in a table.
///
/// Invariant: nothing here holds the lock of this package while it calls the library, but to stop
/// the world, or for what the library answers at once. Members are called from any thread of D.
module neap.plugin;

import core.exception : onInvalidMemoryOperationError;
import core.gc.config : config;
import core.gc.gcinterface;
import core.stdc.string : memcpy, memset;
import neap.arrays;
import neap.attributes;
import neap.c;
import neap.finalizers;
import neap.layouts;
import neap.versions : BlkAttr, BlkInfo, collectorKeepsLengths, onNoMemory, pageBytes;
static import core.memory;
static import neap.disabling;
static import neap.profile;
static import neap.roots;
static import neap.world;

/// Bytes that this thread has allocated.
private ulong allocatedBytes;

/// Larger blocks have pages of their own.
private enum size_t largestCell = 32 << 10;

private size_t roundUp(size_t bytes, size_t unit) pure nothrow @nogc @safe
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/// How large a block for so many bytes is.
private size_t blockBytes(size_t size) nothrow @nogc
{
    // A multiple of 16 is aligned to 16.
    const bytes = neap_good_size(roundUp(size, 16));
    return bytes > largestCell ? roundUp(size, pageBytes) : bytes;
}

final class NeapGC : GC
{
    private immutable bool isPrecise;

    this(bool isPrecise) nothrow @nogc
    {
        this.isPrecise = isPrecise;
        if (config.disable)
            neap.disabling.switchOff();
    }

    ~this()
    {
        if (config.profile)
            neap.profile.printProfile(config.profile);
        neap_set_event_callback(null, null);
        // Druntime's threads are about to end: nobody could stop them.
        neap_disable();
        neap.world.endWorld();
    }

    void enable() nothrow @nogc
    {
        neap.disabling.enable();
    }

    void disable() nothrow
    {
        neap.disabling.disable();
    }

    void collect() nothrow
    {
        if (isFinalizing())
            onInvalidMemoryOperationError();
        neap_collect();
        runReady();
    }

    void collectNoStack() nothrow
    {
        neap.world.withoutStacks = true;
        neap_collect();
        neap.world.withoutStacks = false;
        runReady();
    }

    void minimize() nothrow
    {
        if (isFinalizing())
            onInvalidMemoryOperationError();
        neap_release_memory();
    }

    uint getAttr(void* p) nothrow
    {
        ObjectInfo info;
        return starts(p, info) ? attributesOf(info) : 0;
    }

    uint setAttr(void* p, uint mask) nothrow
    {
        return alter(p, mask & knownBits, 0);
    }

    uint clrAttr(void* p, uint mask) nothrow
    {
        return alter(p, 0, mask & knownBits);
    }

    private uint alter(void* p, uint set, uint clear) nothrow
    {
        ObjectInfo info;
        if (!starts(p, info))
            return 0;
        uint old;
        if (!change(info, set, clear, old))
            onNoMemory();
        const bits = (old | set) & ~clear;
        if (!((old ^ bits) & BlkAttr.FINALIZE))
            return old;
        if (old & BlkAttr.FINALIZE)
            unwatch(p);
        // Also where another thread has set it meanwhile.
        if (attributesOf(info) & BlkAttr.FINALIZE && !watch(p))
        {
            change(info, 0, BlkAttr.FINALIZE, old);
            onNoMemory();
        }
        return old;
    }

    void* malloc(size_t size, uint bits, const TypeInfo ti) nothrow
    {
        return make(size, bits, ti);
    }

    BlkInfo qalloc(size_t size, uint bits, const scope TypeInfo ti) nothrow
    {
        BlkInfo block;
        block.base = allocate(size, bits, ti, block.size);
        block.attr = block.base is null ? 0 : bits;
        return block;
    }

    void* calloc(size_t size, uint bits, const TypeInfo ti) nothrow
    {
        auto p = make(size, bits, ti);
        // Other blocks are zero already.
        if (p !is null && bits & BlkAttr.NO_SCAN)
            memset(p, 0, size);
        return p;
    }

    /// A block for `size` bytes and what the collector keeps in it beside them.
    private void* make(size_t size, uint bits, const TypeInfo ti) nothrow
    {
        static if (collectorKeepsLengths)
        {
            bits = isOfStructs(bits, ti) ? bits | BlkAttr.STRUCTFINAL : bits & ~BlkAttr.STRUCTFINAL;
            if (bits & (BlkAttr.APPENDABLE | BlkAttr.STRUCTFINAL) && size != 0)
            {
                if (size > size_t.max / 2)
                    onNoMemory();
                size_t bytes;
                auto p = allocate(withPlaces!blockBytes(size, bits), bits, ti, bytes);
                return setUp(p, bytes, bits, size, ti);
            }
        }
        size_t got;
        return allocate(size, bits, ti, got);
    }

    private void* allocate(size_t size, uint bits, const scope TypeInfo ti, out size_t got) nothrow
    {
        if (size == 0)
            return null;
        auto p = allocateOrNull(size, bits, ti, got);
        if (p is null)
            onNoMemory();
        return p;
    }

    /// The same, of 1 byte or more; null if there is no memory for them.
    private void* allocateOrNull(size_t size, uint bits, const scope TypeInfo ti, out size_t got)
    nothrow
    {
        if (isFinalizing())
            onInvalidMemoryOperationError();
        if (areReady())
            runReady();
        if (size > size_t.max / 2)
            return null;
        bits &= knownBits;
        got = blockBytes(size);
        void* p;
        if (isPrecise && ti !is null)
            p = neap_alloc_typed(got, layoutOf(ti, size, got, bits));
        else if (bits == 0)
            p = neap_alloc(got);
        else if (bits == BlkAttr.NO_SCAN)
            p = neap_alloc_leaf(got);
        else
            p = neap_alloc_typed(got, untypedLayout(bits));
        if (p is null)
            return null;
        allocatedBytes += got;
        if (bits & BlkAttr.FINALIZE)
        {
            // It may be looked at before the caller says which destructor it has.
            forgetDestructor(p, got, bits);
            if (!watch(p))
                return null;
        }
        // What a cycle found dead that ended within this call is destroyed before the program goes
        // on: it may have a pointer to that where no collector looks.
        if (areReady())
            runReady();
        return p;
    }

    void* realloc(void* p, size_t size, uint bits, const TypeInfo ti) nothrow
    {
        if (p is null)
            return malloc(size, bits, ti);
        if (size == 0)
        {
            free(p);
            return null;
        }
        if (isFinalizing() || bits & notReallocated)
            onInvalidMemoryOperationError();
        ObjectInfo info;
        if (!starts(p, info))
            return null;
        const old = attributesOf(info);
        auto wanted = bits ? bits & knownBits : old;
        const staysAlike = wanted == old && (!isPrecise || isScannedAs(info, size, wanted, ti));
        if (staysAlike && fits(p, info, size))
            return cut(p, info, size, old);
        // What goes with these lies in the block, at places that follow from its size.
        wanted &= ~notReallocated;
        size_t got;
        auto moved = allocateOrNull(size, wanted, ti, got);
        if (moved is null)
        {
            // It is large enough, only larger than it has to be.
            if (staysAlike && size <= info.bytes)
                return cut(p, info, size, old);
            onNoMemory();
        }
        memcpy(moved, p, info.bytes < size ? info.bytes : size);
        free(p);
        return moved;
    }

    /// The block, which is smaller where it is, without the pointers that lie behind its end now.
    private static void* cut(void* p, ref const ObjectInfo info, size_t size, uint bits)
    nothrow @nogc
    {
        // Of these more lies in the block than the program put there.
        enum uint kept = BlkAttr.APPENDABLE | BlkAttr.FINALIZE | BlkAttr.STRUCTFINAL;
        if (size < info.bytes && !(bits & (kept | BlkAttr.NO_SCAN)))
            clear(p[size .. info.bytes]);
        return p;
    }

    /// Whether the block can have the size where it is; then it has it.
    private bool fits(void* p, ref const ObjectInfo info, size_t size) nothrow
    {
        if (size <= info.bytes)
            return size >= info.bytes / 2;
        return extendBlock(p, info.bytes, size - info.bytes) != 0;
    }

    size_t extend(void* p, size_t minsize, size_t maxsize, const TypeInfo ti) nothrow
    {
        if (isFinalizing())
            onInvalidMemoryOperationError();
        ObjectInfo info;
        if (!starts(p, info))
            return 0;
        const size_t[2] wishes = [maxsize, minsize];
        foreach (more; wishes)
            if (const bytes = extendBlock(p, info.bytes, more))
                return bytes;
        return 0;
    }

    /// Of a block that has `bytes`.
    private static size_t extendBlock(void* p, size_t bytes, size_t more) nothrow @nogc
    {
        if (bytes <= largestCell || more > size_t.max / 2 - bytes)
            return 0;
        return neap_resize_in_place(p, roundUp(bytes + more, pageBytes));
    }

    size_t reserve(size_t size) nothrow
    {
        return neap_expand(size) ? size : 0;
    }

    void free(void* p) nothrow @nogc
    {
        // A destructor's block may be gone already, or about to go.
        if (p is null || isFinalizing())
            return;
        ObjectInfo info;
        if (!starts(p, info))
            return;
        forgetDestructor(p, info.bytes, attributesOf(info));
        forget(p);
        neap_free(p);
    }

    void* addrOf(void* p) nothrow @nogc
    {
        return neap_base(p);
    }

    size_t sizeOf(void* p) nothrow @nogc
    {
        ObjectInfo info;
        return starts(p, info) ? info.bytes : 0;
    }

    BlkInfo query(void* p) nothrow
    {
        ObjectInfo info;
        if (!neap_object_at(p, &info))
            return BlkInfo.init;
        return BlkInfo(info.start, info.bytes, attributesOf(info));
    }

    core.memory.GC.Stats stats() @trusted nothrow @nogc
    {
        auto stats = neap.profile.sizes();
        stats.allocatedInCurrentThread = allocatedBytes;
        return stats;
    }

    core.memory.GC.ProfileStats profileStats() @trusted nothrow @nogc
    {
        return neap.profile.collections();
    }

    void addRoot(void* p) nothrow @nogc
    {
        neap.roots.addRoot(p);
    }

    void removeRoot(void* p) nothrow @nogc
    {
        neap.roots.removeRoot(p);
    }

    @property RootIterator rootIter() @nogc
    {
        return &eachRoot;
    }

    private int eachRoot(scope int delegate(ref Root) nothrow dg)
    {
        return neap.roots.eachRoot(dg);
    }

    void addRange(void* p, size_t size, const TypeInfo ti) nothrow @nogc
    {
        neap.roots.addRange(p, size, ti);
    }

    void removeRange(void* p) nothrow @nogc
    {
        neap.roots.removeRange(p);
    }

    @property RangeIterator rangeIter() @nogc
    {
        return &eachRange;
    }

    private int eachRange(scope int delegate(ref Range) nothrow dg)
    {
        return neap.roots.eachRange(dg);
    }

    void runFinalizers(const scope void[] segment) nothrow
    {
        if (isFinalizing())
            onInvalidMemoryOperationError();
        // Also where a destructor throws.
        scope (failure)
            forgetLayouts();
        runInSegment(segment);
        forgetLayouts();
    }

    bool inFinalizer() nothrow @nogc @safe
    {
        return isFinalizing();
    }

    ulong allocatedInCurrentThread() nothrow
    {
        return allocatedBytes;
    }

    static if (collectorKeepsLengths)
    {
        void[] getArrayUsed(void* p, bool atomic = false) nothrow
        {
            Array array;
            return array.find(p) ? array.begin[0 .. array.used(atomic)] : null;
        }

        bool expandArrayUsed(void[] slice, size_t newUsed, bool atomic = false) nothrow @trusted
        {
            Array array;
            if (newUsed < slice.length || !array.find(slice.ptr))
                return false;
            const before = slice.ptr - array.begin, seen = before + slice.length;
            return array.used(atomic) == seen && array.grow!extendBlock(before + newUsed)
                && array.change(seen, before + newUsed, atomic);
        }

        size_t reserveArrayCapacity(void[] slice, size_t request, bool atomic = false)
        nothrow @trusted
        {
            Array array;
            if (!array.find(slice.ptr))
                return 0;
            const before = slice.ptr - array.begin;
            if (array.used(atomic) != before + slice.length ||
                !array.grow!extendBlock(before + request))
                return 0;
            return array.capacity - before;
        }

        bool shrinkArrayUsed(void[] slice, size_t existingUsed, bool atomic = false) nothrow
        {
            Array array;
            if (existingUsed < slice.length || !array.find(slice.ptr))
                return false;
            const before = slice.ptr - array.begin;
            return array.change(before + existingUsed, before + slice.length, atomic);
        }
    }

    static if (__VERSION__ >= 2112)
    {
        import core.thread.threadbase : ThreadBase;

        /// Druntime has the thread in its list by its first stop, which is all that is needed.
        void initThread(ThreadBase) nothrow @nogc
        {
        }

        /// The library notices by itself that a thread ends.
        void cleanupThread(ThreadBase) nothrow @nogc
        {
        }
    }
}

/// Attributes that `realloc` refuses where the collector keeps what goes with them, and does not
/// hand on.
private enum uint notReallocated = collectorKeepsLengths ?
    BlkAttr.APPENDABLE | BlkAttr.FINALIZE | BlkAttr.STRUCTFINAL : 0;

/// Whole pages are not written that are zero already: the system may not have given them yet.
private void clear(void[] bytes) nothrow @nogc
{
    for (size_t length; bytes.length != 0; bytes = bytes[length .. $])
    {
        const toNext = pageBytes - (cast(size_t) bytes.ptr & (pageBytes - 1));
        length = toNext < bytes.length ? toNext : bytes.length;
        if (length < pageBytes || !isZero(cast(const(size_t)[]) bytes[0 .. length]))
            memset(bytes.ptr, 0, length);
    }
}

private bool isZero(const size_t[] words) nothrow @nogc
{
    foreach (word; words)
        if (word != 0)
            return false;
    return true;
}

private bool isFinalizing() nothrow @nogc @safe
{
    return neap.finalizers.inFinalizer;
}

private bool starts(void* p, out ObjectInfo info) nothrow @nogc
{
    return neap_object_at(p, &info) && info.start is p;
}
