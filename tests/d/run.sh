#!/bin/bash
# Builds and runs the tests of the D package against what `make build` laid out, in each mode of the
# collector, and runs real D programs on it, with output compared to that of druntime's own
# collector. Prints a result line for each. Usage: tests/d/run.sh [NAME …]: only these. PREFIX=DIR
# tests another installation. Called by tools/test.sh.
. "$(dirname "$0")/../lib.sh"
begin d
only=("$@")

if ! command -v ldc2 >/dev/null; then
    echo "ok - d # SKIP no ldc2"
    exit 0
fi

# same NAME FILE COMMAND…: the command prints what is in the file.
same() {
    local name=$1 expected=$2
    shift 2
    # shellcheck disable=SC2016 # for the inner shell
    result "$name" sh -c 'expected=$1; shift; "$@" | diff "$expected" -' sh "$expected" "$@"
}

# build NAME FLAGS…: compiles tests/d/NAME.d with what `neap flags d` says.
build() {
    local name=$1
    shift
    # shellcheck disable=SC2046 # flags are words
    result "$name compiles" ldc2 -w -od="$out/obj" -of="$out/$name" "tests/d/$name.d" "$@" $("$prefix/bin/neap" flags d)
}

modes=("gc:neap none" "gc:neap pagemap" "gc:neap-precise none" "gc:neap-precise pagemap")

if wanted interface && build interface -O2 -disable-gc2stack; then
    for mode in "${modes[@]}"; do
        read -r gc watch <<<"$mode"
        result "interface, $gc, watch=$watch" env NEAP_WATCH="$watch" "$out/interface" "--DRT-gcopt=$gc"
    done
    result "interface, check=3" env NEAP_CHECK=3 NEAP_WATCH=pagemap "$out/interface" --DRT-gcopt=gc:neap-precise
fi
if wanted runtime && build runtime -O2; then
    "$out/runtime" >"$out/expected"
    for mode in "${modes[@]}"; do
        read -r gc watch <<<"$mode"
        same "runtime, $gc, watch=$watch" "$out/expected" env NEAP_WATCH="$watch" "$out/runtime" "--DRT-gcopt=$gc"
    done
    same "runtime, check=3" "$out/expected" env NEAP_CHECK=3 NEAP_WATCH=pagemap "$out/runtime" --DRT-gcopt=gc:neap-precise
    # shellcheck disable=SC2016
    result "profile:1 prints a summary" sh -c '"$0" "--DRT-gcopt=gc:neap profile:1" | grep -q "Max Pause Time"' "$out/runtime"
fi
if wanted declarations; then
    cc -I"$prefix/include" tests/d/declarations.c -o "$out/declarations-c" &&
        build declarations -Ibindings/d/source bindings/d/source/neap/c.d && "$out/declarations-c" >"$out/expected" &&
        same declarations "$out/expected" "$out/declarations"
fi
if wanted static; then
    # shellcheck disable=SC2046
    result "neap flags d --static" ldc2 -w -O2 -od="$out/obj" -of="$out/runtime-static" tests/d/runtime.d \
        $("$prefix/bin/neap" flags --static d) &&
        "$out/runtime" >"$out/expected" && same "runtime, libneap.a" "$out/expected" "$out/runtime-static" --DRT-gcopt=gc:neap
fi

if wanted precise && build precise -O2 -disable-gc2stack; then
    for watch in none pagemap; do
        result "precise, gc:neap, watch=$watch" env NEAP_WATCH="$watch" "$out/precise" conservative --DRT-gcopt=gc:neap
        result "precise, gc:neap-precise, watch=$watch" env NEAP_WATCH="$watch" "$out/precise" precise --DRT-gcopt=gc:neap-precise
    done
fi
if wanted unloaded && result "a library compiles" ldc2 -w -O2 -shared -link-defaultlib-shared \
    -d-version=Library -od="$out/library" -of="$out/libunloaded.so" tests/d/unloaded.d &&
    build unloaded -O2 -link-defaultlib-shared; then
    for mode in "${modes[@]}"; do
        read -r gc watch <<<"$mode"
        result "unloaded, $gc, watch=$watch" env NEAP_WATCH="$watch" "$out/unloaded" "$out/libunloaded.so" "--DRT-gcopt=$gc"
    done
fi

