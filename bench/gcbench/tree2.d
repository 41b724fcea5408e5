/// tree2 [INSERTIONS [SIZE]]: a red-black tree that keeps the last SIZE (100) numbers of INSERTIONS
/// (7,000,000) that are put into it, the smallest taken out before each.
module tree2;

import report;
import std.algorithm : equal;
import std.container.rbtree : redBlackTree;
import std.conv : to;
import std.range : iota;

int main(string[] arguments)
{
    const insertions = arguments.length > 1 ? arguments[1].to!int : 7_000_000;
    const size = arguments.length > 2 ? arguments[2].to!int : 100;
    auto numbers = redBlackTree!int();
    foreach (number; 0 .. insertions)
    {
        if (number > size)
            numbers.removeFront();
        numbers.insert(number);
    }
    return report.report(numbers[].equal(iota(insertions - size - 1, insertions)));
}
