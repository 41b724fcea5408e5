#!/bin/bash
# Hours of everything that could lose an object, by chance: torture in all its ways, storms of
# forks, little memory, sequences of calls, system calls refused, real programs; under all watches,
# as many at a time as there are processors. Prints a line a minute, and at the end the row for
# docs/reliability.md.
# Usage: tests/soak/soak.sh [HOURS]; HOURS may be a fraction (0.1), SEED=N is the first seed, JOBS=N
# how many at a time, KINDS="long forks" runs these sorts alone. Called by `make soak` and
# tools/long.sh.
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
jobs=${JOBS:-$(nproc)}

sorts=(torture short long forks memory sequences faults clients)
# What is counted: of each sort the runs, and of all together.
counted=("${sorts[@]}" operations calls cycles forks_made all bad)
declare -A count
for what in "${counted[@]}"; do count[$what]=0; done
began=$SECONDS

# Seconds that a run may take: many, for machines that do much else, or nothing for a while.
most=600
# looks_at_those_that_stand: has gdb say where each thread of a run is whose time is nearly over;
# into build/soak/stands-PID.
looks_at_those_that_stand() {
    local process age group
    while sleep 20; do
        while read -r process age group; do
            [ "$age" -gt $((most - 120)) ] && [ ! -e "$out/stands-$process" ] || continue
            case $(readlink "/proc/$process/exe") in "$torture" | "$out"/*) ;; *) continue ;; esac
            {
                ps -o pid,ppid,stat,etimes,time,wchan:20,args -p "$(pgrep -d, -g "$group")"
                timeout 60 gdb -p "$process" -batch -ex 'thread apply all backtrace'
            } >"$out/stands-$process" 2>&1 </dev/null
        done < <(ps -eo pid=,etimes=,pgid=)
    done
}
if command -v gdb >/dev/null; then
    looks_at_those_that_stand &
    looking=$!
    trap 'kill "$looking" 2>/dev/null' EXIT
fi

# one LOG SEED COMMAND…: a run; what it counted is added up.
one() {
    local log=$1 seed=$2 status said='' line
    shift 2
    timeout --kill-after=60 $most "$@" >"$log" 2>&1
    status=$?
    # Without another process: most runs are short.
    while read -r line; do
        [[ $line != *operations,* ]] || said=$line
    done <"$log"
    [[ ! $said =~ ([0-9]+)\ operations ]] || ((count[operations] += BASH_REMATCH[1]))
    [[ ! $said =~ ([0-9]+)\ calls ]] || ((count[calls] += BASH_REMATCH[1]))
    [[ ! $said =~ ([0-9]+)\ cycles ]] || ((count[cycles] += BASH_REMATCH[1]))
    [[ ! $said =~ ([0-9]+)\ forks ]] || ((count[forks_made] += BASH_REMATCH[1]))
    # Nothing may be traced here.
    [ "$kind" != faults ] || [ $status != 3 ] || status=0
    ((count[all] += 1, count[$kind] += 1))
    [ $status != 0 ] || return 0
    ((count[bad] += 1))
    cp "$log" "$own/failed-${count[bad]}"
    echo "# seed $seed, status $status: NEAP_WATCH=${NEAP_WATCH:-} NEAP_CHECK=${NEAP_CHECK:-} $*"
    echo "# said: $own/failed-${count[bad]}"
    not_ok "$kind, run ${count[all]} of job $job" "$log"
}

# add_up: has $count be what all jobs together have counted.
add_up() {
    local what number
    for what in "${counted[@]}"; do count[$what]=0; done
    while read -r what number; do ((count[$what] += number)); done < <(cat "$out"/job-*/count)
}

summary() {
    echo "${count[operations]} operations, ${count[calls]} calls in sequences, ${count[cycles]} cycles, ${count[forks_made]} forks in ${count[all]} runs: $(
        for kind in "${sorts[@]}"; do
            echo -n "$kind ${count[$kind]}, "
        done
    )failed ${count[bad]}"
}

# so_short: the words of a way with few operations and fewer threads begun, one time in sixteen with
# some more: most of such a run is its beginning and its end.
so_short() {
    local at few=$((5 + RANDOM % 60))
    [ $((RANDOM % 16)) != 0 ] || few=$((100 + RANDOM % 500))
    for at in "${!way[@]}"; do
        case ${way[at]} in
        --operations) way[at + 1]=$few ;;
        --spawns) way[at + 1]=30 ;;
        esac
    done
}

