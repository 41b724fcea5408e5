// What a program notices of its collector: it fills a table with so many megabytes of small objects,
// then replaces entries of it, each with some garbage beside, and times every hundred of that.
// Arguments: megabytes that stay alive, millions of replacements.
using System;
using System.Collections.Generic;
using System.Diagnostics;

class Entry {
    public int number;
    public string name;
    public Entry next;
    public Entry(int number, Entry next) {
        this.number = number;
        this.next = next;
        name = "entry " + number;
    }
}

class Pauses {
    static void Main(string[] arguments) {
        // An entry and its name take 88 bytes on 64 bits, or a few more.
        int entries = int.Parse(arguments[0]) * (1000000 / 88);
        long replacements = (long)(double.Parse(arguments[1]) * 1000000);
        var table = new Entry[entries / 4];
        for (int i = 0; i < entries; i++) table[i % table.Length] = new Entry(i, table[i % table.Length]);
        GC.Collect();

        var times = new List<long>((int)(replacements / 100) + 1);
        uint random = 12345;
        long sum = 0;
        var all = Stopwatch.StartNew();
        long before = Stopwatch.GetTimestamp();
        for (long i = 0; i < replacements; i++) {
            random = random * 1664525 + 1013904223;
            int place = (int)(random % (uint)table.Length);
            var tail = table[place].next.next.next;
            table[place] = new Entry(place, new Entry(place + 1, new Entry(place + 2, tail ?? new Entry(0, null))));
            sum += table[place].name.Length;
            if (i % 100 == 99) {
                long now = Stopwatch.GetTimestamp();
                times.Add(now - before);
                before = now;
            }
        }
        double seconds = all.Elapsed.TotalSeconds;
        times.Sort();
        Func<double, double> at = part => times[(int)(part * (times.Count - 1))] * 1000.0 / Stopwatch.Frequency;
        Console.WriteLine("{0:F2} s, a hundred: median {1:F3} ms, 99.9 % within {2:F2}, longest {3:F1}, {4}",
            seconds, at(0.5), at(0.999), at(1), sum > 0);
    }
}
