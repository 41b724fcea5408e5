/// What differs between versions of druntime, and between compilers: the one file that knows.
///
/// Supported: druntime 2.100 (LDC 1.30 and GDC 12, which Debian 12 has) to 2.113 (GDC 16).
/// Declarations, and what reaches into druntime's own.
module neap.versions;

import core.lifetime : emplace;
import core.memory : GC;
import core.sync.mutex : Mutex;
import core.thread : Thread;
import core.thread.threadbase : ScanAllThreadsTypeFn, thread_scanAllType, ThreadBase;

// Druntimes change `core.gc.gcinterface`: from 2.109 on it has no `collectNoStack`, which is then a
// function that nobody calls; 2.111 adds `getArrayUsed`, `expandArrayUsed`, `reserveArrayCapacity`
// and `shrinkArrayUsed`; 2.112 adds `initThread` and `cleanupThread`. With one that was never tried
// this package says so instead of failing to compile somewhere inside.
static assert(__VERSION__ >= 2100 && __VERSION__ < 2114,
    "neap: this package knows the GC interface of druntime 2.100 to 2.113");

/// Whether the collector keeps the lengths of arrays and the types of structs with destructors in
/// their blocks, as it does from 2.111 on. Before, druntime does, and has a cache of blocks that
/// has to know what is dead.
enum bool collectorKeepsLengths = __VERSION__ >= 2111;

alias BlkAttr = GC.BlkAttr;
alias BlkInfo = GC.BlkInfo;

// Parts of druntime that have no public declaration.
extern (C) nothrow
{
    // Run the destructor of a dead block, and say whether that destructor's code lies in a segment.
    static if (collectorKeepsLengths)
    {
        void rt_finalizeFromGC(void* p, size_t size, uint attr, const(TypeInfo) type);
        int rt_hasFinalizerInSegment(void* p, size_t size, const(TypeInfo) type,
            const scope void[] segment);
    }
    else
    {
        void rt_finalizeFromGC(void* p, size_t size, uint attr);
        int rt_hasFinalizerInSegment(void* p, size_t size, uint attr, const scope void[] segment);
    }
    /// What druntime installs for its suspend signal.
    void thread_suspendHandler(int signal);
}

/// Runs the destructors of what lies in a block.
void runDestructor(void* start, size_t bytes, uint bits) nothrow
{
    static if (collectorKeepsLengths)
    {
        import neap.arrays : dataOf, typeOf;

        auto data = dataOf(start, bytes, bits);
        rt_finalizeFromGC(data.ptr, data.length, bits, typeOf(start, bytes, bits));
    }
    else
        rt_finalizeFromGC(start, bytes, bits);
}

/// Whether the code of these lies in the segment.
bool hasDestructorIn(const scope void[] segment, void* start, size_t bytes, uint bits) nothrow
{
    static if (collectorKeepsLengths)
    {
        import neap.arrays : dataOf, typeOf;

        auto data = dataOf(start, bytes, bits);
        return rt_hasFinalizerInSegment(data.ptr, data.length, typeOf(start, bytes, bits),
            segment) != 0;
    }
    else
        return rt_hasFinalizerInSegment(start, bytes, bits, segment) != 0;
}

/// With the world stopped after marking: druntime forgets what it knows of dead blocks.
void tellMarks() nothrow
{
    static if (!collectorKeepsLengths)
    {
        import core.thread.threadbase : IsMarked, thread_processGCMarks;
        import neap.c : neap_is_heap_address, neap_is_marked;

        thread_processGCMarks((address) {
            if (!neap_is_heap_address(address))
                return IsMarked.unknown;
            return neap_is_marked(address) ? IsMarked.yes : IsMarked.no;
        });
    }
}

/// An OutOfMemoryError without a trace: druntime makes traces in the collected heap, where there is
/// no memory for them, and each would be refused by another error, until the stack is full.
void onNoMemory() nothrow @nogc
{
    static import core.exception;

    static if (__traits(hasMember, core.exception, "onOutOfMemoryErrorNoGC"))
        core.exception.onOutOfMemoryErrorNoGC();
    else
        core.exception.onOutOfMemoryError();
}

