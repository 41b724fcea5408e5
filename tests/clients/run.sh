#!/bin/sh
# Runs the client programs on Debian's libgc and then on Neap and compares what they print, byte for
# byte. Prints one TAP line for each case: a case passes when it built, exited 0 on both libraries
# (each checks its own result), printed the same on both, and really ran on the library meant.
# Figures in the lines are "Debian's/Neap's"; peak is the largest resident set of the process.
# Exit status: 0 all passed, 1 some did not, 2 wrong use or nothing to test.

set -eu

usage() {
    cat <<'EOF'
usage: tests/clients/run.sh [--only NAME]... [--timed | --untimed] [--library PATH] [--list]
  --only NAME     run only this case; may be given again; a shell pattern such as 'guile-*' works
  --timed         run only the cases whose time and memory are compared, which take longest
  --untimed       run only the others
  --library PATH  test this libgc.so.1 (a file, or a directory that holds it)
                  instead of build/lib/neap/libgc.so.1
  --list          print the names of the cases
Environment: NEAP_* and GC_* reach the clients (NEAP_SUMMARY is set by this script);
CLIENT_TIMEOUT is the time limit of one run in seconds (120).
EOF
}

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
limit=${CLIENT_TIMEOUT:-120}
only=
library=
# Clients whose time and memory are compared say so in their opening comment.
timed_names=$(grep -l '^#.* Timed\.$' "$here"/*/run | sed 's|/run$||; s|.*/||')

while [ $# -gt 0 ]; do
    case "$1" in
    --only | --library)
        [ $# -ge 2 ] || {
            echo "run.sh: $1 needs a value" >&2
            exit 2
        }
        if [ "$1" = --only ]; then only="$only $2"; else library=$2; fi
        shift 2
        ;;
    --timed)
        only="$only $(echo "$timed_names" | tr '\n' ' ')"
        shift
        ;;
    --untimed)
        for script in "$here"/*/run; do
            case_name=$(basename "$(dirname "$script")")
            echo "$timed_names" | grep -qx "$case_name" || only="$only $case_name"
        done
        shift
        ;;
    --list)
        for script in "$here"/*/run; do basename "$(dirname "$script")"; done
        exit 0
        ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        echo "run.sh: unknown argument '$1'" >&2
        usage >&2
        exit 2
        ;;
    esac
done
case "$limit" in
'' | *[!0-9]*)
    echo "run.sh: CLIENT_TIMEOUT is '$limit', and should be a number of seconds" >&2
    exit 2
    ;;
esac
[ -x /usr/bin/time ] || {
    echo "run.sh: /usr/bin/time is missing; tests/clients/install.sh installs it" >&2
    exit 2
}

names=
for script in "$here"/*/run; do
    case_name=$(basename "$(dirname "$script")")
    if [ -z "$only" ]; then
        names="$names $case_name"
        continue
    fi
    set -f
    for pattern in $only; do
        # shellcheck disable=SC2254 # it is meant as a pattern
        case "$case_name" in
        $pattern)
            names="$names $case_name"
            break
            ;;
        esac
    done
    set +f
done
[ -n "$names" ] || {
    echo "run.sh: no case matches$only; --list prints the names" >&2
    exit 2
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Which library, and how a client gets it: by `neap run` as a user would, where it is built and no
# other library is asked for; else by the library path.
neap=
if [ -z "$library" ]; then
    library=$root/build/lib/neap/libgc.so.1
    [ ! -x "$root/build/bin/neap" ] || neap=$root/build/bin/neap
fi
[ ! -d "$library" ] || library=$library/libgc.so.1
[ -e "$library" ] || {
    echo "run.sh: $library does not exist; run 'make build' first, or give --library PATH" >&2
    exit 2
}
mkdir "$work/lib"
ln -s "$(readlink -f "$library")" "$work/lib/libgc.so.1"
# Debian's library against itself is for work on the cases; whatever else is given must be Neap.
system=$(/sbin/ldconfig -p | awk '$1 == "libgc.so.1" { print $NF; exit }')
is_neap=yes
[ -z "$system" ] || ! cmp -s "$system" "$library" || is_neap=no
if [ -n "$neap" ]; then
    echo "# Neap by $neap run"
else
    echo "# $library by LD_LIBRARY_PATH"
fi
[ $is_neap = yes ] || echo "# this is the system's libgc: it is compared with itself"

# side SIDE CASE: run the case; SIDE.out, SIDE.err, SIDE.time, SIDE.status in $work.
side() (
    unset LD_LIBRARY_PATH CLIENT_NEAP
    if [ "$1" = debian ]; then
        unset LD_PRELOAD
    else
        export NEAP_SUMMARY="$work/summary"
        rm -f "$work/summary"
        if [ -n "$neap" ]; then
            export CLIENT_NEAP="$neap"
        else
            export LD_LIBRARY_PATH="$work/lib"
        fi
    fi
    status=0
    /usr/bin/time -q -o "$work/$1.time" -f '%e %M' timeout -k 5 "$limit" "$here/$2/run" \
        </dev/null >"$work/$1.out" 2>"$work/$1.err" || status=$?
    echo $status >"$work/$1.status"
)

# The number after "KEY": in the summary; empty when it is not there.
from_summary() {
    [ ! -e "$work/summary" ] || tr -d '\n' <"$work/summary" |
        sed -n "s/.*\"$1\"[[:space:]]*:[[:space:]]*\([0-9][0-9.eE+-]*\).*/\1/p"
}

