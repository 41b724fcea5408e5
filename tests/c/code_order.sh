#!/bin/bash
# What each program calls lies side by side at the start of the library's code: the kernel maps
# 64 KiB and more around each page that is touched. Where this fails, make the order anew with
# tools/text-order/order.py. Usage: code_order.sh LIBRARY (with its symbols)
set -euo pipefail
# The last of them lies 70 KiB behind the first byte.
most=$((160 * 1024))

start=$((0x$(objdump --section-headers "$1" | awk '$2 == ".text" { print $4 }')))
symbols=$(nm --defined-only --demangle "$1")
for function in runtime::on_load runtime::initialize_once runtime::allocation::attempt \
    heap::Heap::take_frames heap::frames::Frames::take; do
    address=$(awk -v name="neap_core::$function" \
        '{ gsub(/[<>]/, "", $3) } $3 == name { print $1; exit }' <<<"$symbols")
    [ -n "$address" ] || { echo "no neap_core::$function"; exit 1; }
    distance=$((0x$address - start))
    [ "$distance" -lt $most ] || { echo "$function: $distance bytes from the start"; exit 1; }
done
