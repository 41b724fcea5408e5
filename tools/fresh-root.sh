#!/bin/bash
# Makes a minimal Debian in a folder, or runs a command in one. Called by tools/systems.sh,
# tests/newcomer/fresh.sh and tests/packages/run.sh, as root.
# Usage: tools/fresh-root.sh SUITE FOLDER            a new one, from the archive that apt uses here
#        tools/fresh-root.sh --kept SUITE FOLDER     the one that is there, if it is not a week old
#        tools/fresh-root.sh --in FOLDER COMMAND…    there, with processes and mounts of its own
#        tools/fresh-root.sh --over FOLDER LAYER COMMAND…  the same, but FOLDER stays as it is:
#                                                    what differs from it is in LAYER/files
#
# The archive, how apt reaches it, whom TLS trusts and how cargo reaches its registry are as on this
# machine. Proxies and what cargo is told come from the environment.
set -euo pipefail

say() { echo "fresh-root: $*" >&2; }

if [ "${1:-}" = --in ] || [ "${1:-}" = --over ]; then
    how=$1 root=$(realpath "${2:?want a folder}") layer=
    shift 2
    if [ "$how" = --over ]; then
        layer=$(realpath "${1:?want a layer}")
        shift
        mkdir -p "$layer/files" "$layer/work" "$layer/root"
    fi
    variables=(HOME=/root LC_ALL=C.UTF-8
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
    while IFS= read -r name; do
        variables+=("$name=${!name}")
    done < <(compgen -e | grep -iE '^(https?|ftp|all|no)_proxy$|^CARGO_(PROFILE|BUILD|NET|HTTP)_' || true)
    # shellcheck disable=SC2016 # the inner shell expands them
    exec unshare --mount --pid --fork --kill-child sh -euc '
        root=$1 layer=$2
        shift 2
        if [ -n "$layer" ]; then
            mount -t overlay overlay "$layer/root" -o \
                "lowerdir=$root,upperdir=$layer/files,workdir=$layer/work"
            root=$layer/root
        fi
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/run"
        exec chroot "$root" env -i "$@"' - "$root" "$layer" "${variables[@]}" "$@"
fi

kept=no
[ "${1:-}" != --kept ] || { kept=yes && shift; }
suite=${1:?want a suite of Debian, such as trixie} root=${2:?want a folder}
if [ "$(id -u)" != 0 ]; then
    say "only root can make one"
    exit 2
fi
if ! command -v debootstrap >/dev/null; then
    say "debootstrap is missing: apt-get install debootstrap"
    exit 2
fi
# archive LABEL: where apt has packages with this label from.
archive() {
    # shellcheck disable=SC2016 # apt's own names
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk -v label="$1" '$1 == label { print $2; exit }'
}
main=$(archive Debian) security=$(archive Debian-Security)
if [ -z "$main" ]; then
    say "apt has no archive of Debian here; 'apt-get update' first"
    exit 2
fi

# What says that it is whole.
whole=$root.whole
[ $kept = no ] || [ -z "$(find "$whole" -mtime -7 2>/dev/null)" ] || exit 0
rm -rf --one-file-system "$root" "$whole"
mkdir -p "$root"
if ! debootstrap --variant=minbase "$suite" "$root" "$main" >"$root.log" 2>&1; then
    tail -n 5 "$root.log" >&2
    say "there is no $suite to be had from here, see $root.log"
    exit 3
fi
{
    echo "deb $main $suite main"
    [ -z "$security" ] || echo "deb $security $suite-security main"
} >"$root/etc/apt/sources.list"
apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/80host" || true
cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
# One file each: the package ca-certificates, once it is installed, makes its own list of these.
trusted=$root/usr/local/share/ca-certificates
mkdir -p "$trusted" "$root/etc/ssl/certs" "$root/root/.cargo"
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    awk -v folder="$trusted" '/-----BEGIN/ { n++ } { print >(folder "/host-" n ".crt") }' \
        /etc/ssl/certs/ca-certificates.crt
fi
for file in config.toml config; do
    ! [ -e "${CARGO_HOME:-$HOME/.cargo}/$file" ] ||
        cp "${CARGO_HOME:-$HOME/.cargo}/$file" "$root/root/.cargo/"
done
touch "$whole"
