/// testgc3 [TIMES [LENGTH]]: 10,000 tables of numbers, each filled with LENGTH (200) of them in
/// turn, made TIMES times (4).
///
/// At each end the numbers in one of the tables have to be those that belong there.
module testgc3;

import report;
import std.algorithm : sum;
import std.conv : to;

enum size_t tables = 10_000, chosen = 4_711;

int main(string[] arguments)
{
    const times = arguments.length > 1 ? arguments[1].to!size_t : 4;
    const length = arguments.length > 2 ? arguments[2].to!size_t : 200;
    // Numbers that leave the remainder `chosen`.
    const wanted = length * chosen + tables * (length * (length - 1) / 2);
    bool isRight = true;
    foreach (time; 0 .. times)
    {
        auto all = new uint[uint][tables];
        foreach (uint number; 0 .. cast(uint)(length * tables))
            all[number % tables][number] = number;
        isRight &= all[chosen].length == length && all[chosen].byValue.sum(0UL) == wanted;
        // No table lives on because something looks like a pointer to their array.
        all[] = null;
    }
    return report.report(isRight);
}
