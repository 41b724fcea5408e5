#!/bin/bash
# Tries Neap on minimal systems of Debian, each made afresh.
# Usage: tools/systems.sh [--all] [SUITE…]
#   --all    every test, not the sample
#   SUITE    bookworm, trixie, testing (Debian 12, 13 and the next one) unless others are named
# PARTS="…" chooses other parts of the tests than the sample; STEPS="…" chooses of the steps: demo
# test packages install are `make demo` and so on, source a build of the sources with all crates and
# no network. The systems lie in ROOTS (build/systems), 4 to 8 GB each, and stay until the next run;
# what they said is beside them, as SUITE-STEP.log. Prints a line for each step, as tests do.
# Called by `make systems`, as root.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

folder=$(realpath -m "${ROOTS:-build/systems}")
parts=${PARTS:-tools c bdw clients}
if [ "${1:-}" = --all ]; then
    parts=
    shift
fi
suites=("$@")
[ $# != 0 ] || suites=(bookworm trixie testing)
mkdir -p "$folder"
passed=0 failed=0

# step NAME SHELL-COMMAND: a result, of a command in the system's copy of the tree.
step() {
    local name=$1 log=$folder/$suite-$1.log start=$SECONDS
    if tools/fresh-root.sh --in "$root" sh -euc "cd /root/neap; $2" >"$log" 2>&1 </dev/null; then
        sed -n '/^# skipped: \(clients\|watches\)/p; /^[0-9]* passed, 0 failed$/s/^/# /p' "$log"
        sed -n 's/^setup: this system has no/# this system has no/p' "$log" | sort -u
        echo "ok - systems $suite: $name ($((SECONDS - start)) s)"
        passed=$((passed + 1))
    else
        { grep '^# failed: ' "$log" || tail -n 20 "$log"; } | sed 's/^/# /'
        echo "# the rest is in $log"
        echo "not ok - systems $suite: $name"
        failed=$((failed + 1))
    fi
}

# The tree as it stands, but for what it ignores, in a clone.
copy_tree() {
    git clone --quiet --depth 1 "file://$PWD" "$1"
    git ls-files -z --cached --others --exclude-standard |
        tar --create --null --files-from - --ignore-failed-read |
        tar --extract --no-same-owner --directory "$1"
}

for suite in "${suites[@]}"; do
    root=$folder/$suite
    if ! tools/fresh-root.sh "$suite" "$root"; then
        echo "not ok - systems $suite: a minimal system"
        failed=$((failed + 1))
        continue
    fi
    copy_tree "$root/root/neap"
    for name in ${STEPS:-demo test packages install source}; do
        case $name in
        # What the README asks for first.
        demo) step demo "apt-get -qq update; apt-get -qq -y install git make; make demo" ;;
        test) step test "make test ${parts:+PARTS=\"$parts\"}" ;;
        install)
            step install "make install
                cd /; echo '(display 42)' >42.scm
                [ \"\$(neap run -- guile --no-auto-compile 42.scm)\" = 42 ]
                echo 'int main(void) { return 0; }' >main.c
                cc main.c \$(pkg-config --cflags --libs neap) -o main && ./main"
            ;;
        source)
            tools/source.sh >/dev/null && cp build/packages/*.tar.xz "$root/root"
            step source "cd /root; rm -rf neap-*/; tar -xf neap-*.tar.xz; cd neap-*/
                unshare --net tools/build.sh; build/bin/neap version"
            ;;
        packages) step packages "tools/tests/packages.sh" ;;
        *) echo "systems: no such step: $name" >&2 && exit 2 ;;
        esac
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
