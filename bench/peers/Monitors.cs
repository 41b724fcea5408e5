// Monitors THREADS MILLIONS: the loop of programs/monitors.c with lock: all threads enter and leave the monitor of one object, and count in it.
//
// Prints the same line of JSON. Invariant: nothing is counted twice or lost, or the program says that it is not ok.
using System;
using System.Diagnostics;
using System.Threading;

sealed class Counter
{
    public long Count;
}

static class Monitors
{
    static readonly Counter counter = new Counter();

    static int Main(string[] arguments)
    {
        int threads = int.Parse(arguments[0]);
        long turns = long.Parse(arguments[1]) * 1000000;
        var all = new Thread[threads];
        var watch = Stopwatch.StartNew();
        for (int i = 0; i < threads; i++) {
            all[i] = new Thread(() => Run(turns));
            all[i].Start();
        }
        foreach (var thread in all)
            thread.Join();
        double seconds = watch.Elapsed.TotalSeconds;
        bool ok = counter.Count == threads * turns;
        Console.WriteLine("{{\"program\":\"monitors\",\"threads\":{0},\"millions_per_second\":{1:F3},\"seconds\":{2:F3},\"library_version\":\"{3}\",\"ok\":{4}}}",
            threads, threads * turns / seconds * 1e-6, seconds, Peer.Version(), ok ? "true" : "false");
        return ok ? 0 : 1;
    }

    static void Run(long turns)
    {
        var own = counter;
        for (long turn = 0; turn < turns; turn++)
            lock (own)
                own.Count++;
    }
}
