#!/bin/bash
# What statistics cost where nobody asks for them, in instructions: each program under callgrind on
# the library and on a build of it without any (`variants/without-statistics`). Usage:
# bench/statistics.sh [PROGRAM ARGUMENT…]: a program of build/bench that is linked with libneap;
# without one, four of them. Called by `make -C bench statistics`, which builds both libraries and
# the programs. Prints a line for each program, and fails if one takes more than a thousandth more.
# There are no cycles: when one comes depends on time, and what it does is the same code in both.
set -euo pipefail
cd "$(dirname "$0")/.."

bench=$(realpath "${OUT:-build/bench}")
with=$(realpath "${PREFIX:-build}")/lib/libneap.so.0
without=$(realpath "${PREFIX:-build}")/without-statistics/lib/libneap.so.0

# instructions LIBRARY PROGRAM ARGUMENT…: of the program's process; children only try things out at
# its start.
instructions() {
    local log=$bench/callgrind.%p.log library=$1
    shift
    rm -f "$bench"/callgrind.*.log
    env -u NEAP_STATS -u NEAP_SAMPLE NEAP_WATCH=none NEAP_MIN_TRIGGER=16GiB \
        LD_PRELOAD="$library" valgrind --tool=callgrind \
        --callgrind-out-file=/dev/null --log-file="$log" "$@" >"$bench/callgrind.out"
    grep -q '"ok": true' "$bench/callgrind.out" || {
        echo "the program failed: $*" >&2
        return 1
    }
    sed -n 's/.*Collected : //p' "$bench"/callgrind.*.log | sort -n | tail -n 1
}

failed=0
# Threads that wait for each other do not execute as many instructions each time: what is too much
# is counted again, twice at most.
compare() {
    local one other _
    for _ in 1 2 3; do
        other=$(instructions "$without" "$@")
        one=$(instructions "$with" "$@")
        awk -v name="$(basename "$1") ${*:2}" -v one="$one" -v other="$other" 'BEGIN {
            printf "%-36s %13d with, %13d without: %+.3f %%\n", name, one, other, (one / other - 1) * 100
            exit one > other * 1.001 }' && return
    done
    failed=1
}

cd "$bench"
if [ $# -gt 0 ]; then
    compare "$bench/$1" "${@:2}"
else
    compare "$bench/bh-neap" 500 2
    compare "$bench/voronoi-neap" 4000
    compare "$bench/bigarr-neap" 20 20000
    compare "$bench/mcore-neap" 1 40
fi
exit "$failed"
