/// rand_small [ROUNDS]: keeps 4096 blocks without pointers, of 8 to 2047 bytes each, and replaces
/// all of them ROUNDS times (10,000). The blocks are not written to.
///
/// At the end every block has to have its size, and none may lie over another.
module rand_small;

import core.memory : GC;
import report;
import std.algorithm : sort;
import std.conv : to;

int main(string[] arguments)
{
    const rounds = arguments.length > 1 ? arguments[1].to!size_t : 10_000;
    auto blocks = new void*[4096];
    auto sizes = new size_t[4096];
    Chooser chooser;
    foreach (round; 0 .. rounds)
        foreach (index, ref block; blocks)
        {
            sizes[index] = chooser.between(8, 2048);
            block = GC.malloc(sizes[index], GC.BlkAttr.NO_SCAN);
        }
    bool isRight = true;
    foreach (index, block; blocks)
        isRight &= GC.sizeOf(block) >= sizes[index];
    blocks.sort();
    foreach (index; 1 .. blocks.length)
        isRight &= blocks[index - 1] + GC.sizeOf(blocks[index - 1]) <= blocks[index];
    return report.report(isRight);
}
