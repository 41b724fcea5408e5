/// bulk [SIZE]: fills tables with SIZE (65,536) numbers as keys, from the least up and from the
/// greatest down, next to each other and seven apart, for values of six sizes. Each table is
/// dropped when it is full.
///
/// Every table has to be as long as it was filled, and hold a sample of its keys.
module bulk;

import report;
import std.conv : to;
import std.meta : AliasSeq;

bool isRight = true;

void look(Value)(ref Value[size_t] table, size_t size, size_t apart)
{
    isRight &= table.length == size;
    for (size_t key; key < size; key += 61)
        isRight &= (key * apart in table) !is null;
    table.destroy();
}

void fill(Value)(size_t size)
{
    Value value;
    foreach (apart; [1, 7])
    {
        Value[size_t] up, down;
        foreach (key; 0 .. size)
            up[key * apart] = value;
        look(up, size, apart);
        foreach_reverse (key; 0 .. size)
            down[key * apart] = value;
        look(down, size, apart);
    }
}

int main(string[] arguments)
{
    const size = arguments.length > 1 ? arguments[1].to!size_t : 65_536;
    static foreach (Value; AliasSeq!(void[0], uint, void*, Object, ubyte[16], ubyte[64]))
        fill!Value(size);
    return report.report(isRight);
}
