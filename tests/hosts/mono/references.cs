// Weak references short and long, GC handles of each kind, pinned memory, and tables with weak keys.
// The stack is scanned conservatively, so one object in ten may stay.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

class Thing {
    public readonly int number;
    public readonly string text;
    public Thing(int number) { this.number = number; text = "thing " + number; }
}

class Finalized {
    public static int times;
    ~Finalized() { Interlocked.Increment(ref times); }
}

class References {
    const int Objects = 2000;

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

    static string Most(int count) {
        return count >= Objects * 9 / 10 && count <= Objects ? "most" : count + " of " + Objects;
    }

    static void Weak() {
        var weak = new WeakReference[2 * Objects];
        var kept = new Thing[Objects];
        Apart(() => {
            for (int i = 0; i < weak.Length; i++) {
                var thing = new Thing(i);
                weak[i] = new WeakReference(thing);
                if (i % 2 == 0) kept[i / 2] = thing;
            }
        });
        Collect();
        int cleared = 0, wrong = 0;
        for (int i = 0; i < weak.Length; i++) {
            var thing = (Thing)weak[i].Target;
            if (i % 2 == 1) { if (thing == null) cleared++; }
            else if (thing != kept[i / 2] || thing.text != "thing " + i) wrong++;
        }
        Console.WriteLine("weak references: {0} cleared, {1} wrong", Most(cleared), wrong);
    }

    static void Long() {
        var brief = new WeakReference[Objects];
        var lasting = new WeakReference[Objects];
        var finalizedBefore = Finalized.times;
        Apart(() => {
            for (int i = 0; i < Objects; i++) {
                var one = new Finalized();
                brief[i] = new WeakReference(one, false);
                lasting[i] = new WeakReference(one, true);
            }
        });
        Collect();
        int gone = 0, goneLater = 0;
        for (int i = 0; i < Objects; i++) {
            if (!brief[i].IsAlive) gone++;
            if (!lasting[i].IsAlive) goneLater++;
        }
        Console.WriteLine("of finalized objects: {0} short, {1} long cleared, {2} finalized",
            Most(gone), Most(goneLater), Most(Finalized.times - finalizedBefore));
    }

    static void Handles() {
        var normal = new GCHandle[Objects];
        var weak = new GCHandle[Objects];
        var tracking = new GCHandle[Objects];
        Apart(() => {
            for (int i = 0; i < Objects; i++) {
                var thing = new Thing(i);
                normal[i] = GCHandle.Alloc(thing);
                weak[i] = GCHandle.Alloc(thing, GCHandleType.Weak);
                tracking[i] = GCHandle.Alloc(thing, GCHandleType.WeakTrackResurrection);
            }
        });
        Collect();
        int sound = 0;
        Apart(() => {
            for (int i = 0; i < Objects; i++) {
                var thing = (Thing)normal[i].Target;
                if (thing.text == "thing " + i && weak[i].Target == thing && tracking[i].Target == thing) sound++;
            }
        });
        Console.WriteLine("handles: {0} of {1} sound", sound, Objects);
        for (int i = 0; i < Objects; i++) normal[i].Free();
        Collect();
        int cleared = 0, clearedTracking = 0;
        for (int i = 0; i < Objects; i++) {
            if (weak[i].Target == null) cleared++;
            if (tracking[i].Target == null) clearedTracking++;
            weak[i].Free();
            tracking[i].Free();
        }
        Console.WriteLine("freed: {0} weak, {1} tracking cleared", Most(cleared), Most(clearedTracking));
    }

    static unsafe void Pinned() {
        var handles = new List<GCHandle>();
        var addresses = new List<IntPtr>();
        Apart(() => {
            for (int i = 0; i < 200; i++) {
                var bytes = new byte[100 + i * 50];
                for (int j = 0; j < bytes.Length; j++) bytes[j] = (byte)(i + j);
                var handle = GCHandle.Alloc(bytes, GCHandleType.Pinned);
                handles.Add(handle);
                addresses.Add(handle.AddrOfPinnedObject());
            }
        });
        for (int i = 0; i < 100000; i++) new Thing(i);
        Collect();
        bool sound = true;
        for (int i = 0; i < handles.Count; i++) {
            sound &= handles[i].AddrOfPinnedObject() == addresses[i];
            byte* bytes = (byte*)addresses[i];
            for (int j = 0; j < 100 + i * 50; j++) sound &= bytes[j] == (byte)(i + j);
            handles[i].Free();
        }
        Console.WriteLine("pinned memory is where and what it was: {0}", sound);
    }

    static void Tables() {
        var table = new ConditionalWeakTable<Thing, string>();
        var keys = new List<Thing>();
        for (int i = 0; i < Objects; i++) {
            var key = new Thing(i);
            keys.Add(key);
            table.Add(key, "value " + i);
            table.GetOrCreateValueSafe(new Thing(-i));
        }
        Collect();
        int found = 0;
        for (int i = 0; i < Objects; i++) {
            string value;
            if (table.TryGetValue(keys[i], out value) && value == "value " + i) found++;
        }
        Console.WriteLine("weak keys found: {0} of {1}", found, Objects);
    }

    static void Main() {
        Weak();
        Long();
        Handles();
        Pinned();
        Tables();
    }
}

static class Extension {
    public static string GetOrCreateValueSafe(this ConditionalWeakTable<Thing, string> table, Thing key) {
        return table.GetValue(key, one => "made for " + one.number);
    }
}
