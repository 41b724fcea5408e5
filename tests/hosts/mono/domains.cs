// AppDomains: each with statics of its own, objects called across the border, threads inside, data
// carried by copies, and all of it gone when the domain is unloaded.
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;

[Serializable]
class Parcel {
    public int number;
    public List<string> words = new List<string>();
    public Parcel inner;
}

class Worker : MarshalByRefObject {
    static readonly Dictionary<string, int> counts = new Dictionary<string, int>();
    static GCHandle handle;

    public string Work(int seed) {
        for (int i = 0; i < 20000; i++) {
            string word = "word " + (i * 7 + seed) % 500;
            int count;
            counts.TryGetValue(word, out count);
            counts[word] = count + 1;
        }
        handle = GCHandle.Alloc(counts, GCHandleType.Weak);
        int total = 0;
        foreach (var pair in counts) total += pair.Value;
        return AppDomain.CurrentDomain.FriendlyName + ": " + counts.Count + " words, " + total;
    }

    public int WorkOnThreads() {
        int sum = 0;
        var threads = new List<Thread>();
        for (int i = 0; i < 4; i++) {
            var thread = new Thread(() => {
                var list = new List<object>();
                for (int j = 0; j < 5000; j++) list.Add(j % 2 == 0 ? (object)j : "text " + j);
                Interlocked.Add(ref sum, list.Count);
            });
            thread.Start();
            threads.Add(thread);
        }
        foreach (var thread in threads) thread.Join();
        GC.Collect();
        return sum + ((Dictionary<string, int>)handle.Target).Count;
    }

    public Parcel Wrap(Parcel parcel) {
        return new Parcel { number = parcel.number + 1, inner = parcel, words = { "wrapped in " + AppDomain.CurrentDomain.FriendlyName } };
    }

    public void Fail() {
        throw new InvalidOperationException("from " + AppDomain.CurrentDomain.FriendlyName);
    }
}

class Domains {
    static void Round(int round) {
        var domain = AppDomain.CreateDomain("domain " + round);
        domain.SetData("parcel", new Parcel { number = round });
        var worker = (Worker)domain.CreateInstanceAndUnwrap(typeof(Worker).Assembly.FullName, "Worker");
        Console.WriteLine(worker.Work(round));
        Console.WriteLine("threads inside: {0}", worker.WorkOnThreads());
        var parcel = worker.Wrap(new Parcel { number = round, words = { "one", "two" } });
        GC.Collect();
        Console.WriteLine("parcel {0} {1}: {2} {3}", parcel.number, parcel.words[0], parcel.inner.number, string.Join(" ", parcel.inner.words));
        Console.WriteLine("data: {0}", ((Parcel)domain.GetData("parcel")).number);
        try {
            worker.Fail();
        } catch (InvalidOperationException exception) {
            Console.WriteLine("failed {0}", exception.Message);
        }
        AppDomain.Unload(domain);
        try {
            worker.Work(1);
            Console.WriteLine("the domain is still there");
        } catch (AppDomainUnloadedException) {
            Console.WriteLine("unloaded");
        }
    }

    static void Main() {
        var here = new Worker();
        Console.WriteLine(here.Work(0).Replace(AppDomain.CurrentDomain.FriendlyName, "here"));
        for (int round = 0; round < 6; round++) {
            Round(round);
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        Console.WriteLine(here.Work(1).Replace(AppDomain.CurrentDomain.FriendlyName, "here"));
    }
}
