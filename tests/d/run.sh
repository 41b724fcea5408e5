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

# expect NAME COMMAND…: the command ends well and prints something, which is what `same` wants then.
# A result only if it does not.
expect() {
    within printed "$out/expected" "${@:2}" && [ -s "$out/expected" ] && return
    echo "# failed, or printed nothing: ${*:2}"
    not_ok "$1, what is expected" "$out/output"
    return 1
}
# limited COMMAND…: in the time of a test; a function limits the commands that it runs.
limited() {
    if [ "$(type -t "$1")" = function ]; then "$@"; else timeout --kill-after=5 "$limit" "$@"; fi
}
# printed FILE COMMAND…: what the command prints is in the file then.
printed() { limited "${@:2}" >"$1"; }
# same NAME COMMAND…: the command ends well and prints what is expected.
same() { result "$1" prints "${@:2}"; }
prints() {
    local status
    limited "$@" >"$out/printed"
    status=$?
    diff "$out/expected" "$out/printed" && return "$status"
}

# source_of NAME: where it is.
source_of() {
    find tests/d -name "$1.d"
}

# build NAME FLAGS…: compiles NAME.d, of tests/d or a folder there, with what `neap flags d` says.
build() {
    local name=$1
    shift
    # shellcheck disable=SC2046 # flags are words
    result "$name compiles" ldc2 -w -od="$out/obj" -of="$out/$name" "$(source_of "$name")" "$@" $("$prefix/bin/neap" flags d)
}

modes=("gc:neap none" "gc:neap pagemap" "gc:neap-precise none" "gc:neap-precise pagemap")
# in_modes NAME COMMAND…: a result for each of them.
in_modes() {
    local mode gc watch
    for mode in "${modes[@]}"; do
        read -r gc watch <<<"$mode"
        result "$1, $gc, watch=$watch" env NEAP_WATCH="$watch" "${@:2}" "--DRT-gcopt=$gc"
    done
}

if wanted interface && build interface -O2 -disable-gc2stack; then
    in_modes interface "$out/interface"
    result "interface, check=3" env NEAP_CHECK=3 NEAP_WATCH=pagemap "$out/interface" --DRT-gcopt=gc:neap-precise
fi
if wanted attributes && build attributes -O2; then
    in_modes attributes "$out/attributes"
fi
if wanted disabled && build disabled -O2; then
    in_modes disabled env NEAP_MIN_TRIGGER=256K NEAP_BUSY_TRIGGER=0 "$out/disabled"
fi
if wanted walked && build walked -O2; then
    in_modes walked "$out/walked"
fi
if wanted arrays && build arrays -O2 -disable-gc2stack; then
    result "arrays, druntime's own" "$out/arrays"
    in_modes arrays env NEAP_MIN_TRIGGER=256K "$out/arrays"
fi
if wanted runtime && build runtime -O2 && expect runtime "$out/runtime"; then
    for mode in "${modes[@]}"; do
        read -r gc watch <<<"$mode"
        same "runtime, $gc, watch=$watch" env NEAP_WATCH="$watch" "$out/runtime" "--DRT-gcopt=$gc"
    done
    same "runtime, check=3" env NEAP_CHECK=3 NEAP_WATCH=pagemap "$out/runtime" --DRT-gcopt=gc:neap-precise
    # shellcheck disable=SC2016
    result "profile:1 prints a summary" sh -c '"$0" "--DRT-gcopt=gc:neap profile:1" | grep -q "Max Pause Time"' "$out/runtime"
fi
if wanted refused && build runtime -O2; then
    # A library that gives no layout: there is no collector, and no waiting for one.
    refused() {
        local said
        said=$(LD_PRELOAD=$out/no-layouts.so timeout 20 "$out/runtime" --DRT-gcopt=gc:neap 2>&1)
        [ $? = 1 ] && grep -q 'neap: the collector cannot start' <<<"$said"
    }
    echo 'unsigned neap_layout_leaf(void) { return ~0U; }' >"$out/no-layouts.c"
    compile no-layouts.so cc -shared -fPIC "$out/no-layouts.c" -o "$out/no-layouts.so" &&
        result "the collector cannot start, and says so" refused
