#!/bin/bash
# Asks running programs what is alive in them by `neap heap PID`: one that allocates, an idle one,
# one on the drop-in; and those that must refuse. Usage: tests/observe/heap-of-process.sh.
# PREFIX=DIR tests another installation. Called by tests/observe/run.sh, which builds the client.
# shellcheck disable=SC2317 # functions are called by name
. "$(dirname "$0")/../lib.sh"
begin observe
neap=$prefix/bin/neap

cc -O1 -g -Wall -Wextra -Werror -I"$prefix/include/neap" tests/observe/asked.c -o "$out/asked" -L"$prefix/lib/neap" \
    -Wl,-rpath,"$prefix/lib/neap" -lgc >"$out/output" 2>&1 || {
    sed 's/^/# /' "$out/output"
    echo "not ok - observe/the program on libgc's interface builds"
    exit 1
}

# asked PROGRAM…: starts it, and asks for its heap as `ask` says; it must run on to its end.
asked() {
    local client status=1 program
    coproc ASKED { exec env NEAP_MIN_TRIGGER=256K "$@"; }
    program=$ASKED_PID
    local input=${ASKED[1]}
    if read -r -t 60 _ client <&"${ASKED[0]}" && ask "$client"; then status=0; fi
    eval "exec $input>&-"
    wait "$program" || return 1
    return "$status"
}
# The whole graph, no child is left a moment later, and no stop of the process was long: the one in
# which it is copied is among those on its page.
graph() {
    rm -f "$out/asked.heapsnapshot"
    "$neap" heap --save "$out/asked.heapsnapshot" "$1" | tee "$out/said" || return 1
    [ "$(stat -c %a "$out/asked.heapsnapshot")" = 600 ] || return 1
    local turns=20
    until [ -z "$(ps -o pid= --ppid "$1")" ]; do
        [ $((turns--)) != 0 ] || { echo "a child is left"; return 1; }
        sleep 0.05
    done
    "$neap" top --batch --count 1 "$1" | grep '^stops'
    # Twice in a row, and the file says the same as the process.
    "$neap" heap "$1" >/dev/null && "$neap" heap "$out/asked.heapsnapshot" | cmp - "$out/said"
}
on_neap() {
    graph "$1" && grep -q '^ *1,000 *31.2 KiB .* layout 0' "$out/said" &&
        "$neap" heap "$1" --of layout --rows 1 | tee "$out/said" && grep -qx '  variable list of client' "$out/said"
}
on_libgc() {
    graph "$1" && grep -q '^ *1,000 *62.5 KiB .* conservative, 64 bytes' "$out/said" &&
        "$neap" heap "$1" --of conservative --rows 1 | tee "$out/said" && grep -qx '  variable list of asked' "$out/said"
}
# Several who ask at once are answered one after the other.
at_once() {
    local askers=() asker status=0
    for asker in 1 2 3 4; do
        "$neap" heap "$1" >"$out/at-once.$asker" 2>&1 &
        askers+=($!)
    done
    for asker in "${askers[@]}"; do wait "$asker" || status=1; done
    tail -n 3 "$out"/at-once.*
    return "$status"
}
# uncollected PROCESS TEXT: without a collector's thread it has nobody who could answer, which is
# said.
uncollected() {
    local said
    said=$(timeout 5 "$neap" heap "$1" 2>&1) && return 1
    echo "$said"
    [[ $said == *"$2"* ]]
}
# One that is visible shows what there is, and says of what was not yet that it was not.
visible() {
    "$neap" top --batch --count 1 "$1" | tee "$out/said" || return 1
    grep -q '^heap .* no cycle yet, ' "$out/said" && grep -qx 'last cycle  none yet' "$out/said" &&
        "$neap" metrics "$1" | grep -q '^neap_cycles_total{.*} 0$' &&
        "$neap" heap "$1" | tee "$out/said" && grep -q '^ *1,000 *62.5 KiB .* conservative, 64 bytes' "$out/said"
}
# Who holds the lock by which they take turns for ever has nobody wait for ever.
locked() {
    local file holder said status=0
    file=$(find "/proc/$1/fd" -lname '*neap-ask*')
    flock "$file" sleep 300 &
    holder=$!
    sleep 1
    said=$(timeout 100 "$neap" heap "$1" 2>&1) && status=1
    kill "$(ps -o pid= --ppid $holder)"
    echo "$said"
    [ "$status" = 0 ] && [[ $said == *"asking it for half a minute"* ]] && graph "$1"
}
# A process that is stopped answers nobody, and goes on as if nobody had asked.
stopped() {
    local said status=0
    kill -STOP "$1"
    said=$("$neap" heap "$1" 2>&1) && status=1
    kill -CONT "$1"
    echo "$said"
    [ "$status" = 0 ] && [[ $said == *"no answer in 10 seconds: it is stopped"* ]] && graph "$1"
}
for_others() {
    local said
    said=$(setpriv --reuid 65534 --clear-groups "$neap" heap "$1" 2>&1) && return 1
    echo "$said"
    [[ $said == *"is not yours to look at"* ]]
}
set_user_id() {
    local said
    said=$("$neap" heap "$1" 2>&1) && return 1
    echo "$said"
    [[ $said == *"cannot be asked for a snapshot"*"set-user-id"* ]]
}

ask() { on_neap "$1"; }
result "heap of a process that allocates" asked "$out/client"
result "heap of an idle process" asked "$out/client" idle
ask() { on_libgc "$1"; }
result "heap of a process on libgc's interface" asked "$out/asked"
ask() { uncollected "$1" "it has not collected yet"; }
result "a process that has not collected says so at once" asked \
    env NEAP_MIN_TRIGGER=16M "$out/asked" 1000
ask() { uncollected "$1" "seen from its start on"; }
result "a process that has hardly begun says so at once" asked "$out/asked" 0
ask() { visible "$1"; }
result "a visible process can be asked before it has collected" asked env NEAP_VISIBLE=1 "$out/asked" 0
# A cycle has begun, and waits for the program, which allocates nothing any more.
in_a_cycle() {
    sleep 0.5
    "$neap" top --batch --count 1 "$1" | tee "$out/said" || return 1
    grep -q '^cycles .* phase' "$out/said" && ! grep -q 'phase idle' "$out/said" && on_libgc "$1"
}
ask() { in_a_cycle "$1"; }
for watch in pagemap fork mprotect snapshot; do
    result "heap of a process that is idle in a cycle, watch=$watch" asked \
        env NEAP_WATCH=$watch "$out/asked" 400 part
done
ask() { at_once "$1"; }
result "several ask a process at once" asked "$out/client"
ask() { locked "$1"; }
result "nobody waits for ever for others who ask" asked "$out/client" idle
ask() { stopped "$1"; }
result "a process that is stopped does not answer" asked "$out/client" idle
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups test -x "$neap" 2>/dev/null; then
    ask() { for_others "$1"; }
    result "heap of another user's process is refused" asked "$out/client" idle
    folder=$(mktemp -d) && chmod 755 "$folder" && cp "$out/client" "$folder" && chmod 4755 "$folder/client"
    ask() { set_user_id "$1"; }
    if findmnt -no OPTIONS -T "$folder" | grep -q nosuid; then
        skip "a set-user-id program cannot be asked" "temporary files have no such bit here"
    else
        result "a set-user-id program cannot be asked" \
            asked setpriv --reuid 65534 --clear-groups "$folder/client" idle
    fi
    rm -r "$folder"
else
    skip "heap of other users' processes" "it needs root, and a tool that others may run"
fi
exit "$failed"
