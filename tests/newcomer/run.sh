#!/bin/bash
# Walks the paths of newcomers, one for each sort of user: from what `make build` laid out to a
# running program and its report, by commands that are copied from the book. Usage: run.sh [NAME …].
# Called by tools/test.sh.
. "$(dirname "$0")/../lib.sh"
begin newcomer
# As a newcomer has it: with no options, and no network but for what is here already.
unset "${!NEAP_@}"
export CARGO_NET_OFFLINE=true NEAP=$PWD
only=("$@")
limit=600 shown=80

# What is there is installed, as a newcomer does; or PREFIX=DIR is an installation.
if [ -z "${PREFIX:-}" ]; then
    rm -rf "$out/installed"
    result "make install" tools/install.sh "$out/installed" '' || exit 1
    PREFIX=$out/installed
fi
export PREFIX

for user in libgc c cpp rust d; do
    wanted $user || continue
    missing=$("tests/newcomer/$user.sh" --missing)
    if [ -n "$missing" ]; then
        skip "$user" "there is no $missing here"
    else
        result "$user" tools/with-rust.sh "tests/newcomer/$user.sh"
    fi
done
exit "$failed"
