/// What differs between versions of druntime, and between compilers: the one file that knows.
///
/// Supported: druntime 2.100 (LDC 1.30, which Debian 12 has), where everything is tested. Pure
/// declarations.
module neap.versions;

import core.memory : GC;

// Later druntimes change `core.gc.gcinterface`: 2.109 has no `collectNoStack`; 2.111 adds
// `getArrayUsed`, `expandArrayUsed`, `reserveArrayCapacity` and `shrinkArrayUsed`, since the
// collector then keeps the lengths of arrays; 2.112 adds `initThread` and `cleanupThread`. This
// package says so instead of failing to compile somewhere inside.
static assert(__VERSION__ >= 2100 && __VERSION__ < 2109,
    "neap: this package knows the GC interface of druntime 2.100 to 2.108");

alias BlkAttr = GC.BlkAttr;
alias BlkInfo = GC.BlkInfo;

// Parts of druntime that have no public declaration.
extern (C) nothrow
{
    /// Runs the destructor of a dead block.
    void rt_finalizeFromGC(void* p, size_t size, uint attr);
    /// Whether that destructor's code lies in the segment.
    int rt_hasFinalizerInSegment(void* p, size_t size, uint attr, const scope void[] segment);
    /// What druntime installs for its suspend signal.
    void thread_suspendHandler(int signal);
}

/// Bytes from which on a block begins with the length of its array, two words long.
enum size_t pageBytes = 4096;
enum size_t lengthPrefixWords = 2;
