/// tree1 [DEPTH]: binary trees. One that is deeper than DEPTH (14) by one is made and dropped, one
/// of that depth is kept, and beside it twice as many trees of lesser depth are made as have as
/// many nodes together, from depth 4 up in steps of two.
///
/// Nodes have numbers: what is left of adding and subtracting them is known for every tree.
module tree1;

import report;
import std.conv : to;

enum int least = 4;

final class Node
{
    Node left, right;
    int number;

    this(int number, int depth)
    {
        this.number = number;
        if (depth == 0)
            return;
        left = new Node(2 * number - 1, depth - 1);
        right = new Node(2 * number, depth - 1);
    }

    int total() const
    {
        return left is null ? number : number + left.total - right.total;
    }
}

int main(string[] arguments)
{
    import std.algorithm : max;

    const depth = max(least + 2, arguments.length > 1 ? arguments[1].to!int : 14);
    // A tree whose root has the number n adds up to n - 1.
    bool isRight = new Node(0, depth + 1).total == -1;
    auto kept = new Node(0, depth);
    for (int lower = least; lower <= depth; lower += 2)
        foreach (turn; 1 .. (1 << (depth - lower + least)) + 1)
            isRight &= new Node(turn, lower).total + new Node(-turn, lower).total == -2;
    return report.report(isRight && kept.total == -1);
}