fi
if wanted full && build full -O2; then
    # What ends for want of memory says so, and at once: in what way is druntime's to decide.
    full() {
        local said
        said=$(NEAP_MAX_HEAP=4MiB timeout 60 "$out/full" --DRT-gcopt=gc:neap 2>&1)
        [ $? != 124 ] && grep -q 'OutOfMemoryError.*Memory allocation failed' <<<"$said"
    }
    result "no memory, and no trace that needs some" full
    smaller() {
        local said
        said=$(NEAP_MAX_HEAP=4MiB "$out/full" smaller --DRT-gcopt=gc:neap 2>&1) && [ -z "$said" ]
    }
    result "no memory to move a smaller block, which stays" smaller
    result "no memory, caught" env NEAP_MAX_HEAP=4MiB "$out/full" caught --DRT-gcopt=gc:neap
fi
if wanted declarations; then
    compile declarations-c cc -I"$prefix/include" tests/d/declarations.c -o "$out/declarations-c" &&
        build declarations -Ibindings/d/source bindings/d/source/neap/c.d &&
        expect declarations "$out/declarations-c" && same declarations "$out/declarations"
fi
if wanted static && build runtime -O2; then
    # shellcheck disable=SC2046
    result "neap flags d --static" ldc2 -w -O2 -od="$out/obj" -of="$out/runtime-static" tests/d/runtime.d \
        $("$prefix/bin/neap" flags --static d) &&
        expect "runtime, libneap.a" "$out/runtime" && same "runtime, libneap.a" "$out/runtime-static" --DRT-gcopt=gc:neap
fi

# differences FILE FILE: whether the lines that differ between two outputs of `compared` are those
# that the table of docs/d.md names, each of them.
differences() {
    local differing name pattern status=0
    differing=$(diff "$1" "$2" | sed -n 's/^[<>] //p')
    sed -n '/^| lines |/,/^$/p' docs/d.md | tail -n +3 | cut -d'|' -f2 | grep -o '`[^`]*`' | tr -d '`' >"$out/patterns"
    while read -r name; do
        awk -v name="$name" 'index(name, $0) == 1 { found = 1 } END { exit !found }' "$out/patterns" ||
            { echo "differs, and is not in the table: $name" && status=1; }
    done <<<"$differing"
    while read -r pattern; do
        grep -q "^$pattern" <<<"$differing" || { echo "in the table, and does not differ: $pattern" && status=1; }
    done <"$out/patterns"
    return $status
}
# compared GC: what it prints, with `disable:1`, and where the world stops for whole cycles.
compared() {
    "$out/compared" "--DRT-gcopt=gc:$1 cleanup:none" && "$out/compared" disabled "--DRT-gcopt=gc:$1 disable:1" &&
        NEAP_WATCH=none "$out/compared" alone "--DRT-gcopt=gc:$1 cleanup:none"
}
# compare GC: its output with that of druntime's own.
compare() {
    compared "$1" >"$out/compared-$1" 2>&1 && differences "$out/expected" "$out/compared-$1"
}
if wanted compared && build compared -O2 -disable-gc2stack; then
    if result "compared, druntime's own" compared conservative; then
        cp "$out/output" "$out/expected"
        for gc in neap neap-precise; do result "compared, $gc" compare "$gc"; done
    fi
fi
if wanted forked && build forked -O2; then
    for watch in none pagemap fork; do
        result "forked, watch=$watch" env NEAP_WATCH=$watch NEAP_MIN_TRIGGER=256K "$out/forked" --DRT-gcopt=gc:neap
    done
fi

if wanted writers && build writers -O2; then
    for check in 0 3; do
        result "writers, check=$check" env NEAP_CHECK=$check NEAP_WATCH=pagemap NEAP_MIN_TRIGGER=1M \
            NEAP_BUSY_TRIGGER=0 "$out/writers" --DRT-gcopt=gc:neap
    done
fi

