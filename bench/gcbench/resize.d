/// resize [TURNS]: a table of numbers below 16,384 grows and shrinks TURNS times (256) to lengths
/// that are chosen at random, from 512 on, by keys chosen at random.
///
/// At the end it has to hold those keys that an array of flags says it does.
module resize;

import report;
import std.algorithm : count;
import std.conv : to;

enum size_t least = 512, most = 16_384;

bool agree(const bool[uint] table, ref const bool[most] flags)
{
    size_t wrong;
    foreach (uint key, flag; flags)
        wrong += ((key in table) !is null) != flag;
    return wrong == 0 && table.length == flags[].count(true);
}

int main(string[] arguments)
{
    const turns = arguments.length > 1 ? arguments[1].to!size_t : 256;
    bool[uint] table;
    bool[most] flags;
    Chooser chooser;
    size_t wanted = least;
    foreach (turn; 0 .. turns)
    {
        while (table.length < wanted)
        {
            const key = cast(uint) chooser.between(0, most);
            if (key in table)
                continue;
            table[key] = true;
            flags[key] = true;
        }
        while (table.length > wanted)
        {
            const key = cast(uint) chooser.between(0, most);
            if (key !in table)
                continue;
            table.remove(key);
            flags[key] = false;
        }
        wanted = chooser.between(least, most);
    }
    return report.report(agree(table, flags));
}
