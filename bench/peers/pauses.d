/// `pauses` (bench/pauses.c) in D, for druntime's collectors: the same tree of maps, the same
/// operations, the same line at the end.
///
/// Arguments: SIZE [RATE [SECONDS]], and --DRT-gcopt=… for druntime. Stops are those that druntime
/// counts (`GC.profileStats`), longest since the start: it does not say them of a part of the run.
module pauses;

import core.memory : GC;
import core.stdc.stdio : printf;
import core.time : MonoTime;
import std.conv : to;
import std.string : endsWith;

struct Value
{
    ulong key, revision, sum;
    char* note;
}

struct Entry
{
    Entry* next;
    ulong digit;
    void* content; // a Value in a leaf map, else the next Map
    ulong uses;
}

struct Map
{
    Entry** buckets;
    ulong entries;
}

enum digitBits = 6, mapEntries = 1 << digitBits, noteBytes = 24;
enum scanned = 0, leaf = GC.BlkAttr.NO_SCAN;

__gshared Map* root;
__gshared uint levels = 1;
__gshared ulong keys, bytes;

ulong mix(ulong value)
{
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93;
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93;
    return value ^ (value >> 32);
}

ulong sumOf(ulong key, ulong revision)
{
    return mix(key * 31 + revision);
}

Value* makeValue(ulong key, ulong revision)
{
    auto value = cast(Value*) GC.calloc(Value.sizeof, scanned);
    value.key = key;
    value.revision = revision;
    value.sum = sumOf(key, revision);
    value.note = cast(char*) GC.calloc(noteBytes, leaf);
    value.note[0 .. noteBytes - 1] = cast(char)('a' + value.sum % 26);
    return value;
}

bool isRight(const Value* value, ulong key)
{
    const letter = cast(char)('a' + value.sum % 26);
    return value.key == key && value.sum == sumOf(key, value.revision) && value.note[0] == letter
        && value.note[noteBytes - 2] == letter && value.note[noteBytes - 1] == 0;
}

Map* makeMap()
{
    auto map = cast(Map*) GC.calloc(Map.sizeof, scanned);
    map.buckets = cast(Entry**) GC.calloc(mapEntries * (Entry*).sizeof, scanned);
    bytes += Map.sizeof + mapEntries * (Entry*).sizeof;
    return map;
}

Entry* findInMap(Map* map, ulong digit)
{
    auto entry = map.buckets[mix(digit) % mapEntries];
    while (entry !is null && entry.digit != digit)
        entry = entry.next;
    return entry;
}

Entry* entryOf(Map* map, ulong digit)
{
    auto entry = findInMap(map, digit);
    if (entry is null)
    {
        auto bucket = &map.buckets[mix(digit) % mapEntries];
        entry = cast(Entry*) GC.calloc(Entry.sizeof, scanned);
        entry.digit = digit;
        entry.next = *bucket;
        *bucket = entry;
        map.entries++;
        bytes += Entry.sizeof;
    }
    return entry;
}

ulong digitOf(ulong key, uint level)
{
    return key >> (digitBits * level) & (mapEntries - 1);
}

Entry* find(ulong key)
{
    auto map = root;
    Entry* entry;
    foreach_reverse (level; 0 .. levels)
    {
        entry = findInMap(map, digitOf(key, level));
        if (entry is null)
            return null;
        map = cast(Map*) entry.content;
    }
    return entry;
}

void build(ulong wanted)
{
    while ((wanted / 88) >> (digitBits * levels) != 0)
        levels++;
    root = makeMap();
    while (bytes < wanted)
    {
        const key = keys++;
        auto map = root;
        foreach_reverse (level; 1 .. levels)
        {
            auto entry = entryOf(map, digitOf(key, level));
            if (entry.content is null)
                entry.content = makeMap();
            map = cast(Map*) entry.content;
        }
        entryOf(map, digitOf(key, 0)).content = makeValue(key, 0);
        bytes += Value.sizeof + noteBytes;
    }
}

bool replaceOne(ref ulong random)
{
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    const key = (random * 2685821657736338717 >> 11) % keys;
    auto entry = find(key);
    if (entry is null)
        return false;
    auto value = cast(Value*) entry.content;
    const right = isRight(value, key);
    entry.content = makeValue(key, value.revision + 1);
    entry.uses++;
    return right;
}

ulong sizeOf(string text)
{
    const shift = text.endsWith("G") ? 30 : text.endsWith("M") ? 20 : 0;
    return text[0 .. shift ? $ - 1 : $].to!ulong << shift;
}

int main(string[] arguments)
{
    const wanted = sizeOf(arguments[1]);
    const rate = arguments.length > 2 ? arguments[2].to!long : 200_000;
    const seconds = arguments.length > 3 ? arguments[3].to!long : 10;
    build(wanted);

    // As in C: buckets of 3 %, so that percentiles say the same.
    ulong[2048] counts;
    ulong operations, wrong, longest, random = 0x5eed;
    const began = MonoTime.currTime;
    long now()
    {
        return (MonoTime.currTime - began).total!"nsecs";
    }

    const end = seconds * 1_000_000_000;
    long at;
    while (at < end)
    {
        const due = cast(long)(operations * 1e9 / rate);
        while (at < due && at < end)
            at = now();
        if (at >= end)
            break;
        const started = at;
        wrong += !replaceOne(random);
        void** chain;
        foreach (_; 0 .. 16)
        {
            auto link = cast(void**) GC.calloc(64, scanned);
            *link = chain;
            chain = link;
        }
        at = now();
        operations++;
        const took = at - started;
        if (took > longest)
            longest = took;
        uint power;
        while (took >> power >= 64)
            power++;
        counts[power * 32 + cast(uint)(took >> power)]++;
    }
    double quantile(double fraction)
    {
        ulong seen;
        foreach (bucket, count; counts)
        {
            seen += count;
            if (seen > operations * fraction)
            {
                const power = bucket < 64 ? 0 : bucket / 32 - 1;
                return ((bucket - power * 32 + 1) << power) * 1e-3;
            }
        }
        return longest * 1e-3;
    }

    const perSecond = operations / (at * 1e-9);
    ulong right;
    foreach (key; 0 .. keys)
    {
        auto entry = find(key);
        right += entry !is null && isRight(cast(Value*) entry.content, key);
    }
    const stats = GC.profileStats;
    const ok = wrong == 0 && right == keys && operations > 0;
    printf(`{"program": "pauses", "live_bytes": %llu, "keys": %llu, "right": %llu, "wrong": %llu, "wanted_per_second": %lld, "operations_per_second": %.0f, `
            ~ `"operation_us": {"p50": %.2f, "p99": %.2f, "p999": %.2f, "max": %.2f}, "collections": %zu, "longest_stop_ms": %.3f, "stopped_ms": %.3f, "ok": %s}` ~ "\n",
            bytes, keys, right, wrong, rate, perSecond, quantile(0.5), quantile(0.99),
                quantile(0.999), longest * 1e-3, stats.numCollections,
            stats.maxPauseTime.total!"usecs" / 1e3, stats.totalPauseTime.total!"usecs" / 1e3, ok
                ? "true".ptr : "false".ptr);
    return ok ? 0 : 1;
}
