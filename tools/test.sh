#!/bin/bash
# Runs the parts of the tests: those of `make test`, with --rest the others, or the named ones.
# Usage: tools/test.sh [--rest | PART …]
#
# A part is a command that prints a line `ok - NAME` or `not ok - NAME` for each test (what it has
# to say about a failure goes before that, in lines that begin with `#`); `ok - NAME # SKIP REASON`
# is neither a pass nor a failure. A part that prints no result, or that fails without one that says
# so, counts as one failure. The last line is `N passed, M failed`. Parts that test what is built
# have it built, beside the parts before them that need nothing built; if that fails, each of them
# is one failure. Called by `make test`, `make test-rest` and .ci/run.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
# The tests' own options, not those of whoever runs them.
unset "${!NEAP_@}"
# Enough for backtraces, and built sooner.
export CARGO_PROFILE_DEV_DEBUG=line-tables-only

parts=(format lint source book rust rust-crate tools c bdw stats observe faults torture clients)
# What takes long, or what few changes touch.
rest=(
    doc rust-model rust-crate-rest c-rest torture-rest limits workloads watches fuzz d hosts
    newcomer book-built packages fresh clients-rest
)
need_build=" tools c c-rest bdw stats faults limits workloads observe torture torture-rest watches \
fuzz d hosts clients clients-rest book newcomer packages "

run_part() {
    case $1 in
    format) tools/one.sh "cargo fmt" tools/with-rust.sh cargo fmt --all --check ;;
    lint)
        tools/one.sh "cargo clippy" \
            tools/with-rust.sh cargo clippy --quiet --workspace --all-targets -- -D warnings
        # What `make loom` and `make miri` compile, which take too long to run here.
        for way in loom miri; do
            RUSTFLAGS="--cfg $way -A explicit_builtin_cfgs_in_flags" \
                CARGO_TARGET_DIR=target/checked/$way tools/one.sh "the core compiles for $way" \
                tools/with-rust.sh cargo check --quiet --package neap-core --lib --tests
        done
        ;;
    source) tools/with-rust.sh cargo xtask ci ;;
    rust)
        tools/with-rust.sh cargo xtask rust-tests -- --workspace --exclude neap-model \
            --exclude neap --exclude neap-derive --exclude neap-examples
        ;;
    # It tries millions of states.
    rust-model) tools/with-rust.sh cargo xtask rust-tests -- --package neap-model ;;
    doc) tools/one.sh "rustdoc, examples in it" tools/rustdoc.sh ;;
    tools) tools/tests/run.sh ;;
    c-rest | rust-crate-rest | torture-rest) "tests/${1%-rest}/run.sh" --rest ;;
    fresh) tests/newcomer/fresh.sh ;;
    book-built) tests/book/run.sh mdbook ;;
    clients) tests/clients/run.sh --untimed ;;
    clients-rest) tests/clients/run.sh --timed ;;
    *) "tests/$1/run.sh" ;;
    esac
}

work=$(mktemp -d)
log=$work/log
trap 'kill "${build:-}" 2>/dev/null; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
failures=() skips=()

fail() {
    echo "not ok - $1"
    failures+=("$1")
    failed=$((failed + 1))
}

# run_counted PART COMMAND…: runs it, and counts what it says; leaves how it ended in $status.
run_counted() {
    local part=$1 start=$SECONDS
    local part_passed part_failed part_skipped name
    shift
    echo "# part $part"
    "$@" 2>&1 | tools/follow.sh "part $part" "$work/times" | tee "$log"
    status=${PIPESTATUS[0]}
    part_skipped=$(grep -c '^ok - .*# SKIP' "$log")
    part_passed=$(($(grep -c '^ok - ' "$log") - part_skipped))
    part_failed=$(grep -c '^not ok - ' "$log")
    # Tests that run beside each other say themselves how long they took.
    sed -n 's/^# \([0-9]*\)\.[0-9] s: /\1 /p' "$log" >>"$work/times"
    while IFS= read -r name; do failures+=("$name"); done < <(sed -n 's/^not ok - //p' "$log")
    while IFS= read -r name; do skips+=("$name"); done < <(sed -n 's/^ok - \(.*\) # SKIP /\1: /p' "$log")
    passed=$((passed + part_passed))
    failed=$((failed + part_failed))
    skipped=$((skipped + part_skipped))
    if [ "$status" != 0 ] && [ "$part_failed" = 0 ]; then
        fail "$part ended with status $status"
    elif [ $((part_passed + part_failed + part_skipped)) = 0 ]; then
        fail "$part has no tests"
    fi
    echo "$((SECONDS - start)) $part" >>"$work/parts"
    echo "# part $part: $part_passed passed, $part_failed failed, $part_skipped skipped," \
        "$((SECONDS - start)) s"
}

needs_build() { [ "${need_build/ $1 /}" != "$need_build" ]; }

# The build has one result, which is shown when somebody waits for it.
start_build() {
    {
        tools/one.sh "the release can be built" tools/build.sh >"$work/build" 2>&1
        echo $? >"$work/status.new"
        mv "$work/status.new" "$work/status"
    } &
    build=$!
}
await_build() {
    while [ ! -e "$work/status" ]; do sleep 0.2; done
    cat "$work/build"
    return "$(cat "$work/status")"
}

# The first lines of the file $1, those with the largest numbers first.
slowest() { sort -rn "$1" 2>/dev/null | awk -v most="$2" '$1 > 0 && NR <= most' | sed 's/ / s: /'; }

case "${1:-}" in
'') asked=("${parts[@]}") ;;
--rest) asked=("${rest[@]}") ;;
*) asked=("$@") ;;
esac

built=unknown
for part in "${asked[@]}"; do
    ! needs_build "$part" || [ -n "${build:-}" ] || start_build
done
for part in "${asked[@]}"; do
    if [ "$built" = unknown ] && needs_build "$part"; then
        run_counted build await_build
        built=$([ "$status" = 0 ] && echo yes || echo no)
    fi
    if [ "$built" = no ] && needs_build "$part"; then
        fail "$part: there is nothing to test, since it could not be built"
        continue
    fi
    run_counted "$part" run_part "$part"
done

slowest "$work/parts" 5 | sed 's/^/# slowest parts, /'
slowest "$work/times" 10 | sed 's/^/# slowest tests, /'
for name in ${failures[@]+"${failures[@]}"}; do
    echo "# failed: $name"
done
for name in ${skips[@]+"${skips[@]}"}; do
    echo "# skipped: $name"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
