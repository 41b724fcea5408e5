#!/bin/bash
# Makes libneap-static.a, for programs that are linked with -static, and static.options, what their
# linker is told, from libneap.a and libneap.so. Usage: tools/static.sh FOLDER, which has those two;
# called by tools/build.sh.
#
# libneap.a stands before functions of libc's by defining them, and finds libc's own through the
# loader. In a program without one the linker keeps both apart by --wrap: what the archive defines
# as NAME is called __wrap_NAME here, and crates/neap-c/static/found.c knows libc's by __real_NAME.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?want a folder}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$folder/libneap.so" | awk '{ print $3 }' | grep -v '^neap_' >"$work/names"
# What makes threads in libc: each of these brings a part of libc along that few programs need.
rare='^(aio_|lio_|mq_notify$|getaddrinfo_a$|gai_suspend$)'
read -ra compiler <<<"${CC:-cc}"
list() { # list MACRO: a macro that calls another for each name it reads
    echo "#define $1(F) \\"
    sed 's/.*/    F(&) \\/'
    echo
}
{
    grep -vE "$rare" "$work/names" | list WRAPPED
    grep -E "$rare" "$work/names" | list RARE
} >"$work/wrapped.h"
sed 's/^/--wrap=/' "$work/names" >"$work/static.options"

{
    grep -vE "$rare" "$work/names" | sed 's/.*/& __wrap_&/'
    grep -E "$rare" "$work/names" | sed 's/.*/& neap_wrap_&/'
    printf '%s neap_static_%s\n' dlopen dlopen dlsym dlsym
} >"$work/renamed"
# What a compiler keeps for optimizing once more is of no use there, and makes some versions of ar
# complain.
objcopy --remove-section=.llvmbc --remove-section=.llvmcmd --redefine-syms="$work/renamed" \
    "$folder/libneap.a" "$work/libneap-static.a"

"${compiler[@]}" -std=c11 -O2 -Wall -Wextra -fPIC -I"$work" \
    -c crates/neap-c/static/found.c -o "$work/found.o"
objects=("$work/found.o")
while read -r name; do
    cat >"$work/$name.s" <<ASSEMBLY
        .globl __wrap_$name, neap_real_$name
        .type __wrap_$name, @function
__wrap_$name:
        jmp neap_wrap_$name
        .data
        .balign 8
neap_real_$name:
        .quad __real_$name
        .section .note.GNU-stack, "", @progbits
ASSEMBLY
    "${compiler[@]}" -c "$work/$name.s" -o "$work/$name.o"
    objects+=("$work/$name.o")
done < <(grep -E "$rare" "$work/names")
ar rcs "$work/libneap-static.a" "${objects[@]}"

place() { install -D --mode=644 "$work/$1" "$2.new" && mv -f "$2.new" "$2"; }
place libneap-static.a "$folder/libneap-static.a"
place static.options "$folder/neap/static.options"
