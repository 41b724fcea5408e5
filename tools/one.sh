#!/bin/bash
# Makes one test result of a command. Usage: tools/one.sh NAME COMMAND [ARGUMENT …]
# Prints what the command said only if it failed. Called by tools/test.sh and tools/long.sh.
set -uo pipefail

name=$1
shift
if output=$("$@" 2>&1); then
    echo "ok - $name"
else
    status=$?
    printf '%s\n' "$output" | sed 's/^/# /'
    echo "# ended with status $status: $*"
    echo "not ok - $name"
    exit 1
fi
