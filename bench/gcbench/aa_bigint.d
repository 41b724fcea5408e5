/// aa_bigint [NUMBERS]: a table from large numbers to how often they were met: NUMBERS (400,000)
/// products of which every tenth is new, each computed anew and looked up.
///
/// The table has to have as many keys as there are products, and the counts have to be those of the
/// numbers that were met.
module aa_bigint;

import report;
import std.bigint : BigInt;
import std.conv : to;

enum size_t turns = 10;

/// More than a word long, and another for each index.
BigInt product(size_t index)
{
    auto number = BigInt(index + 1);
    foreach (factor; 0 .. 3)
        number *= 0x7fff_ffff_ffff_ffe7UL - factor;
    return number;
}

int main(string[] arguments)
{
    const different = (arguments.length > 1 ? arguments[1].to!size_t : 400_000) / turns;
    size_t[BigInt] counts;
    foreach (turn; 0 .. turns)
        foreach (index; 0 .. different)
            counts[product(index)] += index % 3;
    bool isRight = counts.length == different;
    foreach (index; 0 .. different)
    {
        auto count = product(index) in counts;
        isRight &= count !is null && *count == turns * (index % 3);
    }
    return report.report(isRight);
}
