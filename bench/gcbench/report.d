/// What every program of this folder says of its run: one line with the time of the work, peak
/// memory, and what the collector counted: collections, all pauses, the longest, and what the
/// program's threads spent in the collector beside them.
///
/// Called once, at the end of `main`. The collection that druntime makes at exit comes after it and
/// is not in the figures.
module report;

import core.memory : GC;
import core.time : MonoTime;
import std.algorithm : startsWith;
import std.array : split;
import std.stdio : File, stderr, writefln;

private __gshared MonoTime began;

shared static this()
{
    beginWork();
}

/// The work begins, or begins only now.
void beginWork()
{
    began = MonoTime.currTime;
}

/// Prints the line, then looks whether the result is right. Gives the status of the program: 0 if
/// it is.
int report(lazy bool isRight)
{
    const seconds = (MonoTime.currTime - began).total!"usecs" / 1e6;
    const stats = GC.profileStats;
    string peak = "0";
    foreach (line; File("/proc/self/status").byLineCopy)
        if (line.startsWith("VmHWM:"))
            peak = line.split[1];
    const beside = stats.totalCollectionTime - stats.totalPauseTime;
    writefln("%.4f %s %d %.3f %.3f %.3f", seconds, peak, stats.numCollections,
        stats.totalPauseTime.total!"usecs" / 1e3,
        stats.maxPauseTime.total!"usecs" / 1e3, beside.total!"usecs" / 1e3);
    if (isRight)
        return 0;
    stderr.writeln("the result is wrong");
    return 1;
}

/// Sizes and places to choose: the same in every run, and quick beside an allocation.
struct Chooser
{
    private ulong state = 0x9e37_79b9_7f4a_7c15;

    /// From `low` up to, not including, `high`.
    size_t between(size_t low, size_t high) @nogc nothrow
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return low + (state >> 11) % (high - low);
    }
}
