#!/bin/bash
# Copies build/ to a prefix. Usage: tools/install.sh PREFIX [DESTDIR]. Builds first if nothing is
# built, so that `make build && sudo make install` needs no Rust for root. Called by `make install`.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${1:?want PREFIX}
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
to=${2:-}$prefix

if ! mkdir -p "$to" 2>/dev/null || [ ! -w "$to" ]; then
    echo "install: cannot write to $to: use sudo, or another PREFIX" >&2
    exit 2
fi
if [ ! -e build/lib/pkgconfig/neap.pc ]; then
    tools/setup.sh build
    tools/build.sh
fi
for folder in bin include include/neap/gc lib lib/neap lib/neap/pkgconfig lib/neap/cmake \
    lib/pkgconfig lib/cmake/Neap share/neap share/man/man1 share/bash-completion/completions \
    share/zsh/site-functions share/fish/vendor_completions.d; do
    install -d "$to/$folder"
done
# What belongs to an installation, by name: build/ also holds what tests and benchmarks built.
for file in bin/neap lib/libneapd.a lib/libneapd-gdc.a lib/libneapd.so lib/libneapd-ldc.so \
    lib/libneapd-gdc.so lib/libneap.a lib/libneap-static.a lib/libneap.so lib/libneap.so.* \
    lib/neap/libgc.so lib/neap/libgc.so.1 lib/neap/libcord.so lib/neap/libcord.so.1 \
    lib/neap/libgccpp.so lib/neap/libgccpp.so.1 lib/neap/libgctba.so lib/neap/libgctba.so.1 \
    lib/neap/libgc.a lib/neap/libcord.a lib/neap/libgccpp.a lib/neap/libgctba.a \
    lib/neap/pkgconfig/bdw-gc.pc lib/neap/cmake/BDWgc*.cmake lib/neap/static.options \
    lib/pkgconfig/neap*.pc lib/cmake/Neap/Neap*.cmake include/neap*.h* include/neap/*.h \
    include/neap/gc/*.h share/neap/*.supp share/neap/*.json share/man/man1/neap*.1 \
    share/bash-completion/completions/neap share/zsh/site-functions/_neap \
    share/fish/vendor_completions.d/neap.fish; do
    for source in build/$file; do
        # The package for D is there if there was a D compiler.
        [ -e "$source" ] || [[ $source != *libneapd* ]] || continue
        name=${source#build/}
        cp --no-dereference --preserve=mode,timestamps "$source" "$to/$name.new"
        mv -f "$to/$name.new" "$to/$name"
    done
done
# Programs find the library without a path in them where the loader looks.
if [ -z "${2:-}" ] && ldconfig -N -v 2>/dev/null |
    grep "^$prefix/lib:" >/dev/null; then
    ldconfig || echo "install: run ldconfig as root, so that programs find $prefix/lib/libneap.so" >&2
fi
echo "installed: $to (try $to/bin/neap run -- PROGRAM)"