# asked PROGRAM…: the heap of the running process has what its roots keep, by class and by root, and
# the program runs on to its end.
asked() {
    local word program status=1 what
    coproc ASKED { exec env NEAP_MIN_TRIGGER=256K "$@"; }
    program=$ASKED_PID
    local input=${ASKED[1]}
    read -r -t 60 word what <&"${ASKED[0]}" && [ "$word" = ready ] && heap_of "$what" && status=0
    eval "exec $input>&-"
    wait "$program" || return 1
    return $status
}
# heap_of PROCESS: what `neap heap` says of it.
heap_of() {
    local class count
    "$prefix/bin/neap" heap --save "$out/asked.heapsnapshot" "$1" | tee "$out/said" || return 1
    for class in 'ByVariable 100' 'ByThread 50' 'ByStack 1' 'ByRoot 1'; do
        read -r class count <<<"$class"
        # Of what a busy program makes some is there.
        [ "$class" = ByStack ] && count='[0-9,]*'
        grep -q "^ *$count .* asked.$class\$" "$out/said" || { echo "not so many asked.$class"; return 1; }
    done
    kept() { "$prefix/bin/neap" heap "$out/asked.heapsnapshot" --of "asked.$1" --rows 1 | tee "$out/path" && grep -q "$2" "$out/path"; }
    kept ByVariable '^  variable asked.list of asked' && kept ByThread '^  thread [0-9]* ' &&
        kept ByRoot '^  (roots of the host)'
}
if wanted asked && build asked -O2 -g; then
    for mode in "${modes[@]}"; do
        read -r gc watch <<<"$mode"
        for how in "" busy; do
            rm -f "$out/asked.heapsnapshot"
            # shellcheck disable=SC2086 # no word for an idle one
            result "heap of a process, ${how:-idle}, $gc, watch=$watch" asked env NEAP_WATCH="$watch" "$out/asked" $how "--DRT-gcopt=$gc"
        done
    done
    rm -f "$out/asked.heapsnapshot"
fi

if wanted precise && build precise -O2 -disable-gc2stack; then
    for watch in none pagemap; do
        result "precise, gc:neap, watch=$watch" env NEAP_WATCH="$watch" "$out/precise" conservative --DRT-gcopt=gc:neap
        result "precise, gc:neap-precise, watch=$watch" env NEAP_WATCH="$watch" "$out/precise" precise --DRT-gcopt=gc:neap-precise
    done
fi
if wanted unloaded && result "a library compiles" ldc2 -w -O2 -shared -link-defaultlib-shared \
    -d-version=Library -od="$out/library" -of="$out/libunloaded.so" tests/d/unloading/unloaded.d &&
    build unloaded -O2 -link-defaultlib-shared; then
    in_modes unloaded "$out/unloaded" "$out/libunloaded.so"
