# shellcheck shell=bash disable=SC2034 # what it sets is for the scripts that source it
# What the run.sh of the parts under tests/ share: a test is a command, its result a line
# (CONTRIBUTING.md, "Tests"). Sourced, never run by itself:
#
#     . "$(dirname "$0")/../lib.sh"
#     begin NAME          # goes to the top of the tree; sets $prefix, $out and $failed
#     result TEST COMMAND…
#     exit "$failed"
#
# PREFIX=DIR tests another installation than build/; OUT=DIR keeps what is built elsewhere than
# build/NAME; JOBS=N runs so many tests at once that do not mind (as many as there are processors).

set -uo pipefail

# begin NAME: what every part does first.
begin() {
    part=$1
    from=$PWD # where it was called
    cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
    prefix=$(realpath "${PREFIX:-build}")
    out=$(realpath -m "${OUT:-build/$part}")
    mkdir -p "$out"
    # A run that was ended may have left its results.
    rm -rf "$out/beside"
    # Programs of tests have small heaps: else nearly all of their cycles would stop the world.
    # And they count what dies of what they allocate until they ask for a cycle.
    export NEAP_MAX_PAUSE=${NEAP_MAX_PAUSE-0} NEAP_MIN_TRIGGER=${NEAP_MIN_TRIGGER-4M}
    failed=0 results=0
    only=()
    # Seconds that one test may take (LIMIT), and lines that are shown of one that failed.
    limit=${LIMIT:-120}
    shown=30
    at_once=${JOBS:-$(nproc)}
    beside=0
}

# wanted NAME…: whether one of these was asked for, or nothing was: $only is what was asked for.
wanted() {
    local name one
    [ ${#only[@]} = 0 ] && return
    for name in "${only[@]}"; do
        for one in "$@"; do [ "$name" != "$one" ] || return 0; done
    done
    return 1
}

# Lines of a file as comments, no line longer than a terminal is patient.
comment() { head -n "$shown" "${1:--}" | cut -c1-300 | sed 's/^/# /'; }

passed() {
    echo "ok - $part/$1"
    results=$((results + 1))
}
skip() { passed "$1 # SKIP $2"; }

# not_ok NAME [FILE]: a failure, with what the file says before it (- for standard input).
not_ok() {
    [ $# = 1 ] || comment "$2"
    echo "not ok - $part/$1"
    failed=1 results=$((results + 1))
}

# report STATUS NAME: a result, of what wrote $out/output.
report() {
    if [ "$1" = 0 ]; then
        passed "$2"
        return
    fi
    comment "$out/output"
    [ "$1" != 124 ] || echo "# did not end within $limit s"
    echo "# ended with status $1"
    not_ok "$2"
    return 1
}

# within COMMAND…: runs a command in its time; what it says is in $out/output. A function of the
# script has no time limit.
within() {
    if [ "$(type -t "$1")" = function ]; then
        "$@" >"$out/output" 2>&1
    else
        timeout --kill-after=5 "$limit" "$@" >"$out/output" 2>&1
    fi
}

# result NAME COMMAND…: one result; says what the command said if it failed.
result() {
    local name=$1 status
    shift
    within "$@"
    status=$?
    [ "$status" = 0 ] || echo "# failed: $*"
    report "$status" "$name"
}

# result_beside NAME COMMAND…: as `result`, for a test that does not mind others beside it: the
# result is shown when it is there. `settle` waits for all of them.
result_beside() {
    while [ "$(jobs -pr | wc -l)" -ge "$at_once" ]; do wait -n; done
    beside=$((beside + 1))
    local folder=$out/beside/$beside
    mkdir -p "$folder"
    (
        out=$folder
        result "$@" >"$folder/result"
        # From file to file `cat` copies within the kernel, which minds no other who writes there.
        cat "$folder/result" | cat
    ) &
}

# settle: waits for the tests that run beside the script, and counts their failures. One that has no
# result, as where the disk is full, has failed too.
settle() {
    local number
    wait
    ! grep -qs '^not ok - ' "$out"/beside/*/result || failed=1
    for ((number = 1; number <= beside; number++)); do
        grep -qsE '^(not )?ok - ' "$out/beside/$number/result" ||
            not_ok "test $number of those beside each other has a result"
    done
    rm -rf "$out/beside"
    beside=0
}

# compile OUTPUT COMMAND…: runs a compiler; a failure is a result.
compile() {
    local program=$1
    shift
    "$@" >"$out/output" 2>&1 && return
    not_ok "$program (does not compile)" "$out/output"
    return 1
}

# Builds the torture program; its path is in $torture.
build_torture() {
    tools/with-rust.sh cargo build --quiet --profile torture --package neap-torture || {
        not_ok "neap-torture can be built"
        exit 1
    }
    local target
    target=$(tools/with-rust.sh cargo metadata --format-version 1 --no-deps |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    torture=$target/torture/neap-torture
}