# What is to be run next. Short runs try beginnings and ends, long ones do most operations.
kinds=(torture torture short short long long long forks forks memory sequences sequences faults
    clients)
[ -z "${KINDS:-}" ] || read -ra kinds <<<"$KINDS"
for kind in "${kinds[@]}"; do
    [[ " ${sorts[*]} " = *" $kind "* ]] || {
        echo "soak.sh: no sort of runs is called '$kind'; there are ${sorts[*]}" >&2
        exit 2
    }
done

# something: runs one of these, or two hundred short ones.
something() {
    kind=${kinds[RANDOM % ${#kinds[@]}]}
    watch=${watches[RANDOM % ${#watches[@]}]}
    seed=$((RANDOM << 15 | RANDOM))
    log=$own/output
    read -ra way <<<"${ways[RANDOM % ${#ways[@]}]}"
    run=("$torture" run --seed "$seed" --neap max_pause=$((RANDOM % 2)))
    case $kind in
    torture) one "$log" $seed "${run[@]}" "${way[@]:1}" --neap "watch=$watch" ;;
    short)
        for ((turn = 0; turn < 200; turn++)); do
            watch=${watches[RANDOM % ${#watches[@]}]}
            seed=$((RANDOM << 15 | RANDOM))
            read -ra way <<<"${ways[RANDOM % ${#ways[@]}]}"
            so_short
            one "$log" $seed "$torture" run --seed "$seed" \
                --neap max_pause=$((RANDOM % 2)) "${way[@]:1}" --neap "watch=$watch"
        done
        ;;
    long)
        functions=()
        [ $((RANDOM % 3)) = 0 ] || functions=(--no-functions)
        one "$log" $seed "${run[@]}" "${functions[@]}" --threads $((1 + RANDOM % 3)) \
            --operations $((30000 + RANDOM * 2)) --audits 1 --collections 1 \
            --controls $((1 + RANDOM % 20)) --alone $((512 << (RANDOM % 7))) --spawns 1 \
            --forks $((RANDOM % 2)) --fibers 5 --monitors 100 --largest 2000 \
            --live-bytes $((300000 + RANDOM * 100)) --neap "watch=$watch"
        ;;
    # Each child forks on, twice at most, and up to three in a row.
    forks)
        one "$log" $seed "${run[@]}" --threads $((1 + RANDOM % 4)) --operations 1000 \
            --forks $((50 + RANDOM % 350)) --neap min_trigger=65536 --neap "watch=$watch"
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
        # Two at once would meet in the same folder.
        NEAP_WATCH=$watch one "$log" $seed flock "$out/clients" tests/clients/run.sh --only "$client"
        ;;
    esac
}

# job N: runs one thing after the other until the time is over, in a process of its own.
job() {
    job=$1 own=$out/job-$1
    while [ $((SECONDS - began)) -lt "$seconds" ]; do
        something
        for what in "${counted[@]}"; do echo "$what ${count[$what]}"; done >"$own/counting"
        mv "$own/counting" "$own/count"
    done
}

# A run before may have had more jobs.
rm -f "$out"/job-*/count
running=()
for ((number = 1; number <= jobs; number++)); do
    mkdir -p "$out/job-$number"
    : >"$out/job-$number/count"
    seed=$((RANDOM << 15 | RANDOM))
    (RANDOM=$seed && job $number) &
    running+=($!)
done
while [ $((SECONDS - began + 60)) -lt "$seconds" ]; do
    sleep 60
    add_up
    echo "# $(((SECONDS - began) / 60)) min: $(summary)"
done
wait "${running[@]}"
add_up
minutes=$(((SECONDS - began) / 60))
echo "# $minutes min: $(summary)"
echo "# for docs/reliability.md:"
echo "# | $(date +%Y-%m-%d) | $minutes | ${count[all]} | ${count[operations]} | ${count[cycles]} | ${count[forks_made]} | ${count[bad]} |"
[ "${count[bad]}" = 0 ] || exit 1
passed "${count[all]} runs in $minutes min"
