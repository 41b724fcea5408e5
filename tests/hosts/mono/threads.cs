// Threads that come and go, wait and allocate while others collect: locks, monitors that wait and
// pulse, thread statics and locals, the pool, tasks, timers, threads that sleep, and an abort.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

class Node {
    public Node next;
    public int value;
    public Node(int value, Node next) { this.value = value; this.next = next; }
}

class Threads {
    [ThreadStatic] static Node mine;
    static readonly ThreadLocal<List<int>> local = new ThreadLocal<List<int>>(() => new List<int>());

    static int Sum(Node list) {
        int sum = 0;
        for (; list != null; list = list.next) sum += list.value;
        return sum;
    }

    static int Allocate(int seed) {
        mine = null;
        for (int i = 0; i < 1000; i++) {
            mine = new Node(i ^ seed, mine);
            local.Value.Add(i);
            for (int j = 0; j < 20; j++) new Node(j, null);
        }
        int sum = Sum(mine) + local.Value.Count;
        mine = null;
        local.Value.Clear();
        return sum;
    }

    static void ComeAndGo() {
        long total = 0;
        for (int round = 0; round < 20; round++) {
            var threads = new Thread[8];
            for (int i = 0; i < threads.Length; i++) {
                int seed = round * 8 + i;
                threads[i] = new Thread(() => Interlocked.Add(ref total, Allocate(seed)));
                threads[i].Start();
            }
            foreach (var thread in threads) thread.Join();
        }
        Console.WriteLine("threads that come and go: {0}", total);
    }

    static void Queue() {
        var queue = new Queue<Node>();
        long sum = 0;
        const int items = 20000, consumers = 3;
        var threads = new List<Thread>();
        for (int i = 0; i < consumers; i++) {
            var thread = new Thread(() => {
                for (;;) {
                    Node node;
                    lock (queue) {
                        while (queue.Count == 0) Monitor.Wait(queue);
                        node = queue.Dequeue();
                        Monitor.Pulse(queue);
                    }
                    if (node.value < 0) return;
                    Interlocked.Add(ref sum, Sum(node));
                }
            });
            thread.Start();
            threads.Add(thread);
        }
        for (int i = 0; i < items + consumers; i++) {
            var node = i < items ? new Node(i, new Node(1, null)) : new Node(-1, null);
            lock (queue) {
                while (queue.Count > 100) Monitor.Wait(queue);
                queue.Enqueue(node);
                Monitor.PulseAll(queue);
            }
        }
        foreach (var thread in threads) thread.Join();
        Console.WriteLine("through a queue: {0}", sum);
    }

    static void Pool() {
        var done = new CountdownEvent(200);
        long total = 0;
        for (int i = 0; i < 200; i++) {
            int seed = i;
            ThreadPool.QueueUserWorkItem(state => {
                Interlocked.Add(ref total, Allocate(seed));
                done.Signal();
            });
        }
        done.Wait();
        var tasks = new List<Task<int>>();
        for (int i = 0; i < 50; i++) {
            int seed = i;
            tasks.Add(Task.Run(() => Allocate(seed)));
        }
        foreach (var task in tasks) total += task.Result;
        Console.WriteLine("the pool and tasks: {0}", total);
    }

    static async Task<int> Nested(int depth) {
        if (depth == 0) return 1;
        await Task.Yield();
        var kept = new Node(depth, null);
        int inner = await Nested(depth - 1);
        return inner + kept.value;
    }

    static void Sleepers() {
        var stop = new ManualResetEvent(false);
        var sleepers = new List<Thread>();
        int sound = 0;
        for (int i = 0; i < 10; i++) {
            int seed = i;
            var thread = new Thread(() => {
                var kept = new Node(seed, new Node(seed * 2, null));
                stop.WaitOne();
                if (kept.value == seed && kept.next.value == seed * 2) Interlocked.Increment(ref sound);
            });
            thread.Start();
            sleepers.Add(thread);
        }
        for (int i = 0; i < 20; i++) {
            Allocate(i);
            GC.Collect();
        }
        stop.Set();
        foreach (var thread in sleepers) thread.Join();
        Console.WriteLine("threads that waited: {0} sound", sound);
    }

    static void Aborted() {
        var started = new ManualResetEvent(false);
        bool caught = false;
        var thread = new Thread(() => {
            try {
                started.Set();
                for (;;) new Node(1, new Node(2, null));
            } catch (ThreadAbortException) {
                caught = true;
            }
        });
        thread.Start();
        started.WaitOne();
        thread.Abort();
        thread.Join();
        Console.WriteLine("aborted: {0}", caught);
    }

    static void Collections() {
        var bag = new ConcurrentDictionary<int, string>();
        Parallel.For(0, 20000, i => { bag[i] = "number " + i; });
        bool sound = bag.Count == 20000;
        for (int i = 0; i < 20000; i++) sound &= bag[i] == "number " + i;
        int ticks = 0;
        int over = 0;
        TimerCallback tick = state => {
            Interlocked.Increment(ref ticks);
            Allocate(1);
            Interlocked.Increment(ref over);
        };
        using (new Timer(tick, null, 0, 1))
            while (Thread.VolatileRead(ref ticks) < 10) Thread.Sleep(1);
        // Mono stops its threads when Main returns, and one that begins a collection just then waits
        // for ever, with Mono's own copy of libgc too.
        int seen;
        do {
            seen = Thread.VolatileRead(ref ticks);
            Thread.Sleep(100);
        } while (seen != Thread.VolatileRead(ref ticks) || seen != Thread.VolatileRead(ref over));
        Console.WriteLine("a dictionary of many threads is sound: {0}; a timer ticked", sound);
    }

    static void Main() {
        ComeAndGo();
        Queue();
        Pool();
        Console.WriteLine("awaited: {0}", Nested(200).Result);
        Sleepers();
        Aborted();
        Collections();
    }
}
