/// aa_cache [LOOKS]: a table of 400,000 entries, more than a processor's caches hold, in which
/// LOOKS (4,000,000) keys are looked up at random places; every eighth entry that is found is
/// removed, and another put in.
///
/// There have to be as many entries at the end, and of each what belongs to its key.
module aa_cache;

import report;
import std.conv : to;

enum size_t entries = 400_000, removed = 8;

struct Entry
{
    ulong key;
    ulong[3] more;
}

ulong of(ulong key)
{
    return key * 0x9e37_79b9_7f4a_7c15;
}

int main(string[] arguments)
{
    const looks = arguments.length > 1 ? arguments[1].to!size_t : 4_000_000;
    Entry*[ulong] table;
    auto keys = new ulong[entries];
    ulong next;
    Entry* fresh(size_t place)
    {
        keys[place] = of(next);
        return new Entry(next++);
    }

    foreach (place; 0 .. entries)
    {
        auto entry = fresh(place);
        table[of(entry.key)] = entry;
    }
    Chooser chooser;
    bool isRight = true;
    foreach (look; 0 .. looks)
    {
        const place = chooser.between(0, entries);
        const key = keys[place];
        auto found = key in table;
        isRight &= found !is null && of((*found).key) == key;
        if (look % removed == 0)
        {
            isRight &= table.remove(key);
            auto entry = fresh(place);
            table[of(entry.key)] = entry;
        }
    }
    foreach (key, entry; table)
        isRight &= of(entry.key) == key;
    return report.report(isRight && table.length == entries);
}
