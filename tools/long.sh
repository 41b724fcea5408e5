#!/bin/bash
# The tests that take too long for `make test`. Usage: tools/long.sh soak [HOURS | --seconds N] |
# fuzz [SECONDS | --seconds N] | checked | loom | model | miri | sanitize. Prints test results as a
# part of tools/test.sh does. Called by the Makefile and by .ci/run. What miri and sanitize need of
# rustup they have it install; where it cannot they say so, and exit with 3.
set -euo pipefail
cd "$(dirname "$0")/.."

# One day's: what a newer one warns of or moves would fail tests that nobody touched.
nightly="nightly-2026-05-20"
# miri knows neither raw system calls nor signals. These modules do without, and are tested under
# it.
miri_modules=(addr options heap::classes heap::decay heap::kind cycle::phase cycle::policy stats)

# Installs it, with what miri and the thread sanitizer need, where it is missing.
need_nightly() {
    local components=miri,rust-src
    rustup toolchain install "$nightly" --no-self-update --profile minimal \
        --component "$components" >/dev/null 2>&1 && return
    echo "this needs a nightly Rust: rustup toolchain install $nightly --component $components" >&2
    exit 3
}

# The tests of the core, each in its process, under the sanitizer $1: sanitized NAME [ARGUMENT OF
# RUST-TESTS …] -- [ARGUMENT OF CARGO …]
sanitized() {
    local flags="target.$host.rustflags=[\"-Zsanitizer=$1\", \"--cfg=$1_sanitizer\"]"
    echo "# $1 sanitizer"
    # Each has a standard library of its own.
    export CARGO_TARGET_DIR=target/sanitize/$1
    shift
    rustup run "$nightly" cargo xtask rust-tests "$@" --package neap-core --lib --target "$host" \
        --config "$flags"
}

# What the thread sanitizer cannot run: children, and threads made without its knowledge, as the
# library's own are; a scan of words that another thread writes, which is what a conservative
# collector does, by volatile reads; as many mappings as there may be, of which it needs some; scans
# that have to be as fast as ever; a thread whose own stack is watched, since the handler of faults
# is its own.
not_under_threads=(
    --skip probe::cost::tests::every_watch_that_works_has_figures
    --skip probe::tests::every_watch_is_tried_and_one_is_chosen
    --skip watch::choose::tests::what_is_chosen_works_and_the_words_are_those_of_the_option
    --skip watch::snapshot::tests
    --skip watch::snapshot::serving_tests
    --skip runtime::recorded::tests
    --skip sys::process::child::tests::threads_of_a_child_share_its_memory
    --skip cycle::stepping::snapshots
    --skip sys::own_thread::tests::runs_with_signals_blocked
    --skip probe::beside::tests
    --skip cycle::workers::tests
    --skip watch::mprotect::tests::pages_that_the_kernel_protects_in_part_stay_writable
    --skip watch::mprotect::tests::pages_that_the_kernel_lets_go_in_part_are_reported
    --skip watch::mprotect::tests::who_stands_on_watched_pages_may_lend_others
    --skip cycle::stepping::writers::a_program_that_writes_faster
    --skip cycle::stepping::writers::helpers_ask
    --skip watch::contract::no_write_of_a_running_thread_is_lost
)

case "${1:-}" in
soak)
    hours=${2:-1}
    [ "$hours" != --seconds ] ||
        hours=$(LC_ALL=C awk -v seconds="$3" 'BEGIN { print seconds / 3600 }')
    tests/soak/soak.sh "$hours"
    ;;
fuzz)
    # SECONDS for each of ten; --seconds for all of them.
    each=${2:-60}
    [ "$each" != --seconds ] || each=$((($3 + 9) / 10))
    tests/fuzz/coverage.sh "$each"
    ;;
checked)
    # The tests of both C interfaces on shared libraries with their debug assertions: the order of
    # locks, and that nobody is stopped with one that a stop takes.
    tools/one.sh "checked libraries" tools/with-rust.sh cargo build --quiet --profile fuzz \
        --package neap-c --package neap-bdw
    target=$(tools/with-rust.sh cargo metadata --format-version 1 --no-deps |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    checked=build/checked
    rm -rf "$checked"
    mkdir -p "$checked"
    cp -a build/bin build/include build/lib "$checked"
    cp "$target/fuzz/libneap.so" "$(readlink -f "$checked/lib/libneap.so")"
    cp "$target/fuzz/libgc.so" "$(readlink -f "$checked/lib/neap/libgc.so.1")"
    status=0
    for part in c bdw; do
        PREFIX=$checked OUT=$checked/$part tests/$part/run.sh | sed 's/^\(not \)\?ok - /&checked /' ||
            status=1
    done
    exit $status
    ;;
loom)
    shopt -s nullglob
    models=(crates/neap-core/tests/loom_*.rs)
    if [ ${#models[@]} = 0 ]; then
        echo "not ok - there are models to run"
        exit 1
    fi
    for file in "${models[@]}"; do
        model=$(basename "$file" .rs)
        # Three preemptions find what two find, at many times the cost.
        LOOM_MAX_PREEMPTIONS=2 RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom tools/one.sh \
            "loom $model" tools/with-rust.sh cargo test --quiet --release --package neap-core \
            --test "$model"
    done
    ;;
model)
    # Link-time optimization of the checker would take as long as the model.
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_TARGET_DIR=target/model \
        tools/with-rust.sh cargo run --quiet --release --package neap-model
    ;;
miri)
    need_nightly
    for module in "${miri_modules[@]}"; do
        MIRIFLAGS='-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check' \
            tools/one.sh "miri $module" \
            rustup run "$nightly" cargo miri test --quiet --package neap-core --lib -- "$module::"
    done
    # The crate for Rust programs, with cells of the system's; nothing is collected.
    MIRIFLAGS='-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check -Zmiri-ignore-leaks' \
        tools/one.sh "miri the crate neap" \
        rustup run "$nightly" cargo miri test --quiet --package neap --lib
    # Cycles stepped by hand, each in a process of its own: the heap is the process's. Addresses are
    # numbers there, and what the collector maps for itself stays.
    export MIRIFLAGS='-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation'
    stepped=$(rustup run "$nightly" cargo miri test --quiet --package neap-core --lib -- --list \
        2>/dev/null | sed -n 's/^\(cycle::stepping::.*\): test$/\1/p')
    [ -n "$stepped" ] || echo "not ok - miri: there are no stepped cycles"
    for test in $stepped; do
        tools/one.sh "miri $test" rustup run "$nightly" \
            cargo miri test --quiet --package neap-core --lib -- --exact "$test" </dev/null
    done
    ;;
sanitize)
    need_nightly
    host=$(rustup run "$nightly" rustc -vV | sed -n 's/^host: //p')
    # A local variable has to be on the stack for a conservative scan to see it, not on a fake one.
    status=0
    ASAN_OPTIONS=detect_stack_use_after_return=0 sanitized address -- || status=1
    # Tests unwind; built to abort, the standard library would be there twice, and without one that
    # is built for it the sanitizer sees races there. No mapping that is made without the C library
    # is seen.
    CARGO_PROFILE_DEV_PANIC=unwind sanitized thread "${not_under_threads[@]}" -- \
        -Zbuild-std --features rustix/use-libc || status=1
    exit $status
    ;;
*)
    echo "long: want soak, fuzz, checked, loom, model, miri or sanitize" >&2
    exit 2
    ;;
esac
