/// aa_objects [OBJECTS]: tables whose keys are objects that compare by what they hold, and whose
/// values are objects too: OBJECTS (1,000,000) are made and put into one of 64 tables, where they
/// replace the value of an equal key or are new; each table is dropped when it is full.
///
/// What tables held when they were dropped has to add up to what was put into them.
module aa_objects;

import report;
import std.conv : to;

enum size_t tables = 64, full = 2_000, names = 5_000;

final class Key
{
    size_t name;

    this(size_t name)
    {
        this.name = name;
    }

    override size_t toHash() const nothrow @safe
    {
        return name * 0x9e37_79b9_7f4a_7c15;
    }

    override bool opEquals(const Object other) const
    {
        const key = cast(const Key) other;
        return key !is null && key.name == name;
    }
}

final class Value
{
    Value before;
    size_t puts;

    this(Value before)
    {
        this.before = before;
        puts = before is null ? 1 : before.puts + 1;
        // A chain of a few.
        if (before !is null && before.puts % 4 == 0)
            before.before = null;
    }
}

int main(string[] arguments)
{
    const objects = arguments.length > 1 ? arguments[1].to!size_t : 1_000_000;
    auto all = new Value[Key][tables];
    Chooser chooser;
    size_t counted;
    void drop(ref Value[Key] table)
    {
        foreach (key, value; table)
            counted += key.name < names ? value.puts : 0;
        table = null;
    }

    foreach (number; 0 .. objects)
    {
        auto table = &all[chooser.between(0, tables)];
        auto key = new Key(chooser.between(0, names));
        auto found = key in *table;
        (*table)[key] = new Value(found is null ? null : *found);
        if (table.length == full)
            drop(*table);
    }
    foreach (ref table; all)
        drop(table);
    return report.report(counted == objects);
}
