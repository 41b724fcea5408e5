#!/bin/bash
# Tests of the workloads: each, small, on neap.h and on the libgc ABI with Neap's library,
# conservative and typed; each checks its own result. The programs of bench/cliffs likewise, and
# that what they measure with counts right. And that `replay` makes exactly the requests of its
# pattern file, by its own count and the library's. Usage: tests/workloads/run.sh. PREFIX=DIR
# tests another installation. Called by tools/test.sh.
# shellcheck disable=SC2317 # functions are called by bash -c
. "$(dirname "$0")/../lib.sh"
begin workloads
# As users have it.
unset NEAP_MAX_PAUSE NEAP_MIN_TRIGGER
mkdir -p "$out/lib"

result "they build" make --no-print-directory -C bench workloads cliffs "OUT=$out" "PREFIX=$prefix" || exit 1

for mode in conservative typed; do
    for check in 0 3; do
        result "bh, $mode, check=$check" env NEAP_CHECK=$check "$out/bh-neap" 500 4 $mode
        result "bigarr, $mode, check=$check" env NEAP_CHECK=$check "$out/bigarr-neap" 20 20000 $mode
        result "voronoi, $mode, check=$check" env NEAP_CHECK=$check "$out/voronoi-neap" 4000 $mode
    done
    result "bh, $mode, libgc ABI" env LD_LIBRARY_PATH="$prefix/lib/neap" "$out/bh" 500 4 $mode
    result "bigarr, $mode, libgc ABI" env LD_LIBRARY_PATH="$prefix/lib/neap" "$out/bigarr" 20 20000 $mode
    result "voronoi, $mode, libgc ABI" env LD_LIBRARY_PATH="$prefix/lib/neap" "$out/voronoi" 4000 $mode
    result "replay of all patterns, $mode" "$out/replay-neap" patterns-2010.json all $mode
done
result "mcore" "$out/mcore-neap" 4 79
result "mcore, libgc ABI" env LD_LIBRARY_PATH="$prefix/lib/neap" "$out/mcore" 4 79

for arguments in "heap 16M 2 20000 1" "collect 16M" "roots registered 4M 20000 1" "roots array 4M 20000 1" \
    "links short 20000 20000 1" "links long 20000 20000 1" "links churning 20000 20000 1" \
    "threads 20 sem_wait 20000 1" "threads 20 read 20000 1" "threads 20 futex 20000 1" \
    "sizes 8M 20000" "writer 8M 50 20000 1" "graph 20000 20000 1" "growing-stack 2M 10000 1" \
    "typed gcj 14 20000 1" "typed object 14 20000 1" "typed procedure 14 20000 1"; do
    # shellcheck disable=SC2086 # several words
    result "cliffs: $arguments" env LD_LIBRARY_PATH="$prefix/lib/neap" "$out"/cliffs-$arguments
done
export out prefix
# A program that writes faster than rounds beside it can scan is slowed down, and caught up with: of
# the cycles when it has grown at least half find less than an eighth of its pages in the last stop.
# Without that it was 42 % in the median, and all of them in one.
caught_up_with() {
    NEAP_GROWTH=0.2 NEAP_LOG=cycles LD_LIBRARY_PATH=$prefix/lib/neap \
        "$out/cliffs-graph" 300000 0 4 >"$out/line" 2>"$out/log" || return 1
    python3 - "$out/log" <<'EOF'
import re, statistics, sys
cycles = [dict(re.findall(r"(\w+)=(\w+)", line)) for line in open(sys.argv[1]) if "cycle=" in line]
most = max(int(cycle["live_kib"]) for cycle in cycles)
beside = [cycle for cycle in cycles
          if cycle["kind"] in ("concurrent", "minor") and int(cycle["live_kib"]) > most * 0.6]
pages = [int(cycle["remark_pages"]) for cycle in beside]
print("of", most // 4, "pages in last stops:", pages, [cycle.get("caught_up") for cycle in beside])
assert len(pages) >= 2 and statistics.median_low(pages) < most // 4 // 8
EOF
}
export -f caught_up_with
result "a fast writer is caught up with" bash -c caught_up_with
result "what measures them builds" cc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -O2 \
    -o "$out/utilisation" tests/workloads/utilisation.c
result "utilisation and percentiles against slow counts" "$out/utilisation"

# What the library counts is what the pattern file says: replay checks its own count, this one the
# library's, less the few objects that are replay's own.
counted() {
    NEAP_SUMMARY=$out/summary "$out/replay-neap" patterns-2010.json voronoi >"$out/line" || return 1
    local objects
    objects=$(sed -n 's/.*"allocated_objects":\([0-9]*\).*/\1/p' "$out/summary")
    echo "the library counted $objects objects, the file has 1309638"
    [ "$objects" -ge 1309638 ] && [ "$objects" -le 1309648 ]
}
export -f counted
result "the library counts the pattern's objects" bash -c counted

# All of committed memory but the room for growth is at most 1.35 of what is live, in the median of
# cycles: what free cells beside live ones cost. With the world stopped and empty memory given back
# at once.
held() {
    local record=$out/held.record
    rm -f "$record"*
    NEAP_WATCH=none NEAP_DECAY=0 NEAP_STATS=$record "$@" >"$out/line" || return 1
    "$prefix/bin/neap" report --json "$record" | python3 -c '
import json, sys
memory = json.load(sys.stdin)["memory"]
print(memory)
assert 1 <= memory["beside_room_median"] <= 1.35 and memory["live_bytes"] > 500000
parts = ("live", "room", "spare", "fragmentation")
assert memory["committed_bytes"] == sum(memory[part + "_bytes"] for part in parts)'
}
export -f held
result "bh's memory beside live objects and room" bash -c 'held "$out/bh-neap" 4000 3'
result "voronoi's memory beside live objects and room" bash -c 'held "$out/voronoi-neap"'
result "dil's memory beside live objects and room" bash -c 'held "$out/replay-neap" patterns-2010.json dil'
# No pattern wastes more than its collector did then. Where D wants a byte past the end its requests
# have it.
result "no pattern is above its own waste" bash -c 'NEAP_PAST_END=0 "$out/replay-neap" patterns-2010.json all | grep -q "\"each_below_2010\": true"'

# Bad patterns and arguments are refused with a message that says what is wrong.
refused() {
    local wanted=$1 said
    shift
    said=$("$@" 2>&1) && {
        echo "was not refused: $said"
        return 1
    }
    echo "$said"
    [[ $said == *"$wanted"* ]]
}
export -f refused
printf '{"programs": {"x": {"requested": {"bins": [{"bin": 16, "objects": 2, "bytes": 33}]}}}}' >"$out/wrong.json"
result "a bin that cannot be is refused" bash -c "refused 'a bin whose bytes' '$out/replay-neap' '$out/wrong.json' all"
printf '{"programs": {"x": 3' >"$out/cut.json"
result "a file that is cut is refused" bash -c "refused 'want an object' '$out/replay-neap' '$out/cut.json' all"
result "an unknown program is refused" bash -c "refused \"no program 'none'\" '$out/replay-neap' patterns-2010.json none"
exit "$failed"
