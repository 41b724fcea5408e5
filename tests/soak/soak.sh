#!/bin/bash
# Hours of everything that could lose an object, by chance: torture in all its ways, storms of
# forks, little memory, sequences of calls, system calls refused, real programs; under all watches,
# one after the other. Prints a line a minute, and at the end the row for docs/reliability.md.
# Usage: tests/soak/soak.sh [HOURS]; HOURS may be a fraction (0.1), SEED=N is the first seed. Called
# by `make soak` and tools/long.sh.
#
# The counts are what the programs themselves say that they did. A failure says with which command
# and seed it goes again, and what the run said stays in build/soak.
. "$(dirname "$0")/../lib.sh"
begin soak
unset "${!NEAP_@}"
. tests/torture/ways.sh
. tests/fuzz/build.sh

hours=${1:-1}
seconds=$(awk -v hours="$hours" 'BEGIN { if (hours !~ /^[0-9.]+$/) exit 1; print int(hours * 3600) }') || {
    echo "run.sh: wants hours, not '$hours'" >&2
    exit 2
}
build_torture
build gc gc "$prefix/lib/neap" && build neap neap "$prefix/lib" || exit 1
for interface in gc neap; do
    library=$prefix/lib define=
    [ $interface = neap ] && define=-DNEAP || library=$prefix/lib/neap
    # shellcheck disable=SC2086
    compile "program of faults" cc -std=gnu11 -O2 $define -I"$prefix/include" \
        tests/faults/program.c -o "$out/program-$interface" -L"$library" -Wl,-rpath,"$library" \
        -l$interface -pthread || exit 1
done
compile refuse cc -std=gnu11 -O2 tests/faults/refuse.c -o "$out/refuse" || exit 1
read -ra watches <<<"$("$torture" watches | tr '\n' ' ')"
read -ra clients <<<"$(tests/clients/run.sh --list | tr '\n' ' ')"
RANDOM=${SEED:-$(date +%N | sed 's/^0*//')}

declare -A runs=([torture]=0 [forks]=0 [memory]=0 [sequences]=0 [faults]=0 [clients]=0)
operations=0 cycles=0 forks=0 all=0 bad=0
began=$SECONDS next=60

# one LOG SEED COMMAND…: a run; what it counted is added up.
one() {
    local log=$1 seed=$2 status number word
    shift 2
    timeout --kill-after=5 300 "$@" >"$log" 2>&1
    status=$?
    while read -r number word; do
        case $word in
        operations) operations=$((operations + number)) ;;
        cycles) cycles=$((cycles + number)) ;;
        forks) forks=$((forks + number)) ;;
        esac
    done < <(grep -oE '[0-9]+ (operations|cycles|forks)\b' "$log")
    # Nothing may be traced here.
    [ "$kind" != faults ] || [ $status != 3 ] || status=0
    all=$((all + 1)) runs[$kind]=$((runs[$kind] + 1))
    [ $status != 0 ] || return 0
    bad=$((bad + 1))
    cp "$log" "$out/failed-$bad"
    echo "# seed $seed, status $status: NEAP_WATCH=${NEAP_WATCH:-} NEAP_CHECK=${NEAP_CHECK:-} $*"
    echo "# said: $out/failed-$bad"
    not_ok "$kind, run $all" "$log"
}

summary() {
    echo "$operations operations, $cycles cycles, $forks forks in $all runs: $(
        for kind in torture forks memory sequences faults clients; do
            echo -n "$kind ${runs[$kind]}, "
        done
    )failed $bad"
}

# What is to be run next: mostly torture and sequences, which do most in a second.
kinds=(torture torture torture forks forks memory sequences sequences sequences faults clients)
while [ $((SECONDS - began)) -lt "$seconds" ]; do
    kind=${kinds[RANDOM % ${#kinds[@]}]}
    watch=${watches[RANDOM % ${#watches[@]}]}
    seed=$((RANDOM << 15 | RANDOM))
    log=$out/output
    read -ra way <<<"${ways[RANDOM % ${#ways[@]}]}"
    run=("$torture" run --seed "$seed" --neap max_pause=0)
    case $kind in
    torture) one "$log" $seed "${run[@]}" "${way[@]:1}" --neap "watch=$watch" ;;
    # Each child forks on, up to three in a row: more would be thousands of processes.
    forks)
        one "$log" $seed "${run[@]}" --threads $((1 + RANDOM % 4)) --operations 2000 \
            --forks $((20 + RANDOM % 40)) --neap min_trigger=65536 --neap "watch=$watch"
        ;;
    memory)
        one "$log" $seed "${run[@]}" --threads $((1 + RANDOM % 3)) --operations 6000 \
            --live-bytes 2000000 --largest 200000 --neap max_heap=$((5 + RANDOM % 6))MiB \
            --neap soft_limit=4MiB --neap check=2 --neap "watch=$watch"
        ;;
    sequences)
        program=$([ $((RANDOM % 2)) = 0 ] && echo gc || echo neap)
        NEAP_WATCH=$watch NEAP_MIN_TRIGGER=256K NEAP_MAX_PAUSE=0 NEAP_CHECK=$((RANDOM % 4)) \
            one "$log" $seed "$out/$program" $seed 20 $((500 + RANDOM % 3500))
        ;;
    faults)
        interface=$([ $((RANDOM % 2)) = 0 ] && echo gc || echo neap)
        library=libgc shape=$([ $((RANDOM % 2)) = 0 ] && echo plain || echo fork)
        [ "$interface" = gc ] || library=libneap
        NEAP_WATCH=$watch NEAP_MIN_TRIGGER=256K LD_LIBRARY_PATH=$prefix/lib/neap \
            one "$log" $seed "$out/refuse" $library.so once $((1 + RANDOM % 6)) 20 \
            "$out/program-$interface" "$shape"
        ;;
    clients)
        client=${clients[RANDOM % ${#clients[@]}]}
        NEAP_WATCH=$watch one "$log" $seed tests/clients/run.sh --only "$client"
        ;;
    esac
    if [ $((SECONDS - began)) -ge "$next" ]; then
        echo "# $(((SECONDS - began) / 60)) min: $(summary)"
        next=$((SECONDS - began + 60))
    fi
done
echo "# $(((SECONDS - began) / 60)) min: $(summary)"
echo "# for docs/reliability.md:"
echo "# | $(date +%Y-%m-%d) | $(((SECONDS - began) / 60)) | $all | $operations | $cycles | $forks | $bad |"
[ "$bad" != 0 ] || passed "$all runs in $(((SECONDS - began) / 60)) min"
exit "$failed"
