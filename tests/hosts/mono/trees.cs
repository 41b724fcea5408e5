// Complete binary trees that are built and dropped while a large one lives on. Argument: the depth.
using System;

class Tree {
    readonly Tree left, right;

    public Tree(int depth) {
        if (depth == 0) return;
        left = new Tree(depth - 1);
        right = new Tree(depth - 1);
    }

    public int Count() {
        return left == null ? 1 : 1 + left.Count() + right.Count();
    }
}

class Trees {
    static void Main(string[] arguments) {
        int deepest = int.Parse(arguments[0]);
        var longLived = new Tree(deepest);
        for (int depth = 4; depth <= deepest; depth += 2) {
            int trees = 1 << (deepest - depth + 4), nodes = 0;
            for (int i = 0; i < trees; i++) nodes += new Tree(depth).Count();
            Console.WriteLine("{0} trees of depth {1}: {2} nodes", trees, depth, nodes);
        }
        Console.WriteLine("the long-lived one: {0} nodes", longLived.Count());
    }
}
