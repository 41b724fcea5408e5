#!/bin/bash
# The crate `neap` beside other ways of managing memory in Rust, in turn: medians of seconds, peak
# memory, the longest operation and the longest stop, and the ratios that have a bar. Builds what it
# needs; the contestants come from the registry. Called by `make bench BENCH=rust`.
# Usage: bench/rust/run.sh [-n ROUNDS] [WORK [ARGUMENT...]]; 1 where a contestant failed once, which
# has no figure then.
#   5 rounds; WORK is one of trees, graph, lisp, map, or all of them at their full sizes.
#   trees DEPTH THREADS · graph NODES TENTHS [1: a tenth a second] · lisp TIMES · map OPERATIONS
set -euo pipefail
cd "$(dirname "$0")"
rounds=5
if [ "${1:-}" = -n ]; then
    rounds=$2
    shift 2
fi
unset "${!NEAP_@}"

cargo() { ../../tools/with-rust.sh cargo "$@"; }
cargo build --quiet --release
target=$(cargo metadata --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
results=$(mktemp -d)
status=0
trap 'rm -rf "$results"' EXIT

# The median of column $2 of what contestant $1 did: a dash where it failed once, or does not know.
median() {
    [ -e "$results/$1" ] || { echo - && return; }
    awk -v column="$2" '{ print $column }' "$results/$1" | sort -n |
        awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] : "-" }'
}

# Runs contestants in turn: run_all WORK 'CONTESTANT...' ARGUMENT...
# A result has check, seconds, longest operation and stop in ms, and peak memory in MiB.
run_all() {
    local work=$1 contestants=$2 name round failed=''
    shift 2
    rm -f "$results"/*
    for ((round = 0; round < rounds; round++)); do
        for name in $contestants; do
            if timeout 900 /usr/bin/time --quiet --format=%M --output="$results/memory" \
                "$target/release/$work-$name" "$@" >"$results/out" 2>"$results/said"; then
                awk '{ getline line < memory; printf "%s %.1f\n", $0, line / 1024 }' \
                    memory="$results/memory" "$results/out" >>"$results/$name"
            else
                echo "# $work-$name failed: $(tail -n 1 "$results/said")"
                failed="$failed $name"
                status=1
            fi
        done
    done
    rm -f "$results"/{memory,out,said}
    for name in $failed; do
        rm -f "$results/$name"
    done
    [ "$(cat "$results"/* /dev/null | cut -d ' ' -f 1 | sort -u | wc -l)" -le 1 ] || {
        echo "bench/rust: the contestants of $work did not do the same" >&2
        exit 1
    }
    printf '%-22s %9s %10s %14s %9s\n' "$work $*" seconds 'peak MiB' 'operation ms' 'stop ms'
    for name in $contestants; do
        printf '%-22s %9s %10s %14s %9s\n' "  $name" "$(median "$name" 2)" "$(median "$name" 5)" \
            "$(median "$name" 3)" "$(median "$name" 4)"
    done
}

# Ours by the best of the others: ratio WHAT COLUMN BAR 'CONTESTANT...'
ratio() {
    local name best ours
    ours=$(median neap "$2")
    best=$(for name in $4; do median "$name" "$2"; done | { grep -v '^-$' || true; } | sort -n |
        head -n 1)
    [ "$ours" != - ] || best=''
    awk -v what="$1 by ${4// /, }" -v ours="$ours" -v best="$best" -v bar="$3" \
        'BEGIN { printf "  %s: %s (at most %s)\n", what, best ? sprintf("%.2f", ours / best) : "-", bar }'
}

run_trees() {
    run_all trees 'neap rc arc box-mimalloc gc gc-arena dumpster' "$@"
    ratio seconds 2 0.5 'gc gc-arena dumpster'
    ratio seconds 2 1.2 box-mimalloc
}

run_graph() {
    local others='gc gc-arena dumpster bacon-rajan'
    run_all graph "neap $others" "$@"
    ratio seconds 2 0.5 "$others"
    ratio 'peak memory' 5 0.8 "$others"
    echo "  longest stop: $(median neap 4) ms (at most 1)"
}

run_lisp() {
    run_all lisp 'neap rc' "$@"
    ratio seconds 2 0.7 rc
}

run_map() {
    run_all map 'neap epoch' "$@"
    ratio seconds 2 1.0 epoch
}

case "${1:-all}" in
trees | graph | lisp | map)
    work=$1
    shift
    "run_$work" "$@"
    ;;
all)
    run_trees 20 1
    run_trees 20 2
    run_graph 10000000 10
    run_graph 10000000 10 1
    run_lisp 20
    run_map 5000000
    ;;
*)
    echo "bench/rust: no work is called $1" >&2
    exit 2
    ;;
esac
exit $status
