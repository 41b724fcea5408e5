/// trees.d: builds trees and drops them, beside one that stays, and says what the collector did.
/// The program of the tutorial for D: on druntime's collector, or with `--DRT-gcopt=gc:neap`.
module trees;

import core.memory : GC;
import std.stdio : writefln;

class Tree
{
    Tree left, right;

    this(int depth)
    {
        if (depth == 0)
            return;
        left = new Tree(depth - 1);
        right = new Tree(depth - 1);
    }

    int count() const
    {
        return left is null ? 1 : 1 + left.count + right.count;
    }
}

void main()
{
    auto kept = new Tree(18);
    int nodes;
    foreach (_; 0 .. 2000)
        nodes += new Tree(10).count;
    writefln("%s nodes came and went, %s are kept", nodes, kept.count);
    const stats = GC.profileStats();
    writefln("%s collections, the longest stop %s", stats.numCollections, stats.maxPauseTime);
}
