#!/bin/bash
# A copy of the sources as a variant wants them: the library with something done otherwise, which
# only a benchmark builds, to have what to compare with. Usage: bench/variants/prepare.sh VARIANT
# FOLDER.
#
# VARIANT is a folder beside this file: `changes.patch`, and perhaps `bits.rs`, which takes the
# place of crates/neap-core/src/heap/bits.rs. Files in FOLDER that are as they should be keep their
# time, so that cargo builds what changed. Called by bench/Makefile, and by tools/tests, which sees
# whether the patches still fit.
set -euo pipefail
variant=$(realpath "$(dirname "$0")/$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$0")/../.."

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
git ls-files --cached --others --exclude-standard -z -- \
    Cargo.toml Cargo.lock '*/Cargo.toml' '*.rs' crates |
    xargs -0 cp --parents -t "$fresh"
if [ -e "$variant/bits.rs" ]; then
    cp "$variant/bits.rs" "$fresh/crates/neap-core/src/heap/bits.rs"
fi
patch --quiet --strip=1 --directory="$fresh" <"$variant/changes.patch"

cd "$fresh"
find . -type f ! -name '*.orig' -print0 | while IFS= read -r -d '' file; do
    cmp --silent "$file" "$folder/$file" || cp --parents "$file" "$folder"
done
