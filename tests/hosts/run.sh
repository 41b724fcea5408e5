#!/bin/bash
# Hosts that carry a copy of Boehm's collector within, on Neap: Mono's runtime, linked anew without
# its copy, runs C# programs, Mono's C# compiler and a host in C under each watch, and has to print
# what Debian's own Mono prints. Usage: tests/hosts/run.sh [NAME …]: only these programs.
# PREFIX=DIR tests another installation. Called by tools/test.sh.
. "$(dirname "$0")/../lib.sh"
begin hosts
only=("$@")
# Programs of the tests have arguments by this.
declare -A arguments=([trees]=14)
programs=(hello trees objects finalizers references threads domains)
watches=(pagemap fork mprotect snapshot none)
mono=$out/mono

missing=
command -v mcs >/dev/null || missing="mcs (Debian's mono-mcs)"
[ -e /usr/lib/libmonoboehm-2.0.a ] || missing="libmonoboehm-2.0.a (Debian's libmonoboehm-2.0-dev)"
if [ -n "$missing" ]; then
    for name in "${programs[@]}" mcs embed; do
        ! wanted "$name" || skip "mono, $name" "no $missing"
    done
    exit 0
fi

# What a runtime for Boehm's collector says at its end after two seconds, with its own copy too: it
# waits for a thread that nobody has told it of.
without_farewell() { sed '/^Waiting on threads to park on joinable thread list/d'; }

# same EXPECTED SUMMARY COMMAND…: prints what is in the file EXPECTED, and ran on Neap.
same() {
    local expected=$1 summary=$2 printed
    shift 2
    rm -f "$summary"
    printed=$(mktemp "$out/printed.XXXXXX")
    NEAP_SUMMARY=$summary timeout --kill-after=5 "$limit" "$@" >"$printed"
    local status=$?
    without_farewell <"$printed" | diff "$expected" - && [ "$status" = 0 ] && grep -q '"cycles":' "$summary"
    local same=$?
    rm -f "$printed"
    [ "$status" = 0 ] || echo "ended with status $status"
    return $same
}

# under WATCH NAME EXPECTED COMMAND…: a result of what runs under a watch.
under() {
    local watch=$1 name=$2 expected=$3
    shift 3
    local check=${NEAP_CHECK:+, check=$NEAP_CHECK}
    NEAP_WATCH=$watch result_beside "mono, $name, watch=$watch$check" \
        same "$expected" "$out/$name-$watch${NEAP_CHECK-}.json" "$@"
}

result "mono is linked without its copy" tests/hosts/mono/relink.sh "$mono" || exit
for name in "${programs[@]}"; do
    wanted "$name" || continue
    compile "$name" mcs -unsafe -out:"$out/$name.exe" "tests/hosts/mono/$name.cs" || continue
    # shellcheck disable=SC2086 # the arguments are words
    if ! mono "$out/$name.exe" ${arguments[$name]-} >"$out/$name.expected" 2>"$out/output"; then
        not_ok "$name on Debian's Mono" "$out/output"
        continue
    fi
    for watch in "${watches[@]}"; do
        # shellcheck disable=SC2086
        under "$watch" "$name" "$out/$name.expected" "$mono" "$out/$name.exe" ${arguments[$name]-}
    done
    # Collections all the time, each verified.
    # shellcheck disable=SC2086
    NEAP_CHECK=3 NEAP_MIN_TRIGGER=512K under pagemap "$name" \
        "$out/$name.expected" "$mono" "$out/$name.exe" ${arguments[$name]-}
done

# mcs compiles on Neap: what it makes is what it makes on Debian's Mono but for the time and the
# random identity of the module, four and sixteen bytes, and prints the same.
compiled_alike() {
    local made=$1 expected=$2
    [ "$(stat -c %s "$made")" = "$(stat -c %s "$expected")" ] || {
        echo "$made has another size than $expected"
        return 1
    }
    local differing
    differing=$(cmp -l "$made" "$expected" | wc -l)
    [ "$differing" -le 20 ] || {
        echo "$differing bytes of $made differ from $expected"
        return 1
    }
    mono "$made" | diff "$out/mcs.printed" -
}
if wanted mcs; then
    tests/hosts/mono/generate.py >"$out/generated.cs"
    : >"$out/nothing"
    if mcs -out:"$out/made.exe" "$out/generated.cs" >"$out/output" 2>&1 &&
        mono "$out/made.exe" >"$out/mcs.printed"; then
        for watch in "${watches[@]}"; do
            mkdir -p "$out/$watch"
            rm -f "$out/$watch/made.exe"
            under "$watch" mcs "$out/nothing" "$mono" /usr/lib/mono/4.5/mcs.exe \
                -out:"$out/$watch/made.exe" "$out/generated.cs"
        done
        settle
        for watch in "${watches[@]}"; do
            result "mono, what mcs made, watch=$watch" compiled_alike "$out/$watch/made.exe" "$out/made.exe"
        done
    else
        not_ok "mcs on Debian's Mono" "$out/output"
    fi
fi

# A host in C: compiled once for the runtime with Mono's own collector, once for Neap.
if wanted embed; then
    options=(-Wall -Wextra -Werror -I/usr/include/mono-2.0)
    if ! [ -e /usr/include/mono-2.0/mono/jit/jit.h ] || ! [ -e /usr/lib/libmonosgen-2.0.so ]; then
        skip "mono, embed" "no headers and library of Mono (Debian's libmono-2.0-dev)"
    elif compile embed.dll mcs -target:library -out:"$out/embed.dll" tests/hosts/mono/embed.cs &&
        compile embed-sgen cc -O2 "${options[@]}" tests/hosts/mono/embed.c -o "$out/embed-sgen" -lmonosgen-2.0 &&
        compile embed tests/hosts/mono/relink.sh "$out/embed" tests/hosts/mono/embed.c "${options[@]}"; then
        if "$out/embed-sgen" "$out/embed.dll" >"$out/embed.expected" 2>"$out/output"; then
            for watch in "${watches[@]}"; do
                under "$watch" embed "$out/embed.expected" "$out/embed" "$out/embed.dll"
            done
        else
            not_ok "embed on Debian's Mono" "$out/output"
        fi
    fi
fi
settle
exit "$failed"
