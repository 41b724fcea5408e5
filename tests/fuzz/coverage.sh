#!/bin/bash
# Fuzzing with coverage, by libFuzzer: every reader of what comes from outside (neap-cli's module
# `fuzz`), and sequences of calls on gc.h and neap.h against a shadow heap (driver.c). Usage:
# tests/fuzz/coverage.sh [SECONDS]: so long for each (20). Called by `make fuzz` and tools/long.sh.
#
# What libFuzzer is to begin with is in tests/fuzz/corpus; what it finds besides is kept in
# build/fuzz/corpus and taken up the next time; what fails is in build/fuzz, and how it goes again
# is said. libFuzzer is Debian's package libfuzzer-14-dev (or of another number), the compiler of
# Rust any: its own passes count what is covered.
. "$(dirname "$0")/../lib.sh"
begin fuzz
. tests/fuzz/build.sh
shown=80 # where the input lies that failed is said last
seconds=${1:-20}
engine() {
    # shellcheck disable=SC2012 # versions are numbers
    ls -v /usr/lib/llvm-*/lib/libFuzzer.a 2>/dev/null | tail -n 1
}
[ -n "$(engine)" ] || tools/setup.sh fuzz >&2
engine=$(engine)
if [ -z "$engine" ]; then
    echo "coverage.sh: this needs libFuzzer: Debian's package libfuzzer-14-dev, or of another number" >&2
    exit 3
fi
host=$(tools/with-rust.sh rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module"
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$flag"
done
built=target/fuzz/$host/fuzz
# with_coverage ARGUMENT…: cargo, for code that says what of it was run.
with_coverage() {
    CARGO_TARGET_DIR=target/fuzz RUSTFLAGS=$flags tools/with-rust.sh cargo "$1" \
        --quiet --profile fuzz --target "$host" "${@:2}"
}

limit=3600 # of a build
result "readers with coverage can be built" with_coverage rustc --package neap-cli --bin neap -- \
    "-Clink-arg=$engine" -Clink-arg=-lstdc++ &&
    result "libraries with coverage can be built" with_coverage build --package neap-c \
        --package neap-bdw || exit 1
libraries=$out/libraries
mkdir -p "$libraries"
for library in gc.so.1 neap.so.0; do
    cp "$built/lib${library%.*}" "$libraries/lib$library"
    ln -sf "lib$library" "$libraries/lib${library%.*}"
done
for interface in gc neap; do
    build "$interface-coverage" $interface "$libraries" -DFUZZER -rdynamic "$engine" -lstdc++ -lm ||
        exit 1
done

limit=$((seconds + 300))
# fuzzed NAME CORPUS COMMAND…: some time of it. What stands in build/ is what it found so far.
fuzzed() {
    local name=$1 corpus=$2
    shift 2
    mkdir -p "$out/corpus/$corpus"
    result "$name" "$@" "-max_total_time=$seconds" -timeout=200 -rss_limit_mb=4096 \
        "-artifact_prefix=$out/$corpus-" -print_final_stats=1 -verbosity=0 \
        "$out/corpus/$corpus" "tests/fuzz/corpus/$corpus" || return
    sed -n 's/^stat::number_of_executed_units: */# inputs: /p' "$out/output"
}
for reader in recording snapshot page elf options symbol texts; do
    fuzzed "reader of $reader, with coverage" $reader env "NEAP_FUZZ=$reader" "$built/neap"
done
export NEAP_MIN_TRIGGER=256K NEAP_CHECK=3
for interface in gc neap; do
    for watch in pagemap fork; do
        NEAP_WATCH=$watch fuzzed "calls on $interface.h, with coverage, watch=$watch" $interface \
            "$out/$interface-coverage" -max_len=3000
    done
done
exit "$failed"
