#!/bin/bash
# An allocation of a constant size is about ten instructions without a call, lock or division until
# it has to fall back. Usage: inline.sh PREFIX FOLDER
set -euo pipefail
prefix=${1:?want PREFIX} out=${2:?want FOLDER}

cat >"$out/inline-probe.c" <<'C'
#include <neap.h>
void *small(void) { return neap_alloc(24); }
void *middle(void) { return neap_alloc_leaf(1000); }
void *any(size_t bytes) { return neap_alloc(bytes); }
C
cc -O2 -I"$prefix/include" -c "$out/inline-probe.c" -o "$out/inline-probe.o"
for function in small:12 middle:12 any:45; do
    name=${function%:*} most=${function#*:}
    # Up to the return; what follows is the way to the library.
    code=$(objdump -d --no-show-raw-insn "$out/inline-probe.o" | awk "/<$name>:/ {on = 1; next} on && /\\tret/ {exit} on" | grep -v nop)
    count=$(echo "$code" | wc -l)
    if [ "$count" -gt "$most" ] || echo "$code" | grep -Eq 'call|lock|div|xchg|mfence'; then
        echo "$name takes $count instructions before it returns, at most $most expected, none of them a call or locked:"
        echo "$code"
        exit 1
    fi
done