# The dub package, as a dependency of a program, without a network; with each compiler. It is
# copied, since dub builds where the package lies.
if wanted package && command -v dub >/dev/null; then
    rm -rf "$out/dub"
    mkdir -p "$out/dub/program/source"
    cp -r bindings/d "$out/dub/neap"
    cp tests/d/runtime.d "$out/dub/program/source/"
    printf '{"name": "program", "targetType": "executable", "dependencies": {"neap": {"path": "../neap"}}, "lflags": ["-L%s", "-rpath=%s"]}\n' \
        "$prefix/lib" "$prefix/lib" >"$out/dub/program/dub.json"
    for compiler in ldc2 gdc; do
        command -v "$compiler" >/dev/null || continue
        result "dub build, $compiler" env DUB_HOME="$out/dub/home" dub build --force --skip-registry=all --compiler="$compiler" \
            "--root=$out/dub/program" || continue
        "$out/dub/program/program" >"$out/expected"
        same "dub package, $compiler" "$out/expected" "$out/dub/program/program" --DRT-gcopt=gc:neap-precise
    done
fi

# Real programs of Debian, not rebuilt: the package for their druntime is loaded before them. real
# NAME PACKAGE COMMAND…
real() {
    local name=$1 package=$prefix/lib/$2
    shift 2
    wanted "$name" || return 0
    if ! command -v "$1" >/dev/null || [ ! -e "$package" ]; then
        echo "ok - d/$name # SKIP $1 or the compiler of its druntime is not installed"
        return 0
    fi
    "$@" >"$out/expected" 2>&1
    for watch in none pagemap; do
        # shellcheck disable=SC2016
        same "$name, watch=$watch" "$out/expected" sh -c '"$@" 2>&1' sh env LD_PRELOAD="$package" NEAP_WATCH="$watch" \
            "$@" --DRT-gcopt=gc:neap
    done
    # So the collector was chosen, and not passed over.
    # shellcheck disable=SC2016
    result "$name has Neap's summary" sh -c 'p=$1; shift; LD_PRELOAD=$p "$@" "--DRT-gcopt=gc:neap profile:1" | grep -q "Peak heap"' sh \
        "$package" "$@"
}
mkdir -p "$out/package/source"
printf '{"name": "sample", "targetType": "library", "subPackages": [{"name": "part", "targetType": "library"}]}' >"$out/package/dub.json"
echo 'module sample;' >"$out/package/source/sample.d"
real onedrive libneapd.so onedrive --confdir="$out/onedrive" --version
real dub libneapd-gdc.so dub describe --skip-registry=all "--root=$out/package"
if wanted gdc; then
    if [ -e "$prefix/lib/libneapd-gdc.so" ]; then
        result "interface, gdc, compiles" gdc -O2 -o "$out/interface-gdc" tests/d/interface.d &&
            result "interface, gdc" env LD_PRELOAD="$prefix/lib/libneapd-gdc.so" NEAP_WATCH=pagemap "$out/interface-gdc" --DRT-gcopt=gc:neap
    else
        echo "ok - d/gdc # SKIP no gdc"
    fi
fi

# The benchmark programs check their results; here they do less than in a benchmark, with more
# cycles for it. With each, how much.
programs="bulk:4096 resize:16 string:1 conalloc:40 conappend:800 concpu:40 dlist:6 huge_single:100 rand_large:30 rand_small:300 slist:6 testgc3:1,20
    tree1:10 tree2:100000 words:6"
for entry in $programs; do
    program=${entry%%:*}
    IFS=, read -ra less <<<"${entry#*:}"
    wanted "$program" || continue
    # shellcheck disable=SC2046
    result "$program compiles" ldc2 -w -i -Ibench/gcbench -od="$out/obj" -of="$out/$program" "bench/gcbench/$program.d" \
        $("$prefix/bin/neap" flags d) || continue
    for mode in "gc:neap none" "gc:neap pagemap" "gc:neap-precise pagemap"; do
        read -r gc watch <<<"$mode"
        result "$program, $gc, watch=$watch" env NEAP_MIN_TRIGGER=65536 NEAP_BUSY_TRIGGER=0 NEAP_WATCH="$watch" "$out/$program" "${less[@]}" "--DRT-gcopt=$gc"
    done
done

exit "$failed"
