#!/bin/sh
# `make demo`: runs one Guile program (strings, hash tables, trees, four threads), first on Debian's
# libgc and then, the same files, on Neap by `neap run`; prints what it printed and a table of both
# runs. Debian's collections and pauses come from the log that libgc itself writes (GC_LOG_FILE),
# Neap's from its summary. Exit status: 0 when both runs succeeded with the same output, else 1.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
client=guile-demo
neap=$root/build/bin/neap

[ $# -eq 0 ] || {
    echo "demo.sh: takes no arguments; '$1' means nothing here" >&2
    exit 2
}
[ -x "$neap" ] || {
    echo "demo.sh: $neap does not exist; run 'make demo', which builds it first" >&2
    exit 2
}
[ -x /usr/bin/time ] || {
    echo "demo.sh: /usr/bin/time is missing; tests/clients/install.sh installs it" >&2
    exit 2
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

"$here/$client/run" --build

# measured SIDE: the client on whatever the environment chooses.
measured() {
    if ! /usr/bin/time -q -o "$work/$1.time" -f '%e %M' "$here/$client/run" \
        </dev/null >"$work/$1.out" 2>"$work/$1.err"; then
        echo "demo.sh: the program failed on $2:" >&2
        cat "$work/$1.out" "$work/$1.err" >&2
        exit 1
    fi
}

unset LD_LIBRARY_PATH LD_PRELOAD CLIENT_NEAP
echo "Running $here/$client/index.scm on Debian's libgc ..."
(
    export GC_PRINT_STATS=1 GC_LOG_FILE="$work/log"
    measured debian "Debian's libgc"
)
echo "and on Neap ..."
(
    export NEAP_SUMMARY="$work/summary" CLIENT_NEAP="$neap"
    measured neap Neap
)

# A line of libgc's log: "World-stopped marking took 12 ms 345678 ns (...)".
collections_debian=$(grep -c '^Complete collection took' "$work/log" || true)
pause_debian=$(awk '/^World-stopped marking took/ { t = $4 + $6 / 1e6; if (t > longest) longest = t }
    END { printf "%.1f", longest }' "$work/log")
[ "$collections_debian" -gt 0 ] || {
    echo "demo.sh: no collection found in libgc's log; is it still written as in libgc 8.2?" >&2
    exit 1
}

# Numbers of Neap's summary, a flat JSON object but for pauses_ms and heap.
[ -s "$work/summary" ] || {
    echo "demo.sh: Neap wrote no summary; did the program run on it?" >&2
    exit 1
}
summary=$(tr -d '\n' <"$work/summary")
number='[[:space:]]*:[[:space:]]*\([0-9][0-9.eE+-]*\)'
cycles=$(printf '%s' "$summary" | sed -n "s/.*\"cycles\"$number.*/\1/p")
pause_neap=$(printf '%s' "$summary" |
    sed -n "s/.*\"pauses_ms\"[^}]*\"max\"$number.*/\1/p" | awk '{ printf "%.1f", $1 }')
[ -n "$cycles" ] && [ -n "$pause_neap" ] || {
    echo "demo.sh: Neap's summary lacks cycles or pauses_ms.max: $summary" >&2
    exit 1
}

read -r wall_debian peak_debian <"$work/debian.time"
read -r wall_neap peak_neap <"$work/neap.time"
same=no
! cmp -s "$work/debian.out" "$work/neap.out" || same=yes

echo
cat "$work/neap.out"
echo
row() { printf '%-20s %16s %16s\n' "$1" "$2" "$3"; }
row '' "Debian's libgc" Neap
row 'same output' '' "$same"
row 'wall time' "$wall_debian s" "$wall_neap s"
row 'peak memory' "$((peak_debian / 1024)) MB" "$((peak_neap / 1024)) MB"
row 'collections' "$collections_debian" "$cycles"
row 'longest pause' "$pause_debian ms" "$pause_neap ms"

if [ $same = no ]; then
    echo
    diff -u --label "Debian's libgc" --label Neap "$work/debian.out" "$work/neap.out" | head -n 20
    exit 1
fi
