# Tests of tools/test.sh and tools/one.sh: what passes, what fails, and that the count is right.
# shellcheck shell=bash disable=SC2154 # run.sh sets top and work

# A tree whose parts are the files tests/NAME/run.sh given as NAME SCRIPT pairs.
tree_with() {
    mkdir -p tests
    cp -r "$top/tools" .
    while [ $# -gt 0 ]; do
        mkdir -p "tests/$1"
        printf '#!/bin/sh\n%s\n' "$2" >"tests/$1/run.sh"
        chmod +x "tests/$1/run.sh"
        shift 2
    done
}

# Runs the parts; the last line and the status must be as given.
expect() {
    local wanted=$1 status=$2 got=0
    shift 2
    tools/test.sh "$@" >out 2>&1 || got=$?
    cat out
    [ "$(tail -n 1 out)" = "$wanted" ]
    [ "$got" = "$status" ]
}

test_all_passed() {
    tree_with a 'echo ok - one; echo noise; echo ok - two' b 'echo ok - three'
    expect '3 passed, 0 failed' 0 a b
}

test_one_failed_and_is_named_at_the_end() {
    tree_with a 'echo ok - one; echo not ok - two; exit 1' b 'echo ok - three'
    expect '2 passed, 1 failed' 1 a b
    grep -qx '# failed: two' out
}

test_a_failure_counts_even_if_the_part_ends_well() {
    tree_with a 'echo ok - one; echo not ok - two'
    expect '1 passed, 1 failed' 1 a
}

test_a_part_that_dies_is_a_failure() {
    # shellcheck disable=SC2016 # the part's shell expands it
    tree_with a 'echo ok - one; kill -SEGV $$'
    expect '1 passed, 1 failed' 1 a
}

test_a_part_without_tests_is_a_failure() {
    tree_with a 'true' b 'echo ok - one'
    expect '1 passed, 1 failed' 1 a b
}

test_a_part_that_is_not_there_is_a_failure() {
    tree_with b 'echo ok - one'
    expect '1 passed, 1 failed' 1 a b
}

test_skipped_tests_are_not_passed() {
    tree_with a 'echo ok - one; echo "ok - two # SKIP no such device"'
    expect '1 passed, 0 failed' 0 a
    grep -q '^# 1 skipped' out
}

test_nothing_but_skipped_tests_is_no_success() {
    tree_with a 'echo "ok - two # SKIP no such device"'
    expect '0 passed, 0 failed' 1 a
}

test_what_is_built_is_built_first_and_once() {
    tree_with c 'echo ok - one' bdw 'echo ok - two' other 'echo ok - three'
    printf '#!/bin/sh\necho built >>builds\n' >tools/build.sh
    expect '1 passed, 0 failed' 0 other
    [ ! -e builds ]
    expect '4 passed, 0 failed' 0 other c bdw
    [ "$(cat builds)" = built ]
}

test_what_cannot_be_built_fails_what_needs_it() {
    tree_with c 'echo ok - one' bdw 'echo ok - two' other 'echo ok - three'
    printf '#!/bin/sh\necho no; exit 1\n' >tools/build.sh
    expect '1 passed, 3 failed' 1 c other bdw
    grep -q '^# no' out
}

test_options_of_whoever_runs_the_tests_do_not_reach_them() {
    # shellcheck disable=SC2016 # the part's shell expands it
    tree_with a 'test -z "$NEAP_GROWTH" && echo ok - one'
    NEAP_GROWTH=2 expect '1 passed, 0 failed' 0 a
}

test_one_makes_a_result_of_a_command() {
    [ "$("$top/tools/one.sh" name true)" = 'ok - name' ]
    local status=0
    "$top/tools/one.sh" name sh -c 'echo why; exit 4' >out || status=$?
    [ "$status" = 1 ]
    [ "$(cat out)" = '# why
# ended with status 4: sh -c echo why; exit 4
not ok - name' ]
}

test_every_script_passes_shellcheck() {
    cd "$top" || exit
    shellcheck --severity=warning .ci/run tools/*.sh tools/tests/*.sh
    mapfile -t scripts < <(find tests bench -type f -name '*.sh' -o -type f -name run)
    shellcheck --severity=error --shell=bash "${scripts[@]}"
}
