/// huge_single [MEBIBYTES]: makes one block without pointers of MEBIBYTES (1,000), and collects.
///
/// The block has to be there afterwards, as large as it was asked for.
module huge_single;

import core.memory : GC;
import report;
import std.conv : to;

int main(string[] arguments)
{
    const bytes = (arguments.length > 1 ? arguments[1].to!size_t : 1_000) << 20;
    auto block = GC.malloc(bytes, GC.BlkAttr.NO_SCAN);
    GC.collect();
    return report.report(GC.sizeOf(block) >= bytes && GC.addrOf(block + bytes - 1) is block);
}
