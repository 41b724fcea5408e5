/// What the library's statistics say of sizes, collections and pauses: as druntime asks for it, and
/// as the summary at exit that `--DRT-gcopt=profile:1` asks for, in the words of druntime's own
/// collector.
///
/// Invariant: none, it only reads. Called by `plugin.d`: the summary by the thread that ends the
/// program, the rest from any thread.
module neap.profile;

import core.memory : GC;
import core.stdc.stdio : printf;
import core.time : nsecs;
import neap.c : neap_statistics_read, Statistics;

nothrow @nogc:

/// All but what the calling thread has allocated, which the caller counts.
GC.Stats sizes()
{
    const now = read();
    GC.Stats stats;
    const used = now.liveBytes + now.allocatedSinceCycle - now.freedSinceCycle;
    stats.usedSize = used < now.committedBytes ? used : now.committedBytes;
    stats.freeSize = now.committedBytes - stats.usedSize;
    return stats;
}

GC.ProfileStats collections()
{
    const now = read();
    GC.ProfileStats stats;
    stats.numCollections = now.cycles;
    stats.totalPauseTime = nsecs(now.pauseTotalNs);
    stats.maxPauseTime = nsecs(now.pauseMaxNs);
    // What the program's threads spend in the collector; what its own threads do beside them is
    // not their time.
    stats.totalCollectionTime = nsecs(now.pauseTotalNs + now.assistTotalNs);
    stats.maxCollectionTime = stats.maxPauseTime;
    return stats;
}

private Statistics read()
{
    Statistics now;
    neap_statistics_read(&now, now.sizeof);
    return now;
}

/// Prints it to standard output; from 2 on also what only this collector knows.
void printProfile(int level)
{
    const stats = collections(), now = read();
    printf("\tNumber of collections:  %llu\n", cast(ulong) stats.numCollections);
    printf("\tTotal GC pause time:  %lld microseconds\n", stats.totalPauseTime.total!"usecs");
    printf("\tMax Pause Time:  %lld microseconds\n", stats.maxPauseTime.total!"usecs");
    printf("\tTotal GC time beside pauses:  %llu microseconds\n", now.assistTotalNs / 1000);
    printf("\tPeak heap:  %llu KB\n", now.peakBytes >> 10);
    if (level < 2)
        return;
    printf("\tPauses:  %llu, half of them at most %llu, 99 %% at most %llu microseconds\n",
        now.pauseCount, now.pauseP50Ns / 1000, now.pauseP99Ns / 1000);
    printf("\tAllocated:  %llu objects, %llu KB\n", now.allocatedObjects, now.allocatedBytes >> 10);
}
