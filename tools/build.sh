#!/bin/bash
# Builds the release and lays it out in build/ as `make install` would: one prefix, movable as a
# whole. Called by `make build`, and by scripts that need it. Prints where it is, last.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo() { tools/with-rust.sh cargo "$@"; }

cargo build --quiet --release --package neap-core --package neap-c --package neap-bdw \
    --package neap-cli 2>&1 | tools/follow.sh "building the release"
target=$(cargo metadata --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
made=$target/release

# Fails if the library $1 does not call itself $2: programs linked with it would not find it again.
check_soname() {
    local soname
    soname=$(readelf --dynamic "$1" | sed -n 's/.*Library soname: \[\(.*\)\]/\1/p')
    [ "$soname" = "$2" ] || {
        echo "build: $1 has soname '$soname', not '$2'" >&2
        exit 1
    }
}
check_soname "$made/libneap.so" libneap.so.0
check_soname "$made/libgc.so" libgc.so.1

# Files are replaced, not written over: a program may be running on the old ones.
place() { install -D --mode="$1" "$2" "build/$3.new" && mv -f "build/$3.new" "build/$3"; }

place 755 "$made/neap" bin/neap
place 755 "$made/libneap.so" "lib/libneap.so.$version"
ln -sfn "libneap.so.$version" build/lib/libneap.so.0
ln -sfn libneap.so.0 build/lib/libneap.so
place 644 "$made/libneap.a" lib/libneap.a
place 755 "$made/libgc.so" lib/neap/libgc.so.1
for header in crates/neap-c/include/*.h*; do
    place 644 "$header" "include/${header##*/}"
done
# For D programs, where there is a D compiler: the package for druntime, and the same to be loaded
# into programs that are built already.
if command -v ldc2 >/dev/null; then
    d=build/d.new
    rm -rf "$d"
    mkdir -p "$d"
    ldc2 -O3 -release -w -lib -oq -od="$d" -of="$d/libneapd.a" bindings/d/source/neap/*.d
    ldc2 -O3 -release -w -shared -link-defaultlib-shared -oq -od="$d" -of="$d/libneapd.so" \
        bindings/d/source/neap/*.d -L=-Lbuild/lib -L=-lneap "-L=-rpath=\$ORIGIN"
    place 644 "$d/libneapd.a" lib/libneapd.a
    place 755 "$d/libneapd.so" lib/libneapd.so
    rm -rf "$d"
fi
if command -v gdc >/dev/null; then
    gdc -O2 -frelease -shared -fPIC -o build/libneapd-gdc.so bindings/d/source/neap/*.d \
        -Lbuild/lib -lneap \
        "-Wl,-rpath,\$ORIGIN"
    place 755 build/libneapd-gdc.so lib/libneapd-gdc.so
    rm -f build/libneapd-gdc.so
fi
for suppressions in tsan valgrind; do
    place 644 "tools/$suppressions.supp" "share/neap/$suppressions.supp"
done
mkdir -p build/lib/pkgconfig
sed "s/@VERSION@/$version/" tools/neap.pc.in >build/lib/pkgconfig/neap.pc
echo "built: $PWD/build"
