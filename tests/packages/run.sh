#!/bin/bash
# The Debian packages: built here by one command, then installed, used and removed on minimal
# systems of Debian 12 and 13 that are made for it, in build/roots. As root. Usage: run.sh [SUITE
# …]. Called by tools/test.sh.
. "$(dirname "$0")/../lib.sh"
begin packages
only=("$@")
limit=900 shown=60
unset "${!NEAP_@}"

for command in debootstrap dh; do
    command -v $command >/dev/null || missing=$command
done
[ "$(id -u)" = 0 ] || missing="root's rights"
if [ -n "${missing:-}" ]; then
    skip "all" "there is no $missing here"
    exit
fi
result "make packages" tools/packages.sh || exit 1
for suite in bookworm trixie; do
    wanted $suite || continue
    root=build/roots/$suite layer=$out/$suite
    mkdir -p build/roots
    tools/fresh-root.sh --kept $suite "$root"
    case $? in
    0) ;;
    3) skip $suite "there is no $suite to be had here" && continue ;;
    *) not_ok "$suite, a fresh system" && continue ;;
    esac
    rm -rf --one-file-system "$layer"
    mkdir -p "$layer/files/root/neap/tests" "$layer/files/root/packages"
    cp -a tools "$layer/files/root/neap"
    cp -a tests/clients "$layer/files/root/neap/tests"
    cp build/packages/*.deb "$layer/files/root/packages"
    result "$suite, installed, used, removed" tools/fresh-root.sh --over "$root" "$layer" sh -euc '
        apt-get -qq update
        apt-get -qq -y --no-install-recommends install gcc libc6-dev pkg-config binutils
        cd /root/neap && PACKAGES=/root/packages tools/tests/packages.sh 2>&1'
    rm -rf --one-file-system "$layer"
done
exit "$failed"
