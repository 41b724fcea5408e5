#!/bin/bash
# Takes the figures of docs/prefork.md and puts them there: each part is a table between two
# comments that name it, replaced by what its program prints, as it is printed.
#
# usage: document.sh [PART …], without one all: tables forks frozen lookup count. The sizes come
# from the environment (RUNS, LONG, FORK_ENTRIES, FROZEN_MB, LOOKUP_MB), the file from DOCUMENT.
# Invariant: a part whose program fails leaves the file as it was, and the script ends with an
# error. Needs what `make build` laid out. Called by hand, on an idle machine.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
document=${DOCUMENT:-docs/prefork.md}
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
cargo build --quiet --release --package neap-bench-prefork || exit
bench=$target/release/neap-bench-prefork
lookup=$target/release/lookup
text=$(mktemp)
trap 'rm -f "$text" "$text.new"' EXIT

machine() {
    printf 'Taken on %s: %s, %s processors, Linux %s.\n' "$(date +%F)" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -r)"
}

# Instructions of so many lookups, with what comes before them; a child that the library makes at
# start-up is counted apart, and is smaller.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$lookup" count "$1" "${COUNT_MB:-64}" "$2" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p' | sort -n | tail -n 1
}
count() {
    local way lookups
    printf '| way | instructions for a lookup |\n| --- | ---: |\n'
    for way in arithmetic binary linear; do
        lookups=100000
        [ $way != linear ] || lookups=1000
        printf '| %s | %d |\n' $way $((($(instructions $way $lookups) - $(instructions $way 0)) / lookups))
    done
}

frozen() {
    local watch
    for watch in pagemap none; do
        NEAP_WATCH=$watch build/bench/frozen "${FROZEN_MB:-512}" >"$text.$watch" || return
    done
    printf '| | `pagemap` | `none` |\n| --- | ---: | ---: |\n'
    paste -d '|' "$text.pagemap" "$text.none" | sed -E 's/ +([0-9.]+) ms\|.* ([0-9.]+) ms/ | \1 | \2 |/; s/^/| /'
    rm -f "$text.pagemap" "$text.none"
}

take() {
    case $1 in
    tables) machine && echo && "$bench" --runs "${RUNS:-5}" --long "${LONG:-20000}" ;;
    forks) "$bench" --runs "${FORK_RUNS:-3}" --forks --entries "${FORK_ENTRIES:-6200000}" ;;
    frozen) make --no-print-directory -s -C bench prefork >&2 && frozen ;;
    lookup) "$lookup" "${LOOKUP_MB:-8192}" "${PLOT:-docs/images/lookup.svg}" ;;
    count) count ;;
    *) echo "document.sh: want tables, forks, frozen, lookup or count, not '$1'" >&2 && return 2 ;;
    esac
}

[ $# -gt 0 ] || set -- tables forks frozen lookup count
failed=0
for part; do
    if ! take "$part" >"$text"; then
        echo "document.sh: $part failed" >&2
        failed=1
        continue
    fi
    cat "$text"
    echo
    awk -v part="$part" -v text="$text" '
        $0 == "<!-- " part " -->" {
            print
            while ((getline line < text) > 0) print line
            inside = found = 1
        }
        $0 == "<!-- end of " part " -->" { inside = 0 }
        !inside { print }
        END { exit !found }' "$document" >"$text.new" &&
        cat "$text.new" >"$document" || { echo "document.sh: $document has no part $part" >&2; failed=1; }
done
exit "$failed"
