/// string [TIMES]: counts the different pieces of the text, which are separated by single spaces,
/// in one table, TIMES times (10).
///
/// Each piece has to be there as often as sorting finds it.
module string_;

import report;
import std.algorithm : group, sort, splitter;
import std.array : array;
import std.conv : to;
import text;

bool agree(const size_t[string] table, string whole, size_t times)
{
    size_t different;
    bool isRight = true;
    foreach (piece; whole.splitter(' ').array.sort.group)
    {
        different++;
        const found = piece[0] in table;
        isRight &= found !is null && *found == piece[1] * times;
    }
    return isRight && table.length == different;
}

int main(string[] arguments)
{
    const times = arguments.length > 1 ? arguments[1].to!size_t : 10;
    const whole = text.text();
    size_t[string] table;
    foreach (time; 0 .. times)
        foreach (piece; whole.splitter(' '))
            ++table[piece];
    return report.report(agree(table, whole, times));
}
