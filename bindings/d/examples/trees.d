/+ dub.sdl:
    name "trees"
    dependency "neap" path=".."
+/
/// Builds trees and drops them, and says how long the collector stopped the program: with
/// druntime's own collector, and with `--DRT-gcopt=gc:neap`.
module trees;

import core.memory : GC;
import std.stdio : stderr, writefln;

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
    auto kept = new Tree(20);
    int nodes;
    foreach (_; 0 .. 200)
        nodes += new Tree(14).count;
    writefln("%s nodes kept, %s made and dropped", kept.count, nodes);
    const stats = GC.profileStats();
    stderr.writefln("%s collections, the longest stop %s", stats.numCollections, stats.maxPauseTime);
}
