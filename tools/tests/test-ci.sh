# Tests of .ci/run: `make test` decides, long tests run as time allows, and none is left out in
# silence.
# run.sh sets top and work; quoted scripts are expanded where they run.
# shellcheck shell=bash disable=SC2154,SC2016

# A tree whose `make test` runs $1, whose long tests run the script $2, with the test's name in $1,
# and whose `make test-rest` runs $3.
tree_with() {
    mkdir -p tree/tools tree/.ci
    cp "$top/.ci/run" tree/.ci/
    printf 'test:\n\t@%s\ntest-rest:\n\t@%s\n' "$1" "${3:-echo ok - rest}" >tree/Makefile
    printf '#!/bin/bash\n%s\n' "$2" >tree/tools/long.sh
    chmod +x tree/tools/long.sh
}

# Runs it; status and last line must be as given.
expect() {
    local status=$1 wanted=$2 got=0
    tree/.ci/run >out 2>&1 || got=$?
    cat out
    [ "$got" = "$status" ]
    [ "$(tail -n 1 out)" = "$wanted" ]
}

five='for i in 1 2 3 4 5; do echo ok - $$i; done; echo 5 passed, 0 failed'

test_ci_runs_everything_in_order() {
    tree_with "$five" 'echo "ran $1"' 'echo ran rest; echo ok - rest'
    expect 0 '6 passed, 0 failed'
    [ "$(grep '^ran' out | tr '\n' ' ')" = \
        'ran rest ran checked ran fuzz ran loom ran model ran miri ran sanitize ran soak ' ]
}

test_ci_counts_everything_that_ran() {
    tree_with "$five" 'echo "ok - $1"; echo "ok - $1 again # SKIP why"'
    expect 0 '13 passed, 0 failed'
}

test_ci_fails_with_make_test() {
    tree_with 'echo ok - a; echo not ok - b; exit 1' true
    expect 1 '2 passed, 1 failed'
}

test_ci_counts_a_failure_without_a_word() {
    tree_with 'echo no rule; exit 1' true
    expect 1 '1 passed, 1 failed'
    grep -q '^not ok - make test ended with status 2' out
}

test_ci_fails_with_what_make_test_leaves_out() {
    tree_with "$five" true 'echo not ok - rest; exit 1'
    expect 1 '5 passed, 1 failed'
}

test_ci_fails_with_a_long_test() {
    tree_with "$five" '[ "$1" != miri ]'
    expect 1 '6 passed, 1 failed'
    grep -q '^not ok - miri ended with status 1' out
}

test_ci_passes_over_what_has_no_tool_and_says_so() {
    tree_with "$five" '[ "$1" != miri ] || exit 3'
    expect 0 '6 passed, 0 failed'
    grep -q '^# miri: not run' out
}

test_ci_keeps_to_its_budget() {
    tree_with "$five" 'echo "ran $1"'
    BUDGET_MINUTES=3 expect 0 '5 passed, 0 failed'
    [ "$(grep -c '^ran' out)" = 1 ]
    grep -q '^# test-rest: not run, [23] minutes are left' out
    grep -q '^# loom: not run, [23] minutes are left' out
    grep -q '^ran soak' out
}

test_ci_counts_what_was_killed_before_its_time() {
    tree_with "$five" '[ "$1" != miri ] || exit 137'
    expect 1 '6 passed, 1 failed'
    grep -q '^not ok - miri ended with status 137' out
}

test_ci_counts_what_hung() {
    mkdir logs
    tree_with "$five" '[ "$1" = miri ] && touch -d "21 minutes ago" "$TMPDIR"/* && exit 124
        [ "$1" != loom ] || exit 124'
    TMPDIR=$PWD/logs expect 1 '6 passed, 1 failed'
    grep -q '^# loom: out of time' out
    grep -q '^not ok - miri has hung' out
}
