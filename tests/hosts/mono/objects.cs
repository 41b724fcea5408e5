// Objects of all layouts while collections run: strings, boxes, closures, iterators, generics, arrays
// of structures that hold references, arrays of several dimensions, exceptions, reflection, regular
// expressions and large arrays. What it prints is computed from all of them.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Text;
using System.Text.RegularExpressions;

struct Pair {
    public int number;
    public string text;
    public object boxed;
    public Pair(int number) { this.number = number; text = "pair " + number; boxed = number; }
    public bool IsSound { get { return text == "pair " + number && (int)boxed == number; } }
}

struct Wide {
    public long a;
    public Pair first;
    public double b;
    public Pair second;
}

class Bank<T> where T : class {
    static readonly Dictionary<string, T> all = new Dictionary<string, T>();
    public static void Put(string name, T one) { all[name] = one; }
    public static T Get(string name) { return all[name]; }
    public static int Count { get { return all.Count; } }
}

class Objects {
    delegate int Step(int number);

    static IEnumerable<string> Words(int count) {
        for (int i = 0; i < count; i++) yield return "w" + i % 97 + new string('x', i % 5);
    }

    static int Fail(int depth) {
        var kept = new StringBuilder("depth " + depth);
        try {
            if (depth == 0) throw new ArgumentException("bottom", "depth");
            return Fail(depth - 1) + kept.Length;
        } finally {
            if (kept.ToString() != "depth " + depth) Console.WriteLine("lost {0}", depth);
        }
    }

    static void Structures() {
        var pairs = new Pair[20000];
        var wide = new Wide[5000];
        var grid = new Pair[50, 40];
        var jagged = new object[300][];
        for (int i = 0; i < pairs.Length; i++) pairs[i] = new Pair(i);
        for (int i = 0; i < wide.Length; i++) wide[i] = new Wide { a = i, first = new Pair(i), b = i, second = new Pair(-i) };
        for (int i = 0; i < 50; i++) for (int j = 0; j < 40; j++) grid[i, j] = new Pair(i * 40 + j);
        for (int i = 0; i < jagged.Length; i++) {
            jagged[i] = new object[i + 1];
            for (int j = 0; j <= i; j++) jagged[i][j] = j % 2 == 0 ? (object)new Pair(j) : j.ToString();
        }
        GC.Collect();
        int sound = pairs.Count(pair => pair.IsSound) + wide.Count(one => one.first.IsSound && one.second.IsSound);
        foreach (var pair in grid) if (pair.IsSound) sound++;
        foreach (var row in jagged) foreach (var one in row) if (one is string || ((Pair)one).IsSound) sound++;
        Console.WriteLine("structures: {0} sound", sound);
    }

    static void Text() {
        var builder = new StringBuilder();
        foreach (var word in Words(20000)) builder.Append(word).Append(' ');
        var counts = Regex.Matches(builder.ToString(), "w([0-9]+)(x*)").Cast<Match>()
            .GroupBy(match => match.Groups[1].Value)
            .OrderByDescending(group => group.Sum(match => match.Groups[2].Length))
            .ThenBy(group => group.Key).Take(3)
            .Select(group => group.Key + ":" + group.Count());
        Console.WriteLine("text: {0}", string.Join(" ", counts.ToArray()));
        Console.WriteLine("interned: {0}", object.ReferenceEquals(string.Intern("in" + "terned".Substring(0)), string.Intern("interned")));
    }

    static void Closures() {
        var steps = new List<Step>();
        for (int i = 0; i < 5000; i++) {
            int captured = i;
            var box = new object[] { captured, "text" };
            steps.Add(number => number + (int)box[0] % 7 + captured % 3);
        }
        int sum = 0;
        for (int round = 0; round < 20; round++) foreach (var step in steps) sum = step(sum) % 1000003;
        Action all = null;
        for (int i = 0; i < 500; i++) { var one = new int[] { i }; all += () => sum += one[0]; }
        all();
        Console.WriteLine("closures: {0}", sum);
    }

    static void Generics() {
        for (int i = 0; i < 3000; i++) {
            Bank<string>.Put("s" + i, "string " + i);
            Bank<object>.Put("o" + i, i);
            Bank<List<Pair>>.Put("l" + i % 100, new List<Pair> { new Pair(i), new Pair(i + 1) });
        }
        GC.Collect();
        bool sound = Enumerable.Range(0, 3000).All(i => Bank<string>.Get("s" + i) == "string " + i && (int)Bank<object>.Get("o" + i) == i)
            && Enumerable.Range(0, 100).All(i => Bank<List<Pair>>.Get("l" + i).All(pair => pair.IsSound));
        Console.WriteLine("generics: {0} {1}", sound, Bank<List<Pair>>.Count);
    }

    static void Errors() {
        int caught = 0;
        for (int i = 0; i < 300; i++) {
            try {
                Fail(i % 40);
            } catch (ArgumentException exception) {
                if (exception.ParamName == "depth" && exception.StackTrace.Contains("Fail")) caught++;
            }
        }
        Console.WriteLine("exceptions: {0}", caught);
    }

    static void Reflection() {
        int members = 0;
        foreach (var type in typeof(string).Assembly.GetTypes().Where(type => type.Namespace == "System.Collections"))
            members += type.GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly).Length > 0 ? 1 : 0;
        var method = typeof(Objects).GetMethod("Fail", BindingFlags.NonPublic | BindingFlags.Static);
        int inner = 0;
        for (int i = 0; i < 200; i++) {
            try {
                method.Invoke(null, new object[] { 3 });
            } catch (TargetInvocationException exception) {
                if (exception.InnerException is ArgumentException) inner++;
            }
        }
        Console.WriteLine("reflection: {0} {1}", members > 10, inner);
    }

    static void Large() {
        long sum = 0;
        object[] last = null;
        for (int i = 0; i < 60; i++) {
            var array = new object[100000 + i];
            array[0] = last;
            array[array.Length - 1] = new Pair(i);
            if (last != null) last[0] = null;
            last = array;
            sum += ((Pair)array[array.Length - 1]).number;
            var numbers = new double[200000];
            numbers[i] = i;
            sum += (long)numbers[i];
        }
        Console.WriteLine("large arrays: {0} {1}", sum, ((Pair)last[last.Length - 1]).IsSound);
    }

    static void Main() {
        Structures();
        Text();
        Closures();
        Generics();
        Errors();
        Reflection();
        Large();
        var table = new Hashtable();
        for (int i = 0; i < 50000; i++) table[i] = new ArrayList { i, "i" + i };
        Console.WriteLine("hashtable: {0}", ((ArrayList)table[41234])[1]);
    }
}
