#!/bin/bash
# Sequences of calls on gc.h and neap.h, decided by bytes, against a shadow heap: some seeds under
# every watch. Usage: tests/fuzz/run.sh; SEQUENCES=N for so many of each (60). Called by `make
# fuzz`.
. "$(dirname "$0")/../lib.sh"
begin fuzz
# What makes cycles frequent.
export NEAP_MIN_TRIGGER=256K
. tests/fuzz/build.sh

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
