// The smallest program: what a runtime needs to start, print and end.
using System;

class Hello {
    static void Main() {
        Console.WriteLine("hello");
    }
}
