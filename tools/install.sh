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
for folder in bin include lib lib/neap lib/pkgconfig share/neap; do
    install -d "$to/$folder"
done
# What belongs to an installation, by name: build/ also holds what tests and benchmarks built.
for file in bin/neap lib/libneapd.a lib/libneapd.so lib/libneapd-gdc.so lib/libneap.a \
    lib/libneap.so lib/libneap.so.* lib/neap/libgc.so.1 \
    lib/pkgconfig/neap.pc include/neap*.h* share/neap/*.supp; do
    for source in build/$file; do
        # The package for D is there if there was a D compiler.
        [ -e "$source" ] || [[ $source != *libneapd* ]] || continue
        name=${source#build/}
        cp --no-dereference --preserve=mode,timestamps "$source" "$to/$name.new"
        mv -f "$to/$name.new" "$to/$name"
    done
done
echo "installed: $to (try $to/bin/neap run -- PROGRAM)"
