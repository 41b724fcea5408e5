#!/bin/bash
# The paths of newcomers from a system with nothing on it: a minimal Debian 13 for each, made in
# build/roots, on which one page of the book is followed from its first command on, with `make
# install`, to a running program and its page with plots. As root. Usage: fresh.sh [NAME …]. Called
# by tools/test.sh.
#
# What is there before the first command: the archive's lists, something by the name of sudo, and
# the sources, which are those of `make source`. They are built once, on a system of their own that
# has no network by then, since each page's `make install` would do the same.
. "$(dirname "$0")/../lib.sh"
begin fresh
only=("$@")
limit=1500 shown=60
unset "${!NEAP_@}"

users="libgc c cpp rust d"
command -v debootstrap >/dev/null || missing=debootstrap
[ "$(id -u)" = 0 ] || missing="root's rights"
if [ -n "${missing:-}" ]; then
    skip "all" "there is no $missing here"
    exit
fi
root=build/roots/trixie
mkdir -p build/roots
tools/fresh-root.sh --kept trixie "$root"
case $? in
0) ;;
3) skip "all" "there is no Debian 13 to be had here" && exit ;;
*) not_ok "a fresh Debian 13" && exit 1 ;;
esac

# on LAYER COMMAND: a shell's command, as root, on a system that has the layer's files besides. What
# it says is in LAYER.log; the end of it is shown where it fails.
on() {
    timeout --kill-after=5 "$limit" tools/fresh-root.sh --over "$root" "$1" bash -euc "$2" \
        >"$1.log" 2>&1 </dev/null && return
    tail -n "$shown" "$1.log"
    return 1
}

# layer NAME: a new one, which has the sources.
layer() {
    rm -rf --one-file-system "${out:?}/$1"
    mkdir -p "$out/$1/files/root" "$out/$1/files/usr/local/bin"
    printf '#!/bin/sh\nexec "$@"\n' >"$out/$1/files/usr/local/bin/sudo"
    chmod +x "$out/$1/files/usr/local/bin/sudo"
    cp -a "$sources" "$out/$1/files/root/neap"
}

# The archive that `make source` makes, unpacked.
result "make source" tools/source.sh || exit 1
rm -rf "$out/unpacked"
mkdir "$out/unpacked"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tar -xf "build/packages/neap-$version.tar.xz" -C "$out/unpacked" || exit
sources=$(echo "$out/unpacked"/neap-*)
layer builder
result "the sources build without a network" on "$out/builder" '
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq -y install make ldc
    cd /root/neap
    tools/setup.sh build
    unshare --net make build
    build/bin/neap version' || exit 1
# As `make build` leaves them, but for what only building again would want.
sources=$out/built
rm -rf "$sources"
cp -a "$out/builder/files/root/neap" "$sources"
rm -rf "$sources/target"
rm -rf --one-file-system "$out/builder"

for user in $users; do
    wanted $user || continue
    layer "$user"
    result "$user" on "$out/$user" "
        apt-get -qq update
        FRESH=1 PREFIX=/usr/local NEAP=/root/neap /root/neap/tests/newcomer/$user.sh /root/work"
    rm -rf --one-file-system "${out:?}/$user"
done
rm -rf "$sources" "$out/unpacked"
exit "$failed"
