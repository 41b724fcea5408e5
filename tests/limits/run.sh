#!/bin/bash
# Tests of limits on memory, of giving memory back, and of writes by the kernel: programs on gc.h,
# run on Neap and, where it shows something, on Debian's libgc beside it. Prints a result line for
# each (CONTRIBUTING.md); what lies in brackets was measured. Called by tools/test.sh. usage:
# tests/limits/run.sh [NAME…]: only these groups (leak, cgroup, soft, shrink, kernel-writes).
#        SHRINK_MIB=N for shrink: how much it holds before it drops a hundredth of it (400 unless
#        told). PREFIX=DIR tests another installation than build/.
. "$(dirname "$0")/../lib.sh"
begin limits
# As users have it.
unset NEAP_MAX_PAUSE NEAP_MIN_TRIGGER
library=$prefix/lib/neap
only=("$@")
limit=60

if ! [ -e "$library/libgc.so.1" ]; then
    echo "run.sh: there is no $library/libgc.so.1; run 'make build' first" >&2
    exit 2
fi

# measured STATUS NAME: a result with what the program said last.
measured() { report "$1" "$2 [$(said)]"; }

said() { tail -n 1 "$out/output"; }

build() {
    compile "$1" cc -O2 -g -Wall -Wextra -Werror "tests/limits/$1.c" -o "$out/$1" \
        "${@:2}" -lgc -lpthread
}

# neap WATCH ASSIGNMENT… PROGRAM ARGUMENT…: runs a program on Neap.
neap() { env LD_LIBRARY_PATH="$library" "NEAP_WATCH=$1" timeout 60 env "${@:2}" >"$out/output" 2>&1; }

# A memory control group of our own with a limit of $1 bytes, and its parent with $2 if given; its
# directory is in $group, the name of its limit's file in $limit. False if this machine does not let
# us.
make_group() {
    local top
    if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
        top=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
    elif grep -qs memory /sys/fs/cgroup/cgroup.subtree_control; then
        top=/sys/fs/cgroup limit=memory.max
    else
        return 1
    fi
    outer=$top/neap-test-$$
    group=$outer/inner
    mkdir "$outer" 2>/dev/null || return 1
    if [ "$limit" = memory.max ]; then echo +memory >"$outer/cgroup.subtree_control"; fi 2>/dev/null
    mkdir "$group" && echo "$1" >"$group/$limit" && echo "${2:-$1}" >"$outer/$limit" && return
    remove_group
    return 1
} 2>/dev/null

remove_group() { rmdir "$group" "$outer" 2>/dev/null; }