fi
if wanted finalizers && build finalizers -O2; then
    in_modes finalizers "$out/finalizers"
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
        expect "dub package, $compiler" "$out/dub/program/program" &&
            same "dub package, $compiler" "$out/dub/program/program" --DRT-gcopt=gc:neap-precise
        alone=(env "DUB_HOME=$out/dub/home" "PKG_CONFIG_PATH=$prefix/lib/pkgconfig"
            "LD_LIBRARY_PATH=$prefix/lib" dub)
        options=(--skip-registry=all "--compiler=$compiler")
        result "dub test, $compiler" "${alone[@]}" test "${options[@]}" "--root=$out/dub/neap"
        for example in "$out"/dub/neap/examples/*.d; do
            name=$(basename "$example" .d)
            expect "dub example $name, $compiler" "${alone[@]}" run --quiet --build=release --single \
                "${options[@]}" "$example" && same "dub example $name, $compiler" "${alone[@]}" run --quiet \
                --build=release --single "${options[@]}" "$example" -- --DRT-gcopt=gc:neap
        done
    done
    result "the dub package has the library's version" \
        grep -qF "\"version\": \"$("$prefix/bin/neap" version | head -n 1 | tr -dc '0-9.')\"" \
        bindings/d/dub.json
fi

# Programs that are built already, by `neap run`: it finds out which druntime they have.
# summary COMMAND…: runs it, and says whether cycles ran: so the collector was chosen, and not
# passed over.
summary() {
    rm -f "$out/summary"
    NEAP_SUMMARY=$out/summary "$@" >"$out/said" 2>&1 || { cat "$out/said" && return 1; }
    grep -q '"cycles":[1-9]' "$out/summary"
}
# refuses TEXT COMMAND…: whether it ends with status 2 and says this.
refuses() {
    local said status text=$1
    shift
    said=$("$@" 2>&1)
    status=$?
    printf '%s\n' "$said"
    [ $status = 2 ] && grep -qF -- "$text" <<<"$said"
}
# run_built NAME COMPILE…: builds what the word PROGRAM names, with the shared druntime.
run_built() {
    local name=$1
    shift
    result "run, $name compiles" "${@/PROGRAM/$out/shared-$name}" tests/d/runtime.d &&
        result "run, $name" summary "$prefix/bin/neap" run -- "$out/shared-$name" &&
        result "run, $name, its own choice" refuses "conservative" sh -c \
            '"$@" | grep -q "Grand total GC time" && echo conservative && exit 2' sh "$prefix/bin/neap" run -- \
            "$out/shared-$name" "--DRT-gcopt=gc:conservative profile:1"
}
if wanted run; then
    run_built ldc2 ldc2 -link-defaultlib-shared -of=PROGRAM -od="$out/obj"
    # Its own is linked in.
    inside="has D's runtime linked into it"
    result "run, ldc2, linked" refuses "$inside" "$prefix/bin/neap" run -- ldc2 --version
    # The package is in it: it only has to be chosen.
    build runtime -O2 && result "run, with the package" summary "$prefix/bin/neap" run -- "$out/runtime"
    if command -v gdc >/dev/null; then
        run_built gdc gdc -shared-libphobos -o PROGRAM
        compile linked-gdc gdc -static-libphobos -o "$out/linked-gdc" tests/d/runtime.d &&
            result "run, gdc, linked" refuses "$inside" "$prefix/bin/neap" run -- "$out/linked-gdc"
        # shellcheck disable=SC2046
        result "neap flags gdc" gdc -o "$out/runtime-gdc" tests/d/runtime.d $("$prefix/bin/neap" flags gdc) &&
            result "run, gdc with the package" summary "$out/runtime-gdc" --DRT-gcopt=gc:neap
    fi
    # A child with a druntime of its own inside would end itself if another were loaded.
    result "preloaded under a program with druntime inside" env NEAPD_GC=neap LD_PRELOAD="$prefix/lib/libneapd.so" ldc2 --version
    result "preloaded under a program of C nothing is said" sh -c '[ -z "$(LD_PRELOAD=$1 true 2>&1)" ]' sh "$prefix/lib/libneapd.so"
fi

. tests/d/real/programs.sh

if wanted gdc; then
    if [ -e "$prefix/lib/libneapd-gdc.so" ]; then
        preloaded=(env "LD_PRELOAD=$prefix/lib/libneapd-gdc.so" NEAP_MIN_TRIGGER=1M)
        for name in interface arrays finalizers; do
            result "$name, gdc, compiles" gdc -O2 -o "$out/$name-gdc" "$(source_of "$name")" || continue
            for gc in neap neap-precise; do
                result "$name, gdc, gc:$gc" "${preloaded[@]}" NEAP_WATCH=pagemap "$out/$name-gdc" "--DRT-gcopt=gc:$gc"
            done
        done
        # Optimized: its fibers hold things in registers alone.
        if result "runtime, gdc, compiles" gdc -O2 -o "$out/runtime-gdc-O2" tests/d/runtime.d &&
            expect "runtime, gdc" "$out/runtime-gdc-O2"; then
            for gc in neap neap-precise; do
                same "runtime, gdc, gc:$gc" "${preloaded[@]}" "$out/runtime-gdc-O2" "--DRT-gcopt=gc:$gc"
            done
        fi
    else
        echo "ok - d/gdc # SKIP no gdc"
    fi
fi

# The benchmark programs check their results; here they do less than in a benchmark, with more
# cycles for it. With each, how much.
programs="bulk:4096 resize:16 string:1 conalloc:40 conappend:800 concpu:40 dlist:6 huge_single:100 rand_large:30 rand_small:300 slist:6 testgc3:1,20
    tree1:10 tree2:100000 words:6 parser:12 conmsg:3000 aa_bigint:5000 aa_objects:40000
    aa_pointers:9000 aa_stomp:3 aa_cache:100000"
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

# by_passes COMMAND…: whether a cycle of it was caught up with in short stops. A run may be lucky:
# five have to be.
by_passes() {
    local run
    for run in 1 2 3 4 5; do
        NEAP_MIN_TRIGGER=1M NEAP_LOG=cycles NEAP_WATCH=pagemap "$@" 2>&1 >"$out/said" |
            grep ' passes=[1-9]' >/dev/null && return
    done
    return 1
}
if wanted testgc3 && [ -x "$out/testgc3" ]; then
    if "$prefix/bin/neap" doctor | grep '^ *pagemap *works' >/dev/null; then
        result "testgc3 is caught up with in short stops" by_passes "$out/testgc3" "--DRT-gcopt=gc:neap"
    else
        skip "testgc3 is caught up with in short stops" "there is no watch=pagemap here"
    fi
fi

exit "$failed"
