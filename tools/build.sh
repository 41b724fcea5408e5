#!/bin/bash
# Builds the release and lays it out in build/ as `make install` would: one prefix, movable as a
# whole. Called by `make build`, and by scripts that need it. Prints where it is, last.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

cargo() { tools/with-rust.sh cargo "$@"; }

# The libraries by themselves, or they would be built with what the command needs.
{
    cargo build --quiet --release --package neap-c --package neap-bdw \
        --features neap-c/lean,neap-bdw/lean
    cargo build --quiet --release --package neap-core --package neap-cli
} 2>&1 | tools/follow.sh "building the release"
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

# What an earlier version left would be installed and packaged with this one.
rm -rf build/share/man/man1
[ ! -d build/lib ] ||
    find build/lib -maxdepth 1 -name 'libneap.so.*.*' ! -name "libneap.so.$version" -delete
place 755 "$made/neap" bin/neap
# Pages of the manual and completions, which the command itself knows.
"$made/neap" manual build/share/man/man1
for shell in bash:bash-completion/completions/neap zsh:zsh/site-functions/_neap \
    fish:fish/vendor_completions.d/neap.fish; do
    "$made/neap" completions "${shell%%:*}" >build/completions.new
    place 644 build/completions.new "share/${shell#*:}"
done
rm -f build/completions.new
place 755 "$made/libneap.so" "lib/libneap.so.$version"
ln -sfn "libneap.so.$version" build/lib/libneap.so.0
ln -sfn libneap.so.0 build/lib/libneap.so
place 644 "$made/libneap.a" lib/libneap.a
tools/static.sh build/lib
place 755 "$made/libgc.so" lib/neap/libgc.so.1
for header in crates/neap-c/include/*.h*; do
    place 644 "$header" "include/${header##*/}"
done
# For programs that are compiled against libgc's interface, apart from the system's: its headers,
# the libraries that go with it, and what says where they are.
gc=crates/neap-bdw
(cd $gc/include && find . -type f) | while read -r header; do
    place 644 "$gc/include/$header" "include/neap/${header#./}"
done
ln -sfn libgc.so.1 build/lib/neap/libgc.so
# What a compiler keeps for optimizing once more is of no use there.
objcopy --remove-section=.llvmbc --remove-section=.llvmcmd "$made/libgc.a" build/libgc.a
place 644 build/libgc.a lib/neap/libgc.a
rm -f build/libgc.a
link() { # link NAME COMPILER SOURCES...: the library NAME, on libgc, and its archive
    local name=$1 compiler source objects
    # May be several words, as `ccache gcc`.
    read -ra compiler <<<"$2"
    shift 2
    "${compiler[@]}" "$@" -O2 -Wall -Wextra -fPIC -fvisibility=hidden -shared -I$gc/include \
        -o "build/$name.so" -Wl,-soname,"$name.so.1" -Lbuild/lib/neap -lgc "-Wl,-rpath,\$ORIGIN"
    place 755 "build/$name.so" "lib/neap/$name.so.1"
    ln -sfn "$name.so.1" "build/lib/neap/$name.so"
    rm -f "build/$name.so"
    objects=$(mktemp -d)
    for source in "$@"; do
        "${compiler[@]}" -O2 -Wall -Wextra -fPIC -I$gc/include -c "$source" \
            -o "$objects/$(basename "${source%.*}").o"
    done
    ar rc "$objects/$name.a" "$objects"/*.o
    place 644 "$objects/$name.a" "lib/neap/$name.a"
    rm -rf "$objects"
}
link libcord "${CC:-cc}" $gc/cord/*.c
link libgccpp "${CXX:-c++}" $gc/cpp/bad_alloc.cc $gc/cpp/operators.cc
link libgctba "${CXX:-c++}" $gc/cpp/bad_alloc.cc
interface=$(sed -n 's/^#define GC_VERSION_[A-Z]* //p' $gc/include/gc/gc_version.h | head -n 3 |
    paste -sd .)
mkdir -p build/lib/neap/pkgconfig build/lib/neap/cmake
sed "s/@VERSION@/$interface/" tools/bdw-gc.pc.in >build/lib/neap/pkgconfig/bdw-gc.pc
for file in BDWgcConfig BDWgcConfigVersion; do
    sed "s/@VERSION@/$interface/" tools/$file.cmake.in >build/lib/neap/cmake/$file.cmake
done
# For D programs, where there is a D compiler: the package for druntime, and the same to be loaded
# into programs that are built already.
if command -v ldc2 >/dev/null; then
    d=build/d.new
    rm -rf "$d"
    mkdir -p "$d"
    ldc2 -O3 -release -w -lib -oq -od="$d" -of="$d/libneapd.a" bindings/d/source/neap/*.d
    ldc2 -O3 -release -w -shared -link-defaultlib-shared -oq -od="$d" -of="$d/libneapd-ldc.so" \
        bindings/d/source/neap/*.d -L=-Lbuild/lib -L=-lneap "-L=-rpath=\$ORIGIN"
    place 644 "$d/libneapd.a" lib/libneapd.a
    place 755 "$d/libneapd-ldc.so" lib/libneapd-ldc.so
    rm -rf "$d"
fi
if command -v gdc >/dev/null; then
    gdc -O2 -frelease -shared -fPIC -o build/libneapd-gdc.so bindings/d/source/neap/*.d \
        -Lbuild/lib -lneap \
        "-Wl,-rpath,\$ORIGIN"
    place 755 build/libneapd-gdc.so lib/libneapd-gdc.so
    gdc -O2 -frelease -fPIC -c -o build/neapd-gdc.o bindings/d/source/neap/*.d
    rm -f build/libneapd-gdc.a
    ar rc build/libneapd-gdc.a build/neapd-gdc.o
    place 644 build/libneapd-gdc.a lib/libneapd-gdc.a
    rm -f build/libneapd-gdc.so build/libneapd-gdc.a build/neapd-gdc.o
fi
# What is preloaded, and finds out which of the two a program needs.
# runtime PACKAGE: the druntime that it was linked with.
runtime() {
    readelf --dynamic "build/lib/$1" |
        sed -n 's/.*Shared library: \[\(lib\(druntime\|gdruntime\|gphobos\).*\)\]/\1/p' | head -n 1
}
runtimes=()
for compiler in LDC GDC; do
    package=libneapd-${compiler,,}.so
    [ ! -e "build/lib/$package" ] || runtimes+=("-D${compiler}_RUNTIME=\"$(runtime "$package")\"")
done
if [ ${#runtimes[@]} != 0 ]; then
    cc -O2 -Wall -Wextra -Werror -shared -fPIC "${runtimes[@]}" bindings/d/preload.c \
        -o build/libneapd.so
    place 755 build/libneapd.so lib/libneapd.so
    rm -f build/libneapd.so
fi
for suppressions in tsan valgrind; do
    place 644 "tools/$suppressions.supp" "share/neap/$suppressions.supp"
done
place 644 tools/grafana-dashboard.json share/neap/grafana-dashboard.json
mkdir -p build/lib/pkgconfig
for file in neap neap-static; do
    sed "s/@VERSION@/$version/" tools/$file.pc.in >build/lib/pkgconfig/$file.pc
done
mkdir -p build/lib/cmake/Neap
for file in NeapConfig NeapConfigVersion; do
    sed "s/@VERSION@/$version/" tools/$file.cmake.in >build/lib/cmake/Neap/$file.cmake
done
echo "built: $PWD/build"
