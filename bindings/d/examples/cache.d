/+ dub.sdl:
    name "cache"
    dependency "neap" path=".."
+/
/// A cache that several threads read and replace entries of. The program chooses the collector
/// itself, with layouts from type information: text and numbers are not taken for pointers.
module cache;

import core.sync.mutex : Mutex;
import core.thread : Thread;
import std.conv : to;
import std.stdio : writefln;

extern (C) __gshared string[] rt_options = ["gcopt=gc:neap-precise"];

final class Entry
{
    string text;
    Entry older;

    this(int key, Entry older)
    {
        text = key.to!string;
        this.older = older;
    }
}

enum keys = 1000, threads = 4, turns = 100_000;

__gshared Entry[int] entries;
__gshared Mutex guard;

/// Replaces entries at random; each keeps the one before it, and no older ones.
void work(uint random)
{
    foreach (_; 0 .. turns)
    {
        random = random * 1_664_525 + 1_013_904_223;
        const key = cast(int)(random >> 8) % keys;
        guard.lock();
        scope (exit)
            guard.unlock();
        auto before = entries.get(key, null);
        if (before !is null)
            before.older = null;
        entries[key] = new Entry(key, before);
    }
}

void main()
{
    guard = new Mutex;
    Thread[] workers;
    foreach (number; 0 .. threads)
        workers ~= start(number + 1);
    foreach (worker; workers)
        worker.join();
    foreach (key, entry; entries)
        for (auto one = entry; one !is null; one = one.older)
            assert(one.text == key.to!string);
    writefln("%s entries, all as they were made", entries.length);
}

Thread start(uint seed)
{
    auto thread = new Thread({ work(seed); });
    thread.start();
    return thread;
}
