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
    grep -qx '# skipped: two: no such device' out
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

test_the_slowest_parts_and_tests_are_named() {
    tree_with a 'sleep 2; echo ok - slow; echo ok - quick; echo "# 7.5 s: beside"; echo ok - beside'
    expect '3 passed, 0 failed' 0 a
    grep -q '^# slowest parts, [2-5] s: a$' out
    grep -q '^# slowest tests, 7 s: beside$' out
    grep -q '^# slowest tests, [2-5] s: slow$' out
    absent '^# slowest tests, .* quick' out
}

test_the_build_goes_on_beside_what_needs_none() {
    tree_with c 'echo ok - one' other '[ -e began ] && [ ! -e built ] && echo ok - three'
    printf '#!/bin/sh\ntouch began; sleep 2; touch built\n' >tools/build.sh
    sed -i 's/^\[/sleep 1; [/' tests/other/run.sh
    expect '3 passed, 0 failed' 0 other c
}

test_what_make_test_leaves_out_can_be_run() {
    tree_with doc 'echo ok - x' limits 'echo ok - one' watches 'echo ok - two'
    printf '#!/bin/sh\ntrue\n' >tools/build.sh
    sed -i 's/^parts=.*/parts=(c)/; /^rest=/,/^)/c rest=(limits watches)' tools/test.sh
    expect '3 passed, 0 failed' 0 --rest
}

# Every folder of tests/ with a run.sh is a part of one of the two lists, and no part is in both.
test_every_part_is_run() {
    local part
    sed -n 's/^parts=(\(.*\))$/\1/p; /^rest=($/,/^)$/s/^ \+//p' "$top/tools/test.sh" |
        tr ' ' '\n' | sort >listed
    grep -qx limits listed
    [ -z "$(uniq -d listed)" ]
    for part in "$top"/tests/*/run.sh; do
        part=${part%/run.sh}
        grep -qx "${part##*/}" listed
    done
}

test_what_is_silent_for_long_is_said_to_go_on() {
    sed 's/^patience=.*/patience=1/' "$top/tools/follow.sh" >follow
    { printf 'one\ntw'; sleep 2.5; printf 'o\nok - three\n'; printf end; } |
        bash follow what times >out
    cat out
    sed -i '/^# what: [0-9]* s, still at it$/d' out
    [ "$(cat out)" = 'one
two
ok - three
end' ]
    grep -q '^[2-9] three$' times
    { printf 'one\n'; sleep 1.5; } | bash follow what | grep -q '^# what: [1-9] s, still at it'
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

# What lib.sh makes of commands, with the results of a part named `part`.
lib() {
    mkdir -p tests/part build
    cp "$top/tests/lib.sh" tests/
    printf '#!/bin/bash\n. "$(dirname "$0")/../lib.sh"\nbegin part\n%s\nexit "$failed"\n' \
        "$1" >tests/part/run.sh
    bash tests/part/run.sh >out 2>&1
}

test_lib_makes_results_of_commands() {
    lib 'result one true; skip two "no tool"; wanted x && passed three'
    [ "$(cat out)" = 'ok - part/one
ok - part/two # SKIP no tool
ok - part/three' ]
    local status=0
    lib 'result one sh -c "echo why; exit 4"; result two true' || status=$?
    [ "$status" = 1 ]
    [ "$(cat out)" = '# failed: sh -c echo why; exit 4
# why
# ended with status 4
not ok - part/one
ok - part/two' ]
}

test_lib_ends_what_takes_too_long() {
    local status=0
    lib 'limit=1; result one sleep 60' || status=$?
    [ "$status" = 1 ]
    grep -q '^# did not end within 1 s' out
    grep -q '^not ok - part/one' out
}

test_lib_runs_tests_beside_each_other() {
    local status=0
    lib 'at_once=2; for name in 1 2 3 4; do result_beside $name sh -c "echo >$name; sleep 1; [ $name != 3 ]"; done
        ls ? 2>/dev/null | wc -l; settle; result five true' || status=$?
    cat out
    [ "$status" = 1 ]
    grep -q '^not ok - part/3' out
    [ "$(grep -c '^ok - part/' out)" = 4 ]
    [ "$(tail -n 1 out)" = 'ok - part/five' ]
}

test_lib_counts_a_test_beside_without_a_result() {
    local status=0
    lib 'result_beside one true; wait; : >"$out/beside/1/result"; settle' || status=$?
    [ "$status" = 1 ]
    grep -q '^not ok - part/test 1 of those' out
}

test_every_script_passes_shellcheck() {
    cd "$top" || exit
    shellcheck --severity=warning .ci/run tools/*.sh tools/tests/*.sh
    mapfile -t scripts < <(find tests bench -type f -name '*.sh' -o -type f -name run)
    shellcheck --severity=error --shell=bash "${scripts[@]}"
}
