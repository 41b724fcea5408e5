/// The summary at exit that `--DRT-gcopt=profile:1` asks for, in the words of druntime's own
/// collector.
///
/// Called once, by the thread that ends the program.
module neap.profile;

import core.memory : GC;
import core.stdc.stdio : printf;
import neap.c;

/// Prints it to standard output; from 2 on also what only this collector knows.
void printProfile(const GC.ProfileStats stats, int level) nothrow @nogc
{
    Statistics now;
    neap_statistics_read(&now, now.sizeof);
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
