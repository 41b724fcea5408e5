#!/bin/bash
# Builds the D programs of this folder and compares collectors on them: one Markdown table, medians of N runs in turn (5). Usage: bench/gcbench/run.sh [N]. PREFIX=DIR
# measures another installation than build/, PROGRAMS="tree2 …" some of the programs. Called by hand, on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/../.."

runs=${1:-5}
prefix=$(realpath "${PREFIX:-build}")
out=$(realpath -m "${OUT:-build/gcbench}")
read -ra programs <<<"${PROGRAMS:-bulk resize string conalloc conappend concpu dlist huge_single rand_large rand_small slist testgc3 tree1 tree2 words}"
mkdir -p "$out"
rm -f "$out"/*.runs
# name | watch | options of druntime
modes=("druntime conservative|none|gc:conservative" "druntime precise|none|gc:precise" "druntime fork:1|none|gc:conservative fork:1"
    "Neap, world stopped|none|gc:neap" "Neap, pagemap|pagemap|gc:neap" "Neap, pagemap, precise|pagemap|gc:neap-precise")

for program in "${programs[@]}"; do
    # shellcheck disable=SC2046 # flags are words
    ldc2 -O3 -release -w -i -Ibench/gcbench -od="$out/obj" -of="$out/$program" "bench/gcbench/$program.d" \
        $("$prefix/bin/neap" flags d)
    for _ in $(seq "$runs"); do
        for mode in "${modes[@]}"; do
            IFS='|' read -r name watch options <<<"$mode"
            NEAP_WATCH=$watch "$out/$program" "--DRT-gcopt=$options" >>"$out/$program $name.runs"
        done
    done
done

# median FILE COLUMN
median() {
    awk -v column="$2" '{print $column}' "$1" | sort -g | awk '{value[NR] = $1} END {print value[int((NR + 1) / 2)]}'
}

echo '| program | collector | s | against conservative | peak MB | collections | pauses ms | longest ms |'
echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
for program in "${programs[@]}"; do
    for mode in "${modes[@]}"; do
        name=${mode%%|*}
        file="$out/$program $name.runs"
        echo "$program $(median "$file" 1) $(median "$out/$program druntime conservative.runs" 1) $(median "$file" 2)" \
            "$(median "$file" 3) $(median "$file" 4) $(median "$file" 5)" |
            awk -v name="$name" '{printf "| %s | %s | %.3f | %.2f | %.1f | %d | %.2f | %.3f |\n", $1, name, $2, $2 / $3, $4 / 1024, $5, $6, $7}'
    done
done
