#!/bin/bash
# Builds Debian packages of the tree into build/packages/. Called by `make packages`; needs what
# `tools/setup.sh packages` installs. Prints them with their sizes, last.
set -euo pipefail
cd "$(dirname "$0")/.."

destination=$PWD/build/packages
mkdir -p "$destination"
rm -f "$destination"/*.deb
trap 'debian/rules clean >/dev/null 2>&1' EXIT
DESTINATION=$destination debian/rules binary 2>&1 | tools/follow.sh "building packages"
for package in "$destination"/*.deb; do
    printf '%9d bytes, %9d installed: %s\n' "$(stat --format=%s "$package")" \
        "$(($(dpkg-deb --field "$package" Installed-Size) * 1024))" "${package##*/}"
done
