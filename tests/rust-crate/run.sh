#!/bin/bash
# The crate `neap` as Rust programs use it: its tests, torture through `Gc` under every watch, the
# examples, and what must not compile. Prints test results as CONTRIBUTING.md says. Called by
# tools/test.sh.
# Usage: tests/rust-crate/run.sh [--rest]     --rest: what a run without it leaves out
. "$(dirname "$0")/../lib.sh"
begin rust-crate
unset "${!NEAP_@}"

watches='none pagemap mprotect fork snapshot'
torture=

# The program of the test $1, built.
test_program() {
    tools/with-rust.sh cargo test --quiet --package neap --test "$1" --no-run \
        --message-format=json 2>"$out/build" |
        sed -n "s/.*\"executable\":\"\([^\"]*\/$1-[^\"]*\)\".*/\1/p"
}

# Small triggers and the collector's own checks. Where the machine refuses a watch, cycles stop the
# world, and the graphs have to be right all the same.
tortured() {
    NEAP_WATCH=$1 NEAP_MAX_PAUSE=0 NEAP_MIN_TRIGGER=256K NEAP_CHECK=2 TORTURE_STEPS=$2 \
        TORTURE_SEED=$3 "$torture" --nocapture
}

# The report of an example's recording names its types, and those of arrays.
types_in_report() {
    NEAP_STATS=$out/lisp.stats example lisp && "$prefix/bin/neap" report "$out/lisp.stats" >"$out/report" &&
        grep -q ' objects .*  lisp::Frame$' "$out/report" && grep -q '  \[u8\]$' "$out/report"
}

# So does its profile: strings that no sample uses are not in it.
types_in_profile() {
    NEAP_STATS=$out/lisp.sites NEAP_SAMPLE=16KiB example lisp &&
        "$prefix/bin/neap" export "$out/lisp.sites" --pprof "$out/lisp.pb.gz" &&
        gunzip -c "$out/lisp.pb.gz" | grep -aq 'lisp::Frame'
}

# The packages as they would go to the registry, each built against the others'. Cargo unpacks those
# into its home once for a version and a folder, and would build against an earlier run's.
packaged() {
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/neap-{record,derive,core}-*
    tools/with-rust.sh cargo publish --quiet --dry-run --allow-dirty \
        -p neap-record -p neap-derive -p neap-core -p neap
}

# An example prints what it is known to print.
example() {
    tools/with-rust.sh cargo run --quiet --package neap-examples --bin "$1" -- "${@:2}" \
        >"$out/$1.actual" && diff "examples/rust/expected/$1" "$out/$1.actual"
}

torture=$(test_program torture)
if [ -z "$torture" ]; then
    not_ok build "$out/build"
    exit 1
fi

if [ "${1:-}" = --rest ]; then
    for watch in $watches; do
        for seed in 11 12 13; do
            result "torture-$watch-$seed" tortured "$watch" 40000 "$seed"
        done
    done
    # Not by `cargo xtask rust-tests`: it looks at where cargo says that it is. It builds without
    # optimization, as programs are built while they are developed.
    version=$(tools/with-rust.sh rustc --version | cut -d ' ' -f 2)
    if [ "${version%.*}" = "$(cat crates/neap/tests/ui/COMPILER)" ]; then
        limit=600
        result must-not-compile tools/with-rust.sh cargo test --quiet --package neap --test ui
    else
        skip must-not-compile "the compiler's words on record are not those of Rust $version"
    fi
    minor=${version#*.}
    if [ "${minor%%.*}" -ge 90 ]; then
        limit=600
        result packages packaged
    else
        skip packages "cargo $version does not package several crates that need each other"
    fi
    result examples-in-documentation tools/with-rust.sh cargo test --quiet --package neap --doc
else
    tools/with-rust.sh cargo xtask rust-tests -- --package neap --package neap-derive || failed=1
    for watch in $watches; do
        result "torture-$watch" tortured "$watch" 10000 10
    done
    for name in lisp cache interpreter graph trees people; do
        result "example-$name" example "$name"
    done
    result types-in-report types_in_report
    result types-in-profile types_in_profile
fi
exit "$failed"
