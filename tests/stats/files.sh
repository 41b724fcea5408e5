# shellcheck shell=bash disable=SC2154,SC2317 # read by run.sh, which calls by name
# Where recordings and summaries go: the tests of that, as functions. Read by run.sh, which has
# `program`, `count`, `counts` and `is`.

# A descriptor that the program closed, and that is its own file's by now.
closed() {
    program "$out/closed" close "$out/own" 2>"$out/said" || return 1
    [ "$(cat "$out/own")" = own ]
}

# A program that closed all descriptors is recorded no more; its children are.
daemon() {
    rm -f "$out"/daemon.*
    program "$out/daemon" daemon 2>"$out/said" && grep -q 'closed its descriptor' "$out/said" || return 1
    local child
    child=$(echo "$out"/daemon.*)
    [ "$(count "$child" conservative 40)" = 500 ] && [ "$(count "$child" conservative 24)" = "" ] &&
        is "$child" problems '[]'
}

# The file stays right, and the program goes on, where the disk is full.
full() {
    (
        # What is written first has to fit, and 49 KB do not.
        ulimit -f 8
        NEAP_STATS=$out/full "$out/stops" many >"$out/output" 2>"$out/said"
    ) || return 1
    "$neap" report "$out/full" >/dev/null && [ "$(stat -c %s "$out/full")" -le 8192 ] &&
        grep -q 'cannot write' "$out/said"
}

# A summary that cannot be written is said, as far as there is anybody to be told, and the program's
# status stays its own.
summary_refused() {
    (
        ulimit -f 0
        NEAP_SUMMARY=$out/no-summary "$out/requests" 2>&1 || echo "status $?"
    ) | cat >"$out/said"
    [ "$(cut -d: -f1-2 "$out/said")" = "neap: cannot write NEAP_SUMMARY to $out/no-summary" ] || {
        cat "$out/said"
        return 1
    }
    (
        sleep .2
        NEAP_SUMMARY=- "$out/requests" 2>&1
        echo $? >"$out/status"
    ) | true
    [ "$(cat "$out/status")" = 0 ] || {
        echo "status $(cat "$out/status")"
        return 1
    }
}

# Two at once with one name: each has a file.
together() {
    program "$out/together" crash &
    sleep 0.5
    program "$out/together" && wait
    counts "$out/together" && counts "$(echo "$out"/together.*)"
}

# Two of one run after each other, too; what an earlier run has left is recorded over.
in_turn() {
    local turn file=$out/in-turn
    for turn in 1 2; do
        rm -f "$file".*
        "$neap" run --any --stats="$file" -- sh -c "echo \$\$; '$out/requests' & wait; sleep .1; '$out/requests'" >"$out/said" || return 1
        counts "$file" && counts "$(echo "$file".*)" && is "$file" process.parent "$(cat "$out/said")" || return 1
        # The first has the name.
        [ "$file" -ot "$(echo "$file".*)" ] || return 1
    done
}

# Programs that one process of a run becomes, one after another, whatever the name.
execs() {
    local file name
    for name in execs execs.%p; do
        rm -f "$out"/execs*
        "$neap" run --any --stats="$out/$name" -- "$out/requests" exec "$out/requests" exec "$out/requests" || return 1
        [ "$(echo "$out"/execs* | wc -w)" = 3 ] || {
            echo "$out"/execs*
            return 1
        }
        for file in "$out"/execs*; do counts "$file" || return 1; done
    done
}

refused() {
    program "$out/no/such/folder" 2>"$out/said" && grep -q 'nothing is recorded' "$out/said"
}

# file_of VARIABLE NAME: runs a program that writes this file, within its time.
file_of() { timeout 20 env "$1=$2" "$out/requests" 2>"$out/said"; }
is_refused() { file_of "$1" "$2" && grep -q "$1=.*not a regular file" "$out/said"; }

# Files that the user names: long names, names that are no UTF-8, from where the program began. What
# somebody else put there is neither followed nor waited for, and nobody else may read the file.
files() {
    local variable folder=$out/deep name
    rm -rf "$folder" "$out"/caf* "$out/pipe" "$out/private"
    for _ in 1 2 3 4 5 6; do folder=$folder/$(printf 'x%.0s' {1..200}); done
    mkdir -p "$folder" && mkfifo "$out/pipe" && echo mine >"$out/target" &&
        ln -sf target "$out/link" || return 1
    for variable in NEAP_SUMMARY NEAP_STATS; do
        name=$out/$'caf\xe9'
        rm -f "$out/private" "$out/relative"
        file_of $variable "$folder/$variable" && [ -s "$folder/$variable" ] &&
            file_of $variable "$name" && [ -s "$name" ] && rm "$name" &&
            is_refused $variable "$out/link" && [ "$(cat "$out/target")" = mine ] &&
            is_refused $variable "$out/pipe" && is_refused $variable /dev/null &&
            (umask 0 && file_of $variable "$out/private") &&
            [ "$(stat -c %a "$out/private")" = 600 ] &&
            (cd "$out" && env $variable=relative ./moves) && [ -s "$out/relative" ] || {
            echo "$variable: $(cat "$out/said")"
            return 1
        }
    done
}
