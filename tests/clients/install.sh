#!/bin/sh
# Installs what the client tests need and this machine does not have: the programs of Debian
# that use libgc, the C compiler that ECL, Nim, Crystal and Stalin call, and GNU time for figures.
# `install.sh demo`: only what the demonstration runs.
# Called by the set-up script; safe to run again: with everything there it does nothing.

set -eu

packages="guile-3.0 ecl w3m nim crystal neko goo libgc1 gcc libc6-dev time
    stalin libgc-dev chase debfoster autogen nix-bin haxe parser3-cgi maxima-sage remake"
[ "${1-}" != demo ] || packages="guile-3.0 libgc1 time"

missing=
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "clients: everything is installed"
    exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "clients: these packages are missing:$missing" >&2
        echo "clients: install them as root: apt-get install --no-install-recommends$missing" >&2
        exit 1
    }
    as_root="sudo"
    echo "clients: using sudo to install:$missing"
else
    echo "clients: installing:$missing"
fi

# shellcheck disable=SC2086 # the list is words
install_missing() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q \
        --no-install-recommends $missing
}

# On a fresh machine apt's lists may be absent or old: then fetch them and try once more.
install_missing || {
    echo "clients: that did not work; fetching the package lists and trying again"
    $as_root apt-get -o DPkg::Lock::Timeout=300 update -q
    install_missing
}