# Standard input as TAP comments, the first 20 lines.
comment() { head -n 20 | sed 's/^/#   /'; }

count=0
failures=0
not_ok() {
    echo "not ok - clients/$1 ($2)"
    failures=$((failures + 1))
}

report_side() { # SIDE TITLE CASE: fails and prints when that run was not a success
    status=$(cat "$work/$1.status")
    [ "$status" -ne 0 ] || return 0
    case $status in
    124 | 137) not_ok "$3" "on $2: no end within $limit s" ;;
    12[5-7]) not_ok "$3" "on $2: could not be started, status $status" ;;
    12[89] | 1[3-9]? | 2??) not_ok "$3" "on $2: ended by signal $((status - 128))" ;;
    *) not_ok "$3" "on $2: exit status $status" ;;
    esac
    comment <"$work/$1.err"
    return 1
}

run_case() {
    status=0
    "$here/$1/run" --build </dev/null >"$work/build" 2>&1 || status=$?
    # Not every system has a package of each client. Where it has, the set-up would have failed.
    if [ $status -eq 3 ]; then
        echo "ok - clients/$1 # SKIP $(tail -n 1 "$work/build")"
        return
    fi
    if [ $status -ne 0 ]; then
        not_ok "$1" "could not be built"
        comment <"$work/build"
        return
    fi
    side debian "$1"
    side neap "$1"
    report_side debian "Debian's libgc" "$1" || return 0
    report_side neap Neap "$1" || return 0
    if ! cmp -s "$work/debian.out" "$work/neap.out"; then
        not_ok "$1" "the output differs"
        diff -u --label "Debian's libgc" --label Neap "$work/debian.out" "$work/neap.out" | comment
        return
    fi
    if ! [ -s "$work/debian.out" ]; then
        not_ok "$1" "it printed nothing"
        return
    fi
    cycles=$(from_summary cycles)
    if [ $is_neap = yes ]; then
        if [ -z "$cycles" ]; then
            not_ok "$1" "no summary was written: it did not run on Neap"
            return
        fi
        if [ "$cycles" -eq 0 ] && echo "$timed_names" | grep -q -x "$1"; then
            not_ok "$1" "Neap never collected"
            return
        fi
    fi
    read -r wall_a peak_a <"$work/debian.time"
    read -r wall_b peak_b <"$work/neap.time"
    if echo "$timed_names" | grep -q -x "$1"; then
        echo "$wall_a $wall_b $peak_a $peak_b" >>"$work/figures"
    fi
    echo "ok - clients/$1 (wall $wall_a/$wall_b s, peak $((peak_a / 1024))/$((peak_b / 1024)) MB${cycles:+, $cycles cycles})"
}

for case_name in $names; do
    count=$((count + 1))
    run_case "$case_name"
done
echo "1..$count"
if [ -e "$work/figures" ]; then
    awk '
        { wall += log($2 / $1); peak += log($4 / $3)
          if ($2 / $1 > worst_wall) worst_wall = $2 / $1
          if ($4 / $3 > worst_peak) worst_peak = $4 / $3 }
        END { printf "# timed clients, Neap to Debian, %d of them, one run each: wall %.2f (worst %.2f), peak %.2f (worst %.2f)\n",
              NR, exp(wall / NR), worst_wall, exp(peak / NR), worst_peak }' "$work/figures"
fi
[ $failures -eq 0 ]
