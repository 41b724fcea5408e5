#!/bin/bash
# The paths of newcomers from a system with nothing on it: a minimal Debian 13 for each, made in
# build/roots, on which one page of the book is followed from its first command on, with `make
# install`, to a running program and its page with plots. As root. Usage: fresh.sh [NAME …]. Called
# by tools/test.sh.
#
# What is there before the first command: the archive's lists, something by the name of sudo, and
# the sources, which are those of `make source`. They are built once, on a system of their own that
# has no network by then, since each page's `make install` would do the same; and without
# optimization of the whole, which takes most of a build. What one system has fetched from the
# archive the next ones need not fetch again.
. "$(dirname "$0")/../lib.sh"
begin fresh
only=("$@")
limit=1500 shown=60
unset "${!NEAP_@}"
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16

users="libgc c cpp rust d"
layers=$out fetched=$out/fetched

# Ends the part where something is missing here.
without() {
    rm -rf --one-file-system "${layers:?}/builder"
    skip "all" "$1"
    exit "$failed"
}
command -v debootstrap >/dev/null || without "there is no debootstrap here"
git rev-parse --quiet --verify HEAD >"$out/output" 2>&1 || without "there is no commit here"
[ "$(id -u)" = 0 ] || without "there are no root's rights here"
unshare --mount --pid --fork true 2>/dev/null || without "no system may run in this one"
root=build/roots/trixie
mkdir -p build/roots
tools/fresh-root.sh --kept trixie "$root"
case $? in
0) ;;
2 | 3) without "there is no Debian 13 to be had here" ;;
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

# layer NAME [SOURCES]: a new one, which has the sources.
layer() {
    local files=$layers/$1/files
    rm -rf --one-file-system "${layers:?}/$1"
    mkdir -p "$files/root" "$files/usr/local/bin" "$files/etc/dpkg/dpkg.cfg.d" \
        "$files/var/cache/apt" "$files/var/lib/apt"
    printf '#!/bin/sh\nexec "$@"\n' >"$files/usr/local/bin/sudo"
    chmod +x "$files/usr/local/bin/sudo"
    # Nobody needs it after a loss of power.
    echo force-unsafe-io >"$files/etc/dpkg/dpkg.cfg.d/unsafe"
    [ -z "${2:-}" ] || cp -a --reflink=auto "$2" "$files/root/neap"
    [ ! -d "$fetched" ] || {
        cp -al "$fetched/archives" "$files/var/cache/apt/"
        cp -a "$fetched/lists" "$files/var/lib/apt/"
    }
}

rm -rf --one-file-system "$fetched"
layer builder
on "$layers/builder" 'apt-get -qq -o APT::Update::Error-Mode=any update' ||
    without "there is no network here, or none to Debian's archive"
# As by who has none of them yet.
mkdir -p "$layers/builder/cargo"
for file in config.toml config; do
    ! [ -e "${CARGO_HOME:-$HOME/.cargo}/$file" ] ||
        cp "${CARGO_HOME:-$HOME/.cargo}/$file" "$layers/builder/cargo"
done
tools/with-rust.sh env CARGO_HOME="$layers/builder/cargo" cargo fetch --quiet --locked \
    --target x86_64-unknown-linux-gnu 2>"$out/output" ||
    without "the crates that Neap is built from are not to be had here"

# The archive that `make source` makes, unpacked.
result "make source" tools/source.sh || exit 1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tar -xf "build/packages/neap-$version.tar.xz" -C "$layers/builder/files/root" || exit
mv "$layers/builder/files/root/neap-$version" "$layers/builder/files/root/neap"
result "the sources build without a network" on "$layers/builder" '
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq -y install make ldc
    cd /root/neap
    tools/setup.sh build
    unshare --net make build
    build/bin/neap version' || exit 1
# As `make build` leaves them, but for what only building again would want.
sources=$layers/built
rm -rf "$sources" "$layers/builder/files/root/neap/target"
mv "$layers/builder/files/root/neap" "$sources"
mkdir -p "$fetched"
mv "$layers/builder/files/var/cache/apt/archives" "$layers/builder/files/var/lib/apt/lists" "$fetched"
rm -rf --one-file-system "$layers/builder"

# walk USER: that page, from its first command on.
walk() {
    layer "$1" "$sources"
    on "$layers/$1" "
        FRESH=1 PREFIX=/usr/local NEAP=/root/neap /root/neap/tests/newcomer/$1.sh /root/work"
    local status=$?
    rm -rf --one-file-system "${layers:?}/$1"
    return "$status"
}
for user in $users; do
    ! wanted $user || result_beside "$user" walk "$user"
done
settle
rm -rf --one-file-system "$sources" "$fetched"
exit "$failed"
