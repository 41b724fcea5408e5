#!/bin/bash
# Torture: random programs against a shadow of what they keep, refusals and misuse, each a process
# of its own. Prints test results as CONTRIBUTING.md says. Called by tools/test.sh; `make soak` uses
# --runs and --watch.
#
# The seeds of the ordinary run are fixed; --seconds and --runs take new ones. A failed run says how
# to repeat it: with one thread it does the same again; with several, threads meet otherwise each
# time.
. "$(dirname "$0")/../lib.sh"
begin torture
unset "${!NEAP_@}"

usage() {
    cat <<'EOF'
usage: tests/torture/run.sh [--rest | --seconds N | --runs N] [--seed N] [--watch NAME]…
  --rest       what a run without it leaves out
  --seconds N  go on for so long, with random seeds
  --runs N     so many short runs, with random seeds
  --watch NAME only under this watch, or under these in turn
  --seed N     the first seed (10)
EOF
}

seconds=0 runs=0 seed=10 watches= asked=0 rest=no
while [ $# -gt 0 ]; do
    case "$1" in
    --seconds | --runs | --seed)
        case "${2:-}" in
        '' | *[!0-9]*)
            echo "run.sh: $1 wants a whole number" >&2
            exit 2
            ;;
        esac
        declare "${1#--}=$2"
        shift 2
        ;;
    --rest)
        rest=yes
        shift
        ;;
    --watch)
        watches+="${2:-} " asked=1
        shift $(($# > 1 ? 2 : 1))
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

build_torture
# Several of these may run at once.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
log=$out/output shown=60

# result_of NAME STATUS COMMAND…: ok if the command ends with STATUS within its time.
result_of() {
    local name=$1 wanted=$2 status
    shift 2
    within "$@"
    status=$?
    [ "$status" != "$wanted" ] || { passed "$name" && return; }
    echo "# not status $wanted: $*"
    report "$status, not $wanted" "$name"
}

. tests/torture/ways.sh

# Runs way number $1 with seed $2 under the watch $3.
run_way() {
    local way
    read -ra way <<<"${ways[$1]}"
    local name=${way[0]}
    [ "$watches" = "$3" ] || name=$name-$3
    # Its heaps are small: without this nearly all cycles would stop the world.
    result_of "$name (seed $2)" 0 "$torture" run --seed "$2" --neap max_pause=0 "${way[@]:1}" \
        --neap "watch=$3"
}

possible=$("$torture" watches)
for watch in $watches; do
    grep -qx "$watch" <<<"$possible" || {
        skip "under watch $watch" "it does not work here; those that do: ${possible//$'\n'/ }"
        watches=${watches/$watch /}
    }
done
# Without --watch under all; where none of those asked for works there is nothing to do.
[ "$asked" = 0 ] || [ -n "$watches" ] || exit 0
watches=${watches:-$possible}
if [ "$seconds" != 0 ] || [ "$runs" != 0 ]; then
    done=0 limit=300
    for case_name in $([ "$seconds" -lt 300 ] || "$torture" cases --long); do
        result_of "$case_name" 0 "$torture" case "$case_name"
    done
    limit=120
    # One way after the other, each under each watch.
    read -ra turns <<<"${watches//$'\n'/ }"
    while [ "$SECONDS" -lt "$seconds" ] || [ "$done" -lt "$runs" ]; do
        run_way $((done / ${#turns[@]} % ${#ways[@]})) $((RANDOM << 15 | RANDOM)) "${turns[done % ${#turns[@]}]}"
        done=$((done + 1))
    done
    exit "$failed"
fi

if [ "$rest" = no ]; then
    limit=20
    for case_name in $("$torture" cases); do
        result_of "$case_name" 0 "$torture" case "$case_name"
    done
    limit=120
fi
# Without --rest some ways under the first watch, and few under the others. With it those that this
# leaves out: of the first two watches all ways, of the others some; --seconds takes them all.
few=" four-checked references no-functions "
some=" two four-checked threads forks finalizers references no-functions short-stops hardened "
first=" $(head -n 1 <<<"$possible") "
first_two=" $(head -n 2 <<<"$possible" | tr '\n' ' ') "
is_in() { [ "${1/ $2 /}" != "$1" ]; }
for watch in $watches; do
    for way in "${!ways[@]}"; do
        name=${ways[way]%% *}
        quick=no
        is_in "$first" "$watch" && ways_here=$some || ways_here=$few
        ! is_in "$ways_here" "$name" || quick=yes
        if [ "$rest" = no ]; then
            [ $quick = yes ] || continue
        else
            [ $quick = no ] && { is_in "$first_two" "$watch" || is_in "$some" "$name"; } || continue
        fi
        run_way "$way" $((seed + way)) "$watch"
    done
done
[ "$rest" = no ] || exit "$failed"
# That faults are found: these have to fail, and for the right reason.
for sabotage in lost stale leak weak; do
    for number in 1 2; do
        result_of "finds-$sabotage (seed $number)" 1 "$torture" run --seed "$number" --threads 1 \
            --operations 20000 --sabotage "$sabotage"
        case $sabotage in
        lost | weak) wanted='torture: \(lost\|stale contents\):' ;;
        stale) wanted='torture: stale contents:' ;;
        leak) wanted='torture: leak:' ;;
        esac
        if ! grep -q "$wanted" "$log"; then
            not_ok "finds-$sabotage, and says so (seed $number)" "$log"
        fi
    done
done
exit "$failed"
