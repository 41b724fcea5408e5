#!/bin/bash
# Makes build/packages/neap-VERSION.tar.xz: the last commit, and the crates that it is built from,
# so that everything builds and is tested without a network; beside it neap.wrap, for programs that
# are built with Meson and take it along. Called by `make source`, tools/systems.sh and tests/fresh.
# Prints where it is, last. The same commit gives the same file. `--wrap SUM` prints that neap.wrap.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=neap-$version
# The archive's name has no address: Meson takes it from subprojects/packagefiles.
wrap() {
    cat <<END
[wrap-file]
directory = $name
source_filename = $name.tar.xz
source_hash = $1

[provide]
neap = neap_dep
END
}
if [ "${1:-}" = --wrap ]; then
    wrap "$2"
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git archive --prefix="$name/" HEAD | tar --extract --directory "$work"
here=$PWD
cd "$work/$name"
mkdir -p .cargo
cargo() { "$here/tools/with-rust.sh" cargo "$@"; }
cargo vendor --quiet --locked --versioned-dirs vendor >/dev/null
cat >>.cargo/config.toml <<'END'
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
END
# Crates that only other systems use are half of it: of these cargo wants no more than that they are
# there.
cargo tree --quiet --offline --locked --workspace --all-features --edges all \
    --target x86_64-unknown-linux-gnu --prefix none --format '{p}' |
    sed -n 's/^\([^ ]*\) v\([^ ]*\).*/\1-\2/p' | sort -u >"$work/used"
for crate in vendor/*; do
    ! grep -qxF "${crate#vendor/}" "$work/used" || continue
    find "$crate" -type f ! -name Cargo.toml ! -name .cargo-checksum.json -delete
    sed -i 's/"files":{[^}]*}/"files":{}/' "$crate/.cargo-checksum.json"
    mkdir -p "$crate/src"
    : >"$crate/src/lib.rs"
done
find vendor -type d -empty -delete
CARGO_HOME=$work/home cargo metadata --quiet --offline --locked --format-version 1 >"$work/metadata"

mkdir -p "$here/build/packages"
tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git -C "$here" log -1 --format=%ct)" "$name" |
    xz -T1 -6 >"$here/build/packages/$name.tar.xz"
sum=$(sha256sum "$here/build/packages/$name.tar.xz")
wrap "${sum%% *}" >"$here/build/packages/neap.wrap"
echo "made: $here/build/packages/$name.tar.xz"
