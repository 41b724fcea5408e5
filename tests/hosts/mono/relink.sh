#!/bin/bash
# Links a program with Mono's runtime for Boehm's collector on Neap's libgc.so.1: all of the
# package's archive but the objects of the copy of Boehm's collector in it.
# Usage: relink.sh OUTPUT [SOURCE [COMPILER-OPTION …]]: SOURCE is a host in C that embeds Mono;
# without one it is main.c beside this file, the program mono. PREFIX is the installation of Neap
# (build/), ARCHIVE another archive, and BUNDLED=1 leaves the copy in, to compare with.
# Called by tests/hosts/run.sh and by people.
set -euo pipefail

[ $# -ge 1 ] || {
    echo "usage: $0 OUTPUT [SOURCE [COMPILER-OPTION …]]" >&2
    exit 2
}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=$1
source=${2:-$here/main.c}
shift $(($# < 2 ? $# : 2))
archive=${ARCHIVE:-/usr/lib/libmonoboehm-2.0.a}
libraries=$(realpath "${PREFIX:-$here/../../../build}")/lib/neap
[ -e "$archive" ] || {
    echo "relink: $archive is missing; Debian has it in libmonoboehm-2.0-dev" >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$archive" "$work/runtime.a"
chmod u+w "$work/runtime.a"

collector=()
if [ -z "${BUNDLED-}" ]; then
    # Mono's own objects are named after the part of it that they belong to.
    mapfile -t members < <(ar t "$archive" | grep -v -e '_la-' -e '^mono-')
    ar d "$work/runtime.a" "${members[@]}"
    if nm --defined-only "$work/runtime.a" 2>/dev/null | grep ' [TDBR] GC_'; then
        echo "relink: these are left of the copy in $archive" >&2
        exit 1
    fi
    collector=("$libraries/libgc.so.1" "-Wl,-rpath,$libraries")
fi
"${CC:-cc}" -O2 "$@" "$source" -o "$output" -rdynamic \
    -Wl,--whole-archive "$work/runtime.a" -Wl,--no-whole-archive "${collector[@]}" -lm -ldl -lpthread
