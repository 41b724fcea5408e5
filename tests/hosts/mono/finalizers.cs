// Finalizers: run once, after the object died and never before; suppressed, asked for again,
// objects that come back to life, and finalizers that allocate and reach other dead objects.
// The stack is scanned conservatively, so one object in ten may stay.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;

class Counted {
    public static int finalized, wrong;
    readonly int number;
    readonly int[] payload;
    readonly Counted next;

    public Counted(int number, Counted next) {
        this.number = number;
        this.next = next;
        payload = new int[8];
        for (int i = 0; i < payload.Length; i++) payload[i] = number + i;
    }

    bool IsSound() {
        for (int i = 0; i < payload.Length; i++) if (payload[i] != number + i) return false;
        return true;
    }

    ~Counted() {
        // What a dead object points to is still there when its finalizer runs.
        if (!IsSound() || (next != null && !next.IsSound())) Interlocked.Increment(ref wrong);
        Interlocked.Increment(ref finalized);
    }
}

class Suppressed {
    public static int finalized;
    ~Suppressed() { Interlocked.Increment(ref finalized); }
}

class Phoenix {
    public static List<Phoenix> back = new List<Phoenix>();
    public static int finalized;
    public readonly string name;
    public Phoenix(string name) { this.name = name; }

    ~Phoenix() {
        int times = Interlocked.Increment(ref finalized);
        if (times > 2000) return;
        lock (back) back.Add(this);
        GC.ReRegisterForFinalize(this);
    }
}

class Allocating {
    public static int finalized;
    public static object last;

    ~Allocating() {
        var list = new List<string>();
        for (int i = 0; i < 50; i++) list.Add("number " + i);
        last = list;
        if (list[49] == "number 49") Interlocked.Increment(ref finalized);
    }
}

class Finalizers {
    const int Objects = 2000;
    static Counted kept;

    // Each in a thread of its own: what its frames held goes with its stack.
    static void Apart(Action action) {
        var thread = new Thread(() => action());
        thread.Start();
        thread.Join();
    }

    static void Collect() {
        for (int i = 0; i < 4; i++) {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
    }

    static string Most(int count, int of) {
        return count >= of * 9 / 10 && count <= of ? "most" : count + " of " + of;
    }

    static void Main() {
        Apart(() => { for (int i = 0; i < Objects; i++) new Counted(i, new Counted(i + 7, null)); });
        Apart(() => { kept = new Counted(1000000, null); });
        Collect();
        Console.WriteLine("finalized: {0}, wrong: {1}", Most(Counted.finalized, 2 * Objects), Counted.wrong);
        Console.WriteLine("the kept one is there: {0}", kept != null);

        Apart(() => {
            for (int i = 0; i < Objects; i++) GC.SuppressFinalize(new Suppressed());
        });
        Collect();
        Console.WriteLine("suppressed ones finalized: {0}", Suppressed.finalized);

        Apart(() => { for (int i = 0; i < Objects; i++) new Phoenix("phoenix " + i); });
        Collect();
        int back;
        lock (Phoenix.back) {
            back = Phoenix.back.Count;
            foreach (var one in Phoenix.back) if (!one.name.StartsWith("phoenix ")) back = -1;
        }
        Console.WriteLine("came back: {0}", Most(back, Objects));
        Apart(() => { lock (Phoenix.back) Phoenix.back.Clear(); });
        Collect();
        Console.WriteLine("finalized again: {0}", Phoenix.finalized > back);

        Apart(() => { for (int i = 0; i < Objects; i++) new Allocating(); });
        Collect();
        Console.WriteLine("finalizers that allocate: {0}", Most(Allocating.finalized, Objects));
        GC.KeepAlive(kept);
    }
}
