#!/bin/bash
# Builds the packages (or takes those in PACKAGES=DIR), installs, uses and removes them on the
# system it runs on. Called by tools/systems.sh and tests/packages/run.sh, as root, on a system made
# for it.
set -euxo pipefail
cd "$(dirname "$0")/../.."
tree=$PWD

if [ -z "${PACKAGES:-}" ]; then
    tools/setup.sh packages
    tools/packages.sh
fi
packages=${PACKAGES:-$PWD/build/packages}
tests/clients/install.sh demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export DEBIAN_FRONTEND=noninteractive

# add PACKAGE…: installs what was built.
add() {
    local files=() name
    for name in "$@"; do files+=("$packages/$name"_*.deb); done
    apt-get -qq -y --no-install-recommends --reinstall install "${files[@]}"
}
# Which libgc Guile runs on, and that it runs.
used() {
    guile --no-auto-compile -c '
        (use-modules (ice-9 textual-ports))
        (display (apply + (iota 10))) (newline)
        (gc)
        (display (call-with-input-file "/proc/self/maps" get-string-all))' >maps
    grep -qx 45 maps
    grep -o '/[^ ]*libgc\.so[^ ]*' maps | sort -u
}
own=/usr/lib/neap/libgc.so.1
theirs=$(used)
[ "$theirs" != $own ]

# The library and its headers; nothing else on the system changes.
add libneap0 libneap-dev libneap-gc1 neap-tools
[ "$(used)" = "$theirs" ]
cat >program.c <<'END'
#include <neap.h>
int main(void) { return neap_alloc(16) == 0; }
END
# shellcheck disable=SC2046 # flags are words
cc program.c $(pkg-config --cflags --libs neap) -o program
./program
ldd ./program | grep -E 'libneap.so.0 => (/usr)?/lib/libneap.so.0'
# shellcheck disable=SC2046
cc program.c $(pkg-config --cflags --static --libs neap) -o program
./program
# shellcheck disable=SC2046
cc program.c $(pkg-config --cflags --libs neap-static) -o program
./program
printf '%s\n' '#include <gc.h>' 'int main(void) { return GC_MALLOC(9) == 0; }' >gc.c
# shellcheck disable=SC2046
cc gc.c $(PKG_CONFIG_PATH=/usr/lib/neap/pkgconfig pkg-config --cflags --libs bdw-gc) -o gc
./gc
[ "$(neap run --summary=summary -- guile --no-auto-compile -c '(display 42)')" = 42 ]
grep '"cycles"' summary >/dev/null
man -w neap || [ -e /usr/share/man/man1/neap.1.gz ]

# The functions in a core or a profile have names.
add libneap0-dbgsym
id=$(readelf --notes /usr/lib/libneap.so.0 | sed -n 's/.*Build ID: //p')
[ -e "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" ]

# In place of the system's, also when either of both is installed anew.
add libgc1-neap
[ "$(used)" = $own ]
NEAP_SUMMARY=summary.system guile --no-auto-compile -c '(gc)'
grep '"cycles"' summary.system >/dev/null
add libgc1-neap
[ "$(used)" = $own ]
apt-get -qq -y --reinstall install libgc1
[ "$(used)" = $own ]

# And away again.
apt-get -qq -y remove libgc1-neap
[ "$(used)" = "$theirs" ]
[ ! -e /etc/ld.so.conf.d/00-libgc1-neap.conf ]
add libgc1-neap
apt-get -qq -y purge libgc1-neap libneap0 libneap0-dbgsym libneap-dev libneap-gc1 neap-tools
[ "$(used)" = "$theirs" ]
left=$(find /usr/lib /usr/include /usr/bin /usr/share /etc -regex '.*/\(lib\|_\|.*-\)?neap.*')
[ -z "$left" ]

# As tools/Containerfile does it in an image: by dpkg alone, from a folder that is bound there.
ln -s "$packages" /packages
sed -n '/^RUN /{:more; /\\$/{N; s/\\\n//; b more}; s/^RUN --mount=type=bind,target=[^ ]* *//p}' \
    "$tree/tools/Containerfile" | tee contained
grep '^dpkg' contained >/dev/null
bash -eux contained
[ "$(used)" = $own ]
rm /packages
apt-get -qq -y purge libgc1-neap libneap-gc1
[ "$(used)" = "$theirs" ]
