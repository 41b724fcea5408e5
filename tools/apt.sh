#!/bin/bash
# Installs those of the named Debian packages that are not installed, and says so.
# Usage: tools/apt.sh PACKAGE… What this system has no package of is named and left out: what needs
# it is skipped by the tests, or says that it is missing. tools/apt.sh --available PACKAGE… is
# whether apt has them all. Called by tools/setup.sh and tests/clients/install.sh. Needs root or
# sudo only to install.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }

# Those of the named packages that are not installed.
missing() {
    local package
    for package in "$@"; do
        dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -qx installed || echo "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        say "with sudo: $*"
        sudo "$@"
    else
        say "this needs root, and there is no sudo; as root run: $*"
        exit 2
    fi
}

# apt STEP COMMAND…: what it says comes through, and that it goes on.
apt() {
    local step=$1
    shift
    as_root "$@" 2>&1 | tools/follow.sh "setup, apt-get $step" >&2
}
fetch_lists() { apt update apt-get -qq -o DPkg::Lock::Timeout=300 update; }
install() {
    apt install env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
        --no-install-recommends install "$@"
}

# Lists that are a day old are believed, so that nothing is fetched where nothing can be installed.
lists=${APT_LISTS:-/var/lib/apt/lists}
update() {
    [ -z "$(find "$lists" -name '*_Packages*' -ctime -1 -print -quit 2>/dev/null)" ] || return 0
    fetch_lists
}

# Asks for a version that could be installed, as only policy does: for packages that are gone, or
# that only others provide, it says none. All of it is read: apt-cache fails where nobody does.
available() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep '^  Candidate: [^(]' >/dev/null
}

if [ "${1:-}" = --available ]; then
    shift
    update
    for package in "$@"; do available "$package" || exit 1; done
    exit 0
fi

mapfile -t wanted < <(missing "$@")
[ ${#wanted[@]} != 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
    say "this is no Debian; install what its packages hold by other means: ${wanted[*]}"
    exit 2
fi
update
there=() without=()
for package in "${wanted[@]}"; do
    if available "$package"; then there+=("$package"); else without+=("$package"); fi
done
[ ${#without[@]} = 0 ] || say "this system has no package of: ${without[*]}"
[ ${#there[@]} != 0 ] || exit 0
say "installing ${there[*]}"
install "${there[@]}" || {
    # The lists may have been older than the archive.
    fetch_lists
    install "${there[@]}"
}
