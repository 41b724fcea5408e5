# Which kinds of cycles come where a stop is short, and where there is nobody else: what
# NEAP_LOG=cycles says of them. Sourced by tests/c/run.sh.

# kinds FILE: of the cycles in a log, one on each line.
kinds() { sed -n 's/.* kind=\([a-z]*\) .*/\1/p' "$1"; }

# stops AT_LEAST AT_MOST MAX_PAUSE KIB: of a hundred cycles so many stop the world, where so much is
# live. The first ones are not counted: nothing is measured yet.
stops() {
    NEAP_MAX_PAUSE=$3 NEAP_WATCH=pagemap NEAP_LOG=cycles "$out/max_pause" "$4" 200 \
        >"$out/log" 2>&1 && kinds "$out/log" | tail -n +4 >"$out/kinds" || return
    local all stopped
    all=$(wc -l <"$out/kinds") stopped=$(grep -c '^full$' "$out/kinds")
    echo "$stopped of $all cycles stopped the world"
    [ "$all" -ge 3 ] && [ $((stopped * 100)) -ge $(($1 * all)) ] &&
        [ $((stopped * 100)) -le $(($2 * all)) ]
}

# alone WATCH MICROSECONDS KIND: each of the cycles is of that kind.
alone() {
    NEAP_MAX_PAUSE=1 NEAP_WATCH=$1 NEAP_LOG=cycles "$out/alone" "$2" >"$out/log" 2>&1 &&
        [ "$(kinds "$out/log" | sort -u)" = "$3" ]
}

# copies AT_MOST ARGUMENT…: of a hundred cycles so many were marked by a child at most, and some.
copies() {
    local all forked at_most=$1
    shift
    NEAP_MAX_PAUSE=1 NEAP_MIN_TRIGGER=1M NEAP_WATCH=fork NEAP_LOG=cycles \
        "$out/costly_snapshots" "$@" >"$out/log" 2>&1 || return
    # One that marked in vain is a full cycle with a first stop.
    all=$(kinds "$out/log" | wc -l)
    forked=$(grep -cE ' kind=fork | kind=full .* first_us=[1-9]' "$out/log")
    echo "$forked of $all cycles had a child"
    [ "$all" -ge 30 ] && [ "$forked" -ge 2 ] && [ $((forked * 100)) -le $((at_most * all)) ]
}

# outgrown WATCH: no cycle with much alive stopped the world, and some ran beside the program.
outgrown() {
    NEAP_MAX_PAUSE=1 NEAP_MIN_TRIGGER=32M NEAP_WATCH=$1 NEAP_LOG=cycles "$out/outgrown" \
        >"$out/log" 2>&1 || return
    grep -E ' live_kib=[0-9]{5,} ' "$out/log" >"$out/much" || return
    ! grep -q ' kind=full ' "$out/much"
}

# shellcheck disable=SC2086
if sooner outgrown && build outgrown.c outgrown -O2 $link; then
    for watch in pagemap mprotect snapshot; do result "outgrown, watch=$watch" outgrown $watch; done
fi

# shellcheck disable=SC2086
if sooner costly_snapshots && build costly_snapshots.c costly_snapshots -O2 $link; then
    result "costly_snapshots, much other memory" copies 30 6000 500
    result "costly_snapshots, in vain" copies 30 6000 0 weak
fi

if sooner alone || sooner max_pause; then
    if ! "$prefix/bin/neap" doctor | grep -q 'NEAP_WATCH=auto would take pagemap'; then
        skip alone "there is no watch=pagemap here"
        skip max_pause "there is no watch=pagemap here"
        return
    fi
    # shellcheck disable=SC2086
    if sooner alone && build alone.c alone -O2 $link; then
        result "alone, one thread" alone pagemap 0 alone
        result "alone, another sleeps" alone pagemap 2000 concurrent
        result "alone, world stopped" alone none 0 full
    fi
    # shellcheck disable=SC2086
    if sooner max_pause && build max_pause.c max_pause -O2 $link; then
        result "max_pause, a small heap" stops 80 100 100 500
        result "max_pause, a small heap beside the program" stops 0 0 0 500
        result "max_pause, a heap too large for it" stops 0 25 1 100000
    fi
fi
