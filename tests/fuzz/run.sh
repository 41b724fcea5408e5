#!/bin/bash
# Sequences of calls on gc.h and neap.h, decided by bytes, against a shadow heap: some seeds under
# every watch. Usage: tests/fuzz/run.sh; SEQUENCES=N for so many of each (60). Called by `make
# fuzz`.
. "$(dirname "$0")/../lib.sh"
begin fuzz
# What makes cycles frequent.
export NEAP_MIN_TRIGGER=256K
shared="tests/fuzz/shadow.c tests/fuzz/finalize.c tests/fuzz/sequence.c tests/fuzz/driver.c"
warnings="-Wall -Wextra -Werror -Wno-deprecated-declarations"

# build NAME INTERFACE LIBRARIES ARGUMENT…: a program on an interface, and on libraries that lie in
# a folder.
build() {
    local name=$1 interface=$2 libraries=$3 include=$prefix/include link=-lneap
    local sources="$shared tests/fuzz/on_neap.c"
    shift 3
    if [ "$interface" = gc ]; then
        include=$prefix/include/neap link=-lgc
        sources="$shared tests/fuzz/on_gc.c tests/fuzz/gc_operations.c"
    fi
    # shellcheck disable=SC2086
    compile "$name" cc -std=gnu11 -O2 -g $warnings -I"$include" $sources \
        -o "$out/$name" -L"$libraries" -Wl,-rpath,"$libraries" $link \
        -pthread "$@"
}

build gc gc "$prefix/lib/neap" && build neap neap "$prefix/lib" || exit 1
first=1
for watch in pagemap fork snapshot mprotect none; do
    for interface in gc neap; do
        result_beside "$interface, seeds from $first on, watch=$watch" \
            env NEAP_WATCH=$watch NEAP_CHECK=3 "$out/$interface" $first "${SEQUENCES:-60}"
        first=$((first + 1000))
    done
done
settle
exit "$failed"
