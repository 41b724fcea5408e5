#!/bin/bash
# Builds the book of docs/ by mdBook. Usage: tools/book.sh [FOLDER]: into build/book/html, or this
# folder, which is replaced; tools/book.sh --find: prints which mdBook would be used. Called by
# `make book` and tests/book/run.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

find_mdbook() {
    if [ -x build/tools/bin/mdbook ]; then
        echo "$PWD/build/tools/bin/mdbook"
    else
        command -v mdbook
    fi
}
if [ "${1:-}" = --find ]; then
    find_mdbook
    exit
fi
mdbook=$(find_mdbook) || {
    echo "book: there is no mdBook; \`make book\` installs it" >&2
    exit 2
}
out=$(realpath -m "${1:-build/book/html}")
"$mdbook" build --dest-dir "$out"
tools/book.py copy "$out"
echo "$out/index.html"
