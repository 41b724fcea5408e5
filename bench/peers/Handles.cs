// Handles KIND THREADS MILLIONS: the loop of programs/handles.c with GCHandle: every thread allocates a handle of KIND (weak, strong, pinned) to its object, reads it and frees it.
//
// Prints the same line of JSON. Invariant: every read gives the object, or the program says that it is not ok.
using System;
using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Threading;

static class Handles
{
    static volatile bool wrong;

    static int Main(string[] arguments)
    {
        var type = arguments[0] == "weak" ? GCHandleType.Weak : arguments[0] == "strong" ? GCHandleType.Normal : GCHandleType.Pinned;
        int threads = int.Parse(arguments[1]);
        long turns = long.Parse(arguments[2]) * 1000000;
        var all = new Thread[threads];
        var watch = Stopwatch.StartNew();
        for (int i = 0; i < threads; i++) {
            all[i] = new Thread(() => Run(type, turns));
            all[i].Start();
        }
        foreach (var thread in all)
            thread.Join();
        double seconds = watch.Elapsed.TotalSeconds;
        Console.WriteLine("{{\"program\":\"handles\",\"kind\":\"{0}\",\"threads\":{1},\"millions_per_second\":{2:F3},\"seconds\":{3:F3},\"library_version\":\"{4}\",\"ok\":{5}}}",
            arguments[0], threads, threads * turns / seconds * 1e-6, seconds, Peer.Version(), wrong ? "false" : "true");
        return wrong ? 1 : 0;
    }

    static void Run(GCHandleType type, long turns)
    {
        object item = new byte[8];
        for (long turn = 0; turn < turns; turn++) {
            var handle = GCHandle.Alloc(item, type);
            if (!ReferenceEquals(handle.Target, item))
                wrong = true;
            handle.Free();
        }
    }
}
