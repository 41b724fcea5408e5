#!/bin/bash
# Tests of what is in tools/: the runner, set-up, installation. A part of tools/test.sh: prints its
# results as it asks for. Each file test-*.sh here is a list of functions named test_*, run one by
# one in a subshell with an empty folder $work; a function fails if a command in it does.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
top=$PWD
export top

# For 'there is no such line': `! grep …` would not end a function under `set -e`.
absent() {
    if grep -n "$@"; then return 1; fi
}
# skip REASON: ends a function that has nothing to test here.
skip() {
    echo "$1" >"$work/skipped"
    exit
}
export -f absent skip

failed=0
for file in tools/tests/test-*.sh; do
    while read -r name; do
        work=$(mktemp -d)
        export work
        # shellcheck disable=SC2016 # the inner shell expands them
        if output=$(bash -euo pipefail -c 'cd "$work"; . "$top/$1"; set -x; "$2"' - "$file" "$name" 2>&1 </dev/null); then
            skipped=
            [ ! -e "$work/skipped" ] || skipped=" # SKIP $(cat "$work/skipped")"
            echo "ok - tools ${name#test_}$skipped"
        else
            printf '%s\n' "$output" | tail -n 40 | sed 's/^/# /'
            echo "not ok - tools ${name#test_}"
            failed=1
        fi
        rm -rf "$work"
    done < <(sed -n 's/^\(test_[a-z0-9_]*\)().*/\1/p' "$file")
done
exit $failed
