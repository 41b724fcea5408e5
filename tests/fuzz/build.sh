# shellcheck shell=bash # sourced by scripts that have sourced tests/lib.sh
# The programs that run sequences of calls.
shared="tests/fuzz/shadow.c tests/fuzz/finalize.c tests/fuzz/sequence.c tests/fuzz/driver.c"
warnings="-Wall -Wextra -Werror -Wno-deprecated-declarations"

# build NAME INTERFACE LIBRARIES ARGUMENT…: a program on an interface, and on libraries that lie in
# a folder.
build() {
    local name=$1 interface=$2 libraries=$3 include=$prefix/include link=-lneap
    local sources="$shared tests/fuzz/on_neap.c"
    shift 3
    if [ "$interface" = gc ]; then
        include=$prefix/include/neap link=-lgc
        sources="$shared tests/fuzz/on_gc.c tests/fuzz/gc_operations.c"
    fi
    # shellcheck disable=SC2086
    compile "$name" cc -std=gnu11 -O2 -g $warnings -I"$include" $sources \
        -o "$out/$name" -L"$libraries" -Wl,-rpath,"$libraries" $link \
        -pthread "$@"
}