/// The lock of druntime's list of threads, and the list: what a `fork` has to mend.
bool tryLockThreads() nothrow @nogc
{
    return threadsLock().tryLock_nothrow();
}

void unlockThreads() nothrow @nogc
{
    threadsLock().unlock_nothrow();
}

/// Whether a thread that druntime does not know can stop its own. Between these versions it began
/// to wait for all that it stops, not for one less than there are.
enum bool strangersMayStop = __VERSION__ == 2100 || __VERSION__ > 2102;

/// Druntime takes its lock for a stop from now on, as in a program with several threads. Before any
/// stop.
void letStrangersStop() nothrow @nogc
{
    import threadbase = core.thread.threadbase;

    static if (strangersMayStop)
        __traits(getMember, threadbase, "multiThreadedFlag") = true;
}

/// On a thread that druntime does not know, after its stop: waits for the last one that it stops.
void waitForLastStopped() nothrow @nogc
{
    import core.sys.posix.semaphore : sem_wait;
    import osthread = core.thread.osthread;

    static if (__VERSION__ == 2100)
        while (sem_wait(&__traits(getMember, osthread, "suspendCount")) != 0)
        {
        }
}

/// `thread_scanAllType` on any thread. Druntime asks who is calling without a look whether it knows
/// that one: there it is told of one of its own, which stands, as one whose stack it need not look
/// for.
void scanThreads(scope ScanAllThreadsTypeFn scan) nothrow
{
    if (Thread.getThis() !is null)
        return thread_scanAllType(scan);
    auto lent = firstThread();
    const isLocked = __traits(getMember, lent, "m_lock");
    __traits(getMember, lent, "m_lock") = true;
    __traits(getMember, ThreadBase, "sm_this") = lent;
    thread_scanAllType(scan);
    __traits(getMember, ThreadBase, "sm_this") = null;
    __traits(getMember, lent, "m_lock") = isLocked;
}

private Mutex threadsLock() nothrow @nogc
{
    return cast(Mutex) __traits(getMember, ThreadBase, "_slock").ptr;
}

/// Makes it, and the lock of critical regions, anew. The only thread of the process.
void initializeThreadLocks() nothrow @nogc
{
    emplace!Mutex(__traits(getMember, ThreadBase, "_slock")[]);
    // Later ones have no critical regions.
    static if (__VERSION__ < 2111)
        emplace!Mutex(__traits(getMember, ThreadBase, "_criticalRegionLock")[]);
}

/// Threads that were about to start are the parent's: a child would wait for them at the end of
/// `main`. The only thread of the process. The memory of their array stays: another thread may have
/// been just moving it.
void forgetStartingThreads() nothrow @nogc
{
    __traits(getMember, ThreadBase, "nAboutToStart") = 0;
    __traits(getMember, ThreadBase, "pAboutToStart") = null;
}

/// Under the lock: a thread of the list, and the one behind it.
ThreadBase firstThread() nothrow @nogc
{
    return __traits(getMember, ThreadBase, "sm_tbeg");
}

ThreadBase nextThread(ThreadBase thread) nothrow @nogc
{
    return __traits(getMember, thread, "next");
}

/// Whether a block is of a fiber that keeps the registers of its thread in itself: GDC's fibers are
/// switched by `swapcontext`. Registers are numbers to its type, and may hold the only pointer to
/// something.
bool holdsRegisters(const scope TypeInfo_Class type) nothrow @nogc
{
    import core.thread : Fiber;

    static if (__traits(hasMember, Fiber, "m_utxt"))
        for (const(TypeInfo_Class)* of = &type; *of !is null; of = &of.base)
            if (*of is typeid(Fiber))
                return true;
    return false;
}

/// Bytes from which on a block begins with the length of its array, two words long.
enum size_t pageBytes = 4096;
enum size_t lengthPrefixWords = 2;
