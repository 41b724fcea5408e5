#!/bin/bash
# The crate `neap` beside other ways of managing memory in Rust, on binary-trees, in turn: medians
# of seconds and of peak memory. Builds what it needs; the contestants come from the registry.
# Usage: bench/rust/run.sh [DEPTH [ROUNDS]]   (16 and 5). Called by `make bench BENCH=rust`.
set -euo pipefail
cd "$(dirname "$0")"
depth=${1:-16} rounds=${2:-5}
contestants='neap rc arc box-mimalloc gc gc-arena dumpster'

cargo() { ../../tools/with-rust.sh cargo "$@"; }
cargo build --quiet --release
target=$(cargo metadata --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for ((round = 0; round < rounds; round++)); do
    for name in $contestants; do
        /usr/bin/time --format=%M --output="$work/memory" \
            "$target/release/$name" "$depth" >"$work/out"
        read -r nodes seconds <"$work/out"
        echo "$nodes" >>"$work/nodes"
        echo "$seconds" >>"$work/$name.seconds"
        cat "$work/memory" >>"$work/$name.memory"
    done
done
[ "$(sort -u "$work/nodes" | wc -l)" = 1 ] || {
    echo "bench/rust: the contestants counted different numbers of nodes" >&2
    exit 1
}

median() { sort -n "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
printf '%-14s %10s %12s\n' "depth $depth" seconds 'peak (KiB)'
for name in $contestants; do
    printf '%-14s %10s %12s\n' "$name" "$(median "$work/$name.seconds")" \
        "$(median "$work/$name.memory")"
done