# in_group COMMAND…: runs it in the group.
in_group() { (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@" >"$out/output" 2>&1) 2>/dev/null; }

# On Neap, in the group. The library's own warning of the refused allocation goes to standard error
# first.
neap_in_group() { in_group env LD_LIBRARY_PATH="$library" "NEAP_WATCH=$1" timeout 60 env "${@:2}"; }

if wanted leak && build leak; then
    for watch in none pagemap; do
        for arguments in "0" "10 0 3"; do
            # shellcheck disable=SC2086
            neap $watch NEAP_MAX_HEAP=64MiB "$out/leak" $arguments
            measured $? "leak $arguments, max_heap=64MiB, $watch"
        done
    done
fi

if wanted cgroup && build leak; then
    if make_group 64M 1G; then
        # The inner limit; the outer one, tighter; memory that is not the heap's.
        for watch in none pagemap; do
            for arguments in "0" "0 100" "10 0 3"; do
                # shellcheck disable=SC2086
                neap_in_group $watch "$out/leak" $arguments
                measured $? "leak $arguments, in a control group of 64 MiB, $watch"
            done
        done
        if build grow; then
            neap_in_group none "$out/grow"
            measured $? "grow, in a control group of 64 MiB"
        fi
        if build spike; then
            neap_in_group none "$out/spike"
            measured $? "spike, in a control group of 64 MiB: what others had for a moment is forgotten"
        fi
        neap_in_group none NEAP_MAX_HEAP=16MiB "$out/leak"
        status=$?
        kept=$(said | sed 's/.*"kept_mib": \([0-9]*\).*/\1/')
        [ $status = 0 ] && [ "$kept" -le 16 ]
        measured $? "leak, max_heap=16MiB wins over the control group"
        { in_group timeout 60 "$out/leak"; } 2>/dev/null
        echo "# on Debian's libgc the same program ends with status $? in that group (137: the kernel killed it)"
        remove_group
    else
        skip "leak in a control group" "no memory control group can be made here"
    fi
    if make_group 64M 1G; then
        neap_in_group none "$out/leak" 10 &
        job=$!
        sleep 0.4
        echo 128M >"$group/$limit"
        wait "$job"
        status=$?
        kept=$(said | sed 's/.*"kept_mib": \([0-9]*\).*/\1/')
        [ $status = 0 ] && [ "$kept" -gt 64 ]
        measured $? "leak 10, in a control group of 64 MiB that gets 128 while it runs"
        remove_group
    fi
    if make_group 1G 64M; then
        neap_in_group none "$out/leak"
        measured $? "leak, in a control group whose parent has 64 MiB"
        remove_group
    fi
fi

# A program that holds 40 MB, of a kind that leaves the collector time enough.
if wanted soft && build steady; then
    peak() { sed 's/.*"peak_bytes":\([0-9]*\).*/\1/' "$out/summary"; }
    for watch in none pagemap; do
        neap $watch NEAP_SOFT_LIMIT=none "NEAP_SUMMARY=$out/summary" "$out/steady" 40 200 400
        free=$(peak)
        # Half of the time is all that cycles get, and on a busy machine they take longer.
        for _ in 1 2 3; do
            neap $watch NEAP_SOFT_LIMIT=50MiB "NEAP_SUMMARY=$out/summary" "$out/steady" 40 200 400
            status=$?
            limited=$(peak)
            echo "# most of the heap in use: $((limited >> 20)) MiB, without the limit $((free >> 20))"
            [ $status = 0 ] && [ "$limited" -gt $((58 << 20)) ] || break
        done
        [ $status = 0 ] && [ "$limited" -le $((58 << 20)) ] && [ "$free" -gt "$limited" ]
        measured $? "soft_limit=50MiB, $watch"
    done
fi

# What a program dropped goes back though it does nothing more; all of these at once, since they
# mostly sleep.
if wanted shrink && build shrink; then
    mib=${SHRINK_MIB:-400}
    began() { env LD_LIBRARY_PATH="$library" "NEAP_WATCH=$1" timeout 60 "$out/shrink" "$mib" "${@:3}" >"$out/shrink-$2" 2>&1; }
    began none 1 10 40 &
    jobs=($!)
    began pagemap 2 10 40 &
    jobs+=($!)
    began pagemap 3 10 40 5 &
    jobs+=($!)
    names=("none" "pagemap" "pagemap, dropped later")
    for index in 0 1 2; do
        wait "${jobs[index]}"
        status=$?
        cp "$out/shrink-$((index + 1))" "$out/output"
        measured $status "shrink from $mib MB and idle, ${names[index]}"
    done
fi

# Each way of writing under each watch that protects pages, some on Debian's libgc beside. Many
# small cycles, so that pages are written while one marks. What the front ends stand before is tried
# under `mprotect`; io_uring they cannot, and roots are not protected there.
if wanted kernel-writes && build kernel_writes; then
    for way in read recv io_uring "read 40000 static" "read 40000 registered" "io_uring 40000 static" \
        pwrite write readv pread preadv recvfrom recvmsg recvmmsg fread; do
        case $way in
        read | recv) watches=(pagemap snapshot mprotect) ;;
        pwrite | write) watches=(pagemap snapshot mprotect) ;;
        io_uring | *\ *) watches=(pagemap snapshot) ;;
        *) watches=(mprotect) ;;
        esac
        [ "${way#* }" != "$way" ] || way="$way 40000 heap"
        for watch in "${watches[@]}"; do
            if ! "$prefix/bin/neap" doctor | grep -q "^ *$watch *works"; then
                skip "kernel writes, $way, $watch" "it does not work here"
                continue
            fi
            # shellcheck disable=SC2086
            neap "$watch" NEAP_MIN_TRIGGER=256K NEAP_GROWTH=0.1 "$out/kernel_writes" $way
            status=$?
            if [ $status = 77 ]; then
                skip "kernel writes, $way, $watch" "the kernel does not offer io_uring here"
                continue
            fi
            measured $status "kernel writes, $way, $watch"
        done
        [ ${#watches[@]} -gt 1 ] || continue
        # shellcheck disable=SC2086
        timeout 60 "$out/kernel_writes" $way >"$out/peer" 2>&1
        echo "# the same on Debian's libgc, incremental (status 3: it refused with EFAULT): status $?: $(tail -n 1 "$out/peer")"
    done
fi
exit "$failed"
