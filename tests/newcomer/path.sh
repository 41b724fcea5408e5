#!/bin/bash
# The path of a newcomer: what one page of the book says, from an installed Neap (or with FRESH=1
# from a system with nothing on it) to a running program and a page with plots. Sourced by the
# scripts of this folder, one for each sort of user, which set $page, $report and $needs.
# Usage of those: NAME.sh [FOLDER]     works in FOLDER, by default one that is removed afterwards
#                 NAME.sh --missing    prints those commands among them that are not there
# PREFIX=DIR is where Neap is installed (build/), NEAP=DIR its sources (this tree).
set -euo pipefail

most=10
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
page=$tree/docs/${page:?}
follow=$tree/tests/book/follow.sh
export NEAP=${NEAP:-$tree} PREFIX=${PREFIX:-$tree/build}

case ${1:-} in
--missing)
    for command in ${needs:?}; do command -v "$command" >/dev/null || echo "$command"; done
    exit
    ;;
esac

commands=$("$follow" --count "$page")
if [ "$commands" = 0 ] || [ "$commands" -gt $most ]; then
    echo "$page has $commands commands, and may have $most" >&2
    exit 1
fi
folder=${1:-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
"$follow" "$page" "$folder"

# The report is a whole page, about this program.
html=$(find "$folder" -name "${report:?}" -size +10k | head -n 1)
[ -n "$html" ] && grep -q '<title>.* – Neap</title>' "$html" && grep -q '</html>' "$html" || {
    echo "there is no report $report" >&2
    exit 1
}
