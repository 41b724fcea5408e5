#!/bin/bash
# Hands lines on, and says so where none comes for a while. Usage: COMMAND 2>&1 | tools/follow.sh
# WHAT [FILE]. A FILE gets a line for each test result: the seconds since the one before, and its
# name. Called by the other scripts.
set -uo pipefail

what=${1:?want a name} times=${2:-/dev/null}
patience=8
last=$SECONDS rest=
while true; do
    if IFS= read -r -t "$patience" line; then
        line=$rest$line rest=
        printf '%s\n' "$line"
        case $line in
        'ok - '* | 'not ok - '*)
            echo "$((SECONDS - last)) ${line#*ok - }" >>"$times"
            last=$SECONDS
            ;;
        esac
    elif [ $? -gt 128 ]; then
        # What came of a line so far is kept.
        rest+=$line
        echo "# $what: $SECONDS s, still at it"
    else
        rest+=$line
        [ -z "$rest" ] || printf '%s\n' "$rest"
        exit 0
    fi
done
