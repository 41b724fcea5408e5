#!/bin/bash
# Runs every test of every part, or of the named parts. Usage: tools/test.sh [PART …]
#
# A part is a command that prints a line `ok - NAME` or `not ok - NAME` for each test (what it has
# to say about a failure goes before that, in lines that begin with `#`); `ok - NAME # SKIP REASON`
# is neither a pass nor a failure. A part that prints no result, or that fails without one that says
# so, counts as one failure. The last line is `N passed, M failed`. Parts that test what is built
# have it built first; if that fails, each of them is one failure. Called by `make test`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
# The tests' own options, not those of whoever runs them.
unset "${!NEAP_@}"

parts=(format lint source rust doc tools c bdw stats limits workloads observe torture watches d
    clients)
need_build=" tools c bdw stats limits workloads observe torture watches d clients "

run_part() {
    case $1 in
    build) tools/one.sh "the release can be built" tools/build.sh ;;
    format) tools/one.sh "cargo fmt" tools/with-rust.sh cargo fmt --all --check ;;
    lint) tools/one.sh "cargo clippy" \
        tools/with-rust.sh cargo clippy --quiet --workspace --all-targets -- -D warnings ;;
    source) tools/with-rust.sh cargo xtask ci ;;
    rust) tools/with-rust.sh cargo xtask rust-tests ;;
    doc) tools/one.sh "rustdoc, examples in it" tools/rustdoc.sh ;;
    tools) tools/tests/run.sh ;;
    *) "tests/$1/run.sh" ;;
    esac
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
failures=()

fail() {
    echo "not ok - $1"
    failures+=("$1")
    failed=$((failed + 1))
}

# Runs the part $1, and counts what it says; leaves how it ended in $status.
run_counted() {
    local part=$1 start=$SECONDS
    local part_passed part_failed part_skipped name
    echo "# part $part"
    run_part "$part" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    part_skipped=$(grep -c '^ok - .*# SKIP' "$log")
    part_passed=$(($(grep -c '^ok - ' "$log") - part_skipped))
    part_failed=$(grep -c '^not ok - ' "$log")
    while IFS= read -r name; do failures+=("$name"); done < <(sed -n 's/^not ok - //p' "$log")
    passed=$((passed + part_passed))
    failed=$((failed + part_failed))
    skipped=$((skipped + part_skipped))
    if [ "$status" != 0 ] && [ "$part_failed" = 0 ]; then
        fail "$part ended with status $status"
    elif [ $((part_passed + part_failed + part_skipped)) = 0 ]; then
        fail "$part has no tests"
    fi
    echo "# part $part: $part_passed passed, $part_failed failed, $part_skipped skipped," \
        "$((SECONDS - start)) s"
}

asked=("${@:-${parts[@]}}")
built=unknown
for part in "${asked[@]}"; do
    if [ "$built" = unknown ] && [ "${need_build/ $part /}" != "$need_build" ]; then
        run_counted build
        built=$([ "$status" = 0 ] && echo yes || echo no)
    fi
    if [ "$built" = no ] && [ "${need_build/ $part /}" != "$need_build" ]; then
        fail "$part: there is nothing to test, since it could not be built"
        continue
    fi
    run_counted "$part"
done

for name in ${failures[@]+"${failures[@]}"}; do
    echo "# failed: $name"
done
[ "$skipped" = 0 ] || echo "# $skipped skipped: see the lines with SKIP for the reasons"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
