// WeakStress THREADS THOUSANDS: the loop of programs/weak-stress.c with GCHandle: threads make objects with weak handles, keep the last hundred, and drop the rest; every handle is read
// again and freed a while later.
//
// Prints the same line of JSON. Invariant: a kept object's handle gives it, a dropped one's gives it or null, or the program says that it is not ok.
using System;
using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Threading;

sealed class Item
{
    public long Number;
    public Item Other = null;
}

static class WeakStress
{
    const int Kept = 100, Later = 10000;
    static long wrong, died;

    static int Main(string[] arguments)
    {
        int threads = int.Parse(arguments[0]);
        long turns = long.Parse(arguments[1]) * 1000;
        var all = new Thread[threads];
        var watch = Stopwatch.StartNew();
        for (int i = 0; i < threads; i++) {
            all[i] = new Thread(() => Run(turns));
            all[i].Start();
        }
        foreach (var thread in all)
            thread.Join();
        double seconds = watch.Elapsed.TotalSeconds;
        bool ok = wrong == 0 && died > 0;
        Console.WriteLine("{{\"program\":\"weak-stress\",\"threads\":{0},\"died\":{1},\"loop_seconds\":{2:F3},\"library_version\":\"{3}\",\"ok\":{4}}}",
            threads, died, seconds, Peer.Version(), ok ? "true" : "false");
        return ok ? 0 : 1;
    }

    static void Run(long turns)
    {
        var kept = new Item[Kept];
        var handles = new GCHandle[Later];
        long bad = 0, gone = 0;
        for (long turn = 0; turn < turns + Later; turn++) {
            var old = handles[turn % Later];
            if (old.IsAllocated) {
                var item = (Item)old.Target;
                if (item == null)
                    gone++;
                else if (item.Number != turn - Later)
                    bad++;
                old.Free();
                handles[turn % Later] = default(GCHandle);
            }
            if (turn < turns) {
                var item = new Item { Number = turn };
                handles[turn % Later] = GCHandle.Alloc(item, GCHandleType.Weak);
                kept[turn % Kept] = item;
                if (turn >= Kept && !ReferenceEquals(handles[(turn - Kept + 1) % Later].Target, kept[(turn + 1) % Kept]))
                    bad++;
            }
        }
        Interlocked.Add(ref wrong, bad);
        Interlocked.Add(ref died, gone);
        GC.KeepAlive(kept);
    }
}
