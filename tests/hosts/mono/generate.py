#!/usr/bin/env python3
# Prints a C# program of about 2,000 lines for mcs to compile: classes that inherit, interfaces,
# generics, structures with operators, lambdas, queries, iterators, async methods, switches,
# exceptions, anonymous types. The program prints a line for each of its parts.
# Invariant: the same text every time.
import argparse

PART = """
interface IShape{n} {{
    double Area {{ get; }}
    string Name();
}}

abstract class Shape{n} : IShape{n}, IComparable<Shape{n}> {{
    protected readonly int number;
    protected Shape{n}(int number) {{ this.number = number; }}
    public abstract double Area {{ get; }}
    public virtual string Name() {{ return "shape {n}." + number; }}
    public int CompareTo(Shape{n} other) {{ return Area.CompareTo(other.Area); }}
}}

sealed class Square{n} : Shape{n} {{
    public Square{n}(int number) : base(number) {{ }}
    public override double Area {{ get {{ return number * number + {n}; }} }}
}}

class Circle{n} : Shape{n} {{
    public Circle{n}(int number) : base(number) {{ }}
    public override double Area {{ get {{ return 3 * number * number; }} }}
    public override string Name() {{ return "circle of " + base.Name(); }}
}}

struct Vector{n} : IEquatable<Vector{n}> {{
    public readonly long x, y;
    public Vector{n}(long x, long y) {{ this.x = x; this.y = y; }}
    public static Vector{n} operator +(Vector{n} a, Vector{n} b) {{
        return new Vector{n}(a.x + b.x, a.y + b.y);
    }}
    public static Vector{n} operator *(Vector{n} a, int k) {{
        return new Vector{n}(a.x * k % 1009, a.y * k % 1009);
    }}
    public static bool operator ==(Vector{n} a, Vector{n} b) {{ return a.Equals(b); }}
    public static bool operator !=(Vector{n} a, Vector{n} b) {{ return !a.Equals(b); }}
    public bool Equals(Vector{n} other) {{ return x == other.x && y == other.y; }}
    public override bool Equals(object other) {{
        return other is Vector{n} && Equals((Vector{n})other);
    }}
    public override int GetHashCode() {{ return (int)(x * 31 + y); }}
    public override string ToString() {{ return string.Format("({{0}}, {{1}})", x, y); }}
}}

class Stack{n}<T> : IEnumerable<T> where T : IComparable<T> {{
    class Link {{ public T value; public Link below; }}
    Link top;
    public int Count {{ get; private set; }}
    public void Push(T value) {{ top = new Link {{ value = value, below = top }}; Count++; }}
    public T Pop() {{
        if (top == null) throw new InvalidOperationException("empty {n}");
        T value = top.value;
        top = top.below;
        Count--;
        return value;
    }}
    public T Largest() {{
        T largest = top.value;
        foreach (T value in this) if (value.CompareTo(largest) > 0) largest = value;
        return largest;
    }}
    public IEnumerator<T> GetEnumerator() {{
        for (Link link = top; link != null; link = link.below) yield return link.value;
    }}
    IEnumerator IEnumerable.GetEnumerator() {{ return GetEnumerator(); }}
}}

static class Part{n} {{
    enum Colour {{ Red = {n}, Green, Blue }}
    delegate int Step(int number);
    static event Action<string> Said;

    static IEnumerable<int> Numbers(int count) {{
        int a = {n}, b = 1;
        for (int i = 0; i < count; i++) {{
            yield return a;
            int next = (a + b) % 997;
            a = b;
            b = next;
        }}
    }}

    static string Describe(int number) {{
        switch (number % 5) {{
        case 0: return "five times " + number / 5;
        case 1:
        case 2: return Colour.Green + " or " + (Colour)(number % 3 + {n});
        default: return number > {n} ? "large" : "small";
        }}
    }}

    static async Task<int> Later(int depth) {{
        if (depth == 0) return {n};
        int inner = await Later(depth - 1);
        return inner * 3 % 1009 + depth;
    }}

    static int Guarded(Stack{n}<int> stack) {{
        int tries = 0;
        try {{
            for (;;) {{ stack.Pop(); tries++; }}
        }} catch (InvalidOperationException exception) {{
            return tries + exception.Message.Length;
        }} finally {{
            stack.Push(tries);
        }}
    }}

    public static void Run() {{
        var shapes = new List<Shape{n}>();
        for (int i = 1; i <= 12; i++)
            shapes.Add(i % 2 == 0 ? (Shape{n})new Square{n}(i) : new Circle{n}(i));
        shapes.Sort();
        var query = from shape in shapes
                    where shape.Area > {n}
                    group shape by shape is Circle{n} into kind
                    orderby kind.Key
                    select new {{ Round = kind.Key, Total = kind.Sum(one => one.Area) }};
        var total = new Vector{n}(1, {n});
        foreach (int number in Numbers(40)) total = (total + new Vector{n}(number, 1)) * 7;
        var stack = new Stack{n}<int>();
        foreach (int number in Numbers(25).Where(one => one % 3 != 0)) stack.Push(number);
        int captured = {n};
        Step step = number => number * 2 + captured++;
        Func<int, Func<int, int>> add = a => b => a + b + captured;
        string said = "";
        Said += text => said += text[0];
        foreach (var shape in shapes) Said(shape.Name());
        Console.WriteLine("{n}: {{0}} {{1}} {{2}} {{3}}",
            shapes[0].Name(), total, stack.Largest(), said);
        var totals = query.Select(one => one.Round + " " + one.Total);
        Console.WriteLine(string.Join("; ", totals.ToArray()));
        Console.WriteLine("{{0}} {{1}} {{2}}", step(3) + add(1)(2), Later(9).Result, Guarded(stack));
        Console.WriteLine(string.Join(", ", Enumerable.Range({n}, 6).Select(Describe).ToArray()));
    }}
}}
"""

HEAD = """// Made by generate.py.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Linq;
using System.Threading.Tasks;
"""


def program(parts):
    calls = "".join(f"        Part{n}.Run();\n" for n in range(parts))
    main = "\nclass Program {\n    static void Main() {\n" + calls + "    }\n}\n"
    return HEAD + "".join(PART.format(n=n) for n in range(parts)) + main


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prints a C# program for mcs to compile.")
    parser.add_argument("--parts", type=int, default=15, help="about 135 lines each")
    print(program(parser.parse_args().parts), end="")
