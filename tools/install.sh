#!/bin/bash
# Copies build/ to a prefix. Usage: tools/install.sh PREFIX [DESTDIR]. Builds first if nothing is
# built, so that `make build && sudo make install` needs no Rust for root. With --remove in front it
# takes an installation away, and nothing else. Called by `make install` and `make uninstall`.
set -euo pipefail
umask 022
remove=
if [ "${1:-}" = --remove ]; then
    remove=1
    shift
fi
cd "$(dirname "$0")/.."
# Where ldconfig is, which root's own path may lack.
PATH=$PATH:/usr/sbin:/sbin

prefix=${1:?want PREFIX}
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
while [[ $prefix = */ ]]; do prefix=${prefix%/}; done
destination=${2:-}
to=$destination$prefix
to=${to:-/}

# What belongs to an installation, by name: build/ also holds what tests and benchmarks built, and
# a prefix what is not ours.
read -rd '' -a files <<'END' || true
bin/neap lib/libneapd.a lib/libneapd-gdc.a lib/libneapd.so lib/libneapd-ldc.so lib/libneapd-gdc.so
lib/libneap.a lib/libneap-static.a lib/libneap.so lib/libneap.so.*
lib/neap/libgc.so lib/neap/libgc.so.1 lib/neap/libcord.so lib/neap/libcord.so.1
lib/neap/libgccpp.so lib/neap/libgccpp.so.1 lib/neap/libgctba.so lib/neap/libgctba.so.1
lib/neap/libgc.a lib/neap/libcord.a lib/neap/libgccpp.a lib/neap/libgctba.a
lib/neap/pkgconfig/bdw-gc.pc lib/neap/cmake/BDWgc*.cmake lib/neap/static.options
lib/pkgconfig/neap.pc lib/pkgconfig/neap-static.pc lib/cmake/Neap/Neap*.cmake
include/neap.h include/neap.hpp include/neap_inline.h include/neap/*.h include/neap/gc/*.h
share/neap/*.supp share/neap/*.json share/man/man1/neap.1 share/man/man1/neap-*.1
share/bash-completion/completions/neap share/zsh/site-functions/_neap
share/fish/vendor_completions.d/neap.fish
END
own_folders=(include/neap/gc include/neap lib/neap/pkgconfig lib/neap/cmake lib/neap lib/cmake/Neap
    share/neap)

# Has the loader look again, where it looks: programs find the library without a path in them there.
tell_loader() {
    [ -z "$destination" ] || return 0
    ldconfig -N -v 2>/dev/null | grep -F "$prefix/lib: " >/dev/null || return 0
    ldconfig || echo "install: run ldconfig as root: programs look for $prefix/lib/libneap.so" >&2
}

if [ -n "$remove" ]; then
    for file in "${files[@]}"; do
        rm -f -- "$to"/$file
    done
    for folder in "${own_folders[@]}"; do
        rmdir "$to/$folder" 2>/dev/null || true
    done
    tell_loader
    echo "removed: what was installed in $to"
    exit
fi
if ! mkdir -p "$to" 2>/dev/null || [ ! -w "$to" ]; then
    echo "install: cannot write to $to: use sudo, or another PREFIX" >&2
    exit 2
fi
if [ ! -e build/lib/pkgconfig/neap.pc ]; then
    tools/setup.sh build
    tools/build.sh
fi
for folder in bin include lib lib/pkgconfig share/man/man1 share/bash-completion/completions \
    share/zsh/site-functions share/fish/vendor_completions.d "${own_folders[@]}"; do
    install -d "$to/$folder"
done
for file in "${files[@]}"; do
    for source in build/$file; do
        # The package for D is there if there was a D compiler.
        [ -e "$source" ] || [[ $source != *libneapd* ]] || continue
        name=${source#build/}
        cp --no-dereference --preserve=mode,timestamps "$source" "$to/$name.new"
        mv -f "$to/$name.new" "$to/$name"
    done
    # What another version had would be found beside this one.
    for old in "$to"/$file; do
        [ -e "build/${old#"$to"/}" ] || rm -f -- "$old"
    done
done
tell_loader
echo "installed: $to (try $to/bin/neap run -- PROGRAM)"
