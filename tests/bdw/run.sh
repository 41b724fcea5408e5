#!/bin/bash
# Tests of the libgc interface: C and C++ programs on gc.h, each run on Debian's libgc and on Neap;
# programs on functions that Debian's does not have (newer*), on Neap only; wrong use; and the
# exported symbols. Prints TAP lines: `ok - bdw/NAME` or `not ok - bdw/NAME`; what a failing program
# said comes before it, in lines that begin with #.
# usage: tests/bdw/run.sh [--library PATH] [--against ROOT] [NAME...]
#   --library PATH  test this libgc.so.1 (a file, or a directory that
#                   holds it) instead of build/lib/neap/libgc.so.1
#   --against ROOT  compare symbols and headers with those of the libgc that
#                   is installed under ROOT, such as another Debian's
#   NAME            run only these (alloc, ..., archive, misuse, compare, lists, symbols, headers)
# NEAP_* and GC_* of the environment reach the programs. Exit status: 0 all passed, 1 some did not,
# 2 nothing to test.
. "$(dirname "$0")/../lib.sh"
begin bdw
here=$PWD/tests/bdw
against=
library=$prefix/lib/neap/libgc.so.1
headers=$prefix/include/neap
while [ $# -gt 0 ]; do
    case $1 in
    --library)
        [ $# -ge 2 ] || { echo "run.sh: --library needs a path" >&2; exit 2; }
        library=$(cd "$from" && realpath "$2")
        shift 2
        ;;
    --against)
        [ $# -ge 2 ] || { echo "run.sh: --against needs a path" >&2; exit 2; }
        against=$(cd "$from" && realpath "$2")
        shift 2
        ;;
    -*) sed -n '6,11s/^# //p' "$here/run.sh" >&2; exit 2 ;;
    *) only+=("$1"); shift ;;
    esac
done
[ -d "$library" ] && library=$library/libgc.so.1
if [ ! -e "$library" ]; then
    echo "run.sh: there is no $library; run 'make build' first" >&2
    exit 2
fi
if ! [ -e /usr/include/gc/gc.h ] && ! [ -e /usr/local/include/gc/gc.h ]; then
    echo "run.sh: gc.h is missing; install libgc-dev ('make setup' does)" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The directory that programs find the library in under its soname.
mkdir "$work/lib"
ln -s "$(realpath "$library")" "$work/lib/libgc.so.1"
# The one that the linker finds it in, for programs that are linked against it instead of libgc.
mkdir "$work/link"
ln -s "$(realpath "$library")" "$work/link/libgc.so"
build() { # build SOURCE OUTPUT LIBRARIES...
    local source=$1 output=$2
    shift 2
    case $source in
    *.cc) "${CXX:-c++}" -O1 -g -Wno-deprecated-declarations "$source" -o "$output" "$@" ;;
    *) "${CC:-cc}" -O1 -g -Wall -Wextra -Wno-deprecated-declarations "$source" -o "$output" "$@" ;;
    esac
}

# both NAME PROGRAM ARGUMENTS...: runs it on each library. The time limit is for programs that hang.
both() {
    local name=$1 status
    shift
    # libgc takes a minute for it.
    if [ "$name" = signals ]; then
        result_beside "$name on libgc" "$@"
    else
        timeout 120 "$@" >"$out/output" 2>&1
        report $? "$name on libgc"
    fi
    BDW_ON_NEAP=1 LD_LIBRARY_PATH=$work/lib timeout 120 "$@" >"$out/output" 2>&1
    report $? "$name on neap"
}

for source in alloc settings debug_forms runtime_forms libc_forms past_end interior finalizers \
    awaited finalizer_cycles disclaim links kinds typed roots collect debugging runtimes \
    executable threads stacks stackbottoms fork signals environment overrides pacing suspension \
    unmapping asking freed ends free_lists incremental_procedures disabled finalize_all \
    left_finalizers leak_mode unregistered finalizer_race gcj_race beginnings walks; do
    wanted $source || continue
    if build "$here/$source.c" "$work/$source" -lgc -lpthread -ldl 2>"$out/output"; then
        both $source "$work/$source"
    else
        report 1 "$source: compile"
    fi
done

# Every other stop that may be given up is.
if wanted beginnings && [ -e "$work/beginnings" ]; then
    for watch in none pagemap fork mprotect snapshot; do
        result "beginnings on neap, watch=$watch, given up" env NEAP_WATCH=$watch NEAP_CHECK=3 \
            NEAP_MIN_TRIGGER=256K BDW_ON_NEAP=1 LD_LIBRARY_PATH="$work/lib" "$work/beginnings"
    done
fi

# libgc's marking threads keep a process where there are any.
if wanted last_thread && build "$here/last_thread.c" "$work/last_thread" -lgc -lpthread -ldl; then
    result "last_thread on libgc" env GC_MARKERS=1 "$work/last_thread"
    for watch in pagemap none fork mprotect snapshot; do
        result "last_thread on neap, watch=$watch" env NEAP_WATCH=$watch BDW_ON_NEAP=1 \
            LD_LIBRARY_PATH="$work/lib" "$work/last_thread"
    done
fi

for source in executable awaited finalizer_cycles stackbottoms pacing suspension runtime_forms \
    libc_forms debugging asking freed ends incremental_procedures disabled \
    finalize_all left_finalizers walks; do
    wanted $source && [ -e "$work/$source" ] || continue
    for watch in none fork mprotect snapshot; do
        result "$source on neap, watch=$watch" env NEAP_WATCH=$watch BDW_ON_NEAP=1 \
            LD_LIBRARY_PATH="$work/lib" "$work/$source"
    done
done

for test in altstacks heap_stacks fork_of_thread; do
    wanted $test || continue
    if build "$here/$test.c" "$work/$test" -lgc -lpthread -ldl 2>"$out/output"; then
        # libgc reads an alternate stack or the one that was left for it, not both.
        [ $test != heap_stacks ] || result "$test on libgc" "$work/$test"
        for watch in none pagemap fork mprotect snapshot; do
            result "$test on neap, watch=$watch" env NEAP_WATCH=$watch BDW_ON_NEAP=1 \
                LD_LIBRARY_PATH="$work/lib" "$work/$test"
        done
    else
        report 1 "$test: compile"
    fi
done

if wanted executable && [ -e "$work/executable" ]; then
    if "$work/executable" refuses; then
        result "executable on neap, refused" env BDW_ON_NEAP=1 LD_LIBRARY_PATH="$work/lib" \
            "$work/executable" refused
    else
        skip "executable on neap, refused" "the kernel cannot refuse it (Linux 6.3)"
    fi
fi

# Not under fork: what a mark procedure does stays in the child that marks.
if wanted unmapping && [ -e "$work/unmapping" ]; then
    for watch in none mprotect snapshot; do
        result "unmapping on neap, watch=$watch" env NEAP_WATCH=$watch BDW_ON_NEAP=1 \
            LD_LIBRARY_PATH="$work/lib" "$work/unmapping"
    done
fi

# As in tests/c/run.sh.
if wanted small_stacks; then
    export LD_BIND_NOW=1
    if build "$here/small_stacks.c" "$work/small_stacks" -Wl,-z,now -lgc -lpthread -ldl \
        2>"$out/output"; then
        result "small_stacks on libgc" "$work/small_stacks"
        for watch in none pagemap fork mprotect snapshot; do
            signalled=
            [ $watch = none ] || signalled=1
            for callbacks in "" callbacks; do
                # shellcheck disable=SC2086 # no word where there are no callbacks
                result "small_stacks, watch=$watch${callbacks:+, $callbacks}" \
                    env ${signalled:+SIGNALLED=1} NEAP_WATCH=$watch NEAP_MIN_TRIGGER=256K \
                    BDW_ON_NEAP=1 LD_LIBRARY_PATH="$work/lib" "$work/small_stacks" $callbacks
            done
        done
        result "small_stacks, frames of the library" tests/stack_use.sh "$library" 4096
    else
        report 1 "small_stacks: compile"
    fi
    unset LD_BIND_NOW
fi

# As a set-user-id program, which the loader gives no library by LD_LIBRARY_PATH.
privileged() {
    local folder status
    folder=$(mktemp -d) && chmod 755 "$folder" || return 1
    cp -L "$work/lib/libgc.so.1" "$folder/" &&
        build "$here/privileged.c" "$folder/privileged" -lgc -Wl,-rpath,"$folder" &&
        chmod 4755 "$folder/privileged" &&
        setpriv --reuid=65534 --clear-groups env BDW_ON_NEAP=1 GC_DONT_GC=1 \
            "$folder/privileged"
    status=$?
    rm -rf "$folder"
    return $status
}
if wanted privileged; then
    if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
        result privileged privileged
    else
        skip privileged "only root can make a set-user-id program"
    fi
fi

if wanted classes; then
    if build "$here/classes.cc" "$work/classes" -lgccpp -lgc 2>"$out/output"; then
        both classes "$work/classes"
    else
        report 1 "classes: compile"
    fi
fi

if wanted loaded; then
    if build "$here/plugin.c" "$work/plugin.so" -shared -fPIC 2>"$out/output" &&
        build "$here/loaded.c" "$work/loaded" -ldl 2>>"$out/output"; then
        both loaded "$work/loaded" "$work/plugin.so"
        result "loaded on neap, cycles beside the program" env NEAP_MAX_PAUSE=0 \
            LD_LIBRARY_PATH="$work/lib" "$work/loaded" "$work/plugin.so"
    else
        report 1 "loaded: compile"
    fi
fi

if wanted static_roots; then
    if build "$here/plugin.c" "$work/static_plugin.so" -shared -fPIC 2>"$out/output" &&
        build "$here/static_roots.c" "$work/static_roots" -lgc -ldl 2>>"$out/output"; then
        both static_roots "$work/static_roots" "$work/static_plugin.so"
        for watch in none fork mprotect snapshot; do
            result "static_roots on neap, watch=$watch" env NEAP_WATCH=$watch BDW_ON_NEAP=1 \
                LD_LIBRARY_PATH="$work/lib" "$work/static_roots" "$work/static_plugin.so"
        done
    else
        report 1 "static_roots: compile"
    fi
fi

if wanted plain_threads; then
    if build "$here/../c/loader_plugin.c" "$work/loader_plugin.so" -shared -fPIC 2>"$out/output" &&
        build "$here/plain_threads.c" "$work/plain_threads" -rdynamic -lgc -lpthread -ldl 2>>"$out/output"; then
        both plain_threads "$work/plain_threads" "$work/loader_plugin.so"
        result "plain_threads on neap, watch=none" env NEAP_WATCH=none BDW_ON_NEAP=1 LD_LIBRARY_PATH="$work/lib" \
            "$work/plain_threads" "$work/loader_plugin.so"
    else
        report 1 "plain_threads: compile"
    fi
fi

# Functions that libgc has in other versions than Debian's.
for source in newer_alloc newer_heap newer_marking; do
    wanted $source || continue
    if build "$here/$source.c" "$work/$source" "-I$headers" -L"$work/link" -lgc -lpthread \
        2>"$out/output"; then
        for watch in none pagemap fork snapshot; do
            result "$source on neap, watch=$watch" env NEAP_WATCH=$watch BDW_ON_NEAP=1 \
                LD_LIBRARY_PATH="$work/lib" "$work/$source"
        done
    else
        report 1 "$source: compile"
    fi
done
if wanted newer_alloc && [ -e "$work/newer_alloc" ]; then
    result "newer_alloc on neap, no byte past the end" env NEAP_PAST_END=0 BDW_ON_NEAP=1 \
        LD_LIBRARY_PATH="$work/lib" "$work/newer_alloc"
fi

# A program linked against our library instead of libgc, position-dependent: its references to data
# become copies.
if wanted linked; then
    {
        build "$here/collect.c" "$work/linked" -no-pie -L"$work/link" -lgc -lpthread &&
            BDW_ON_NEAP=1 LD_LIBRARY_PATH=$work/lib timeout 120 "$work/linked"
    } >"$out/output" 2>&1
    report $? "linked against neap"
fi

# Programs that the library is linked into. Its own data is among their roots.
if wanted archive; then
    archive=${library%/*}/libgc.a
    if [ -e "$archive" ]; then
        for source in alloc settings runtime_forms libc_forms debug_forms debugging freed leaks \
            finalizers finalizer_cycles disclaim links kinds typed roots collect runtimes threads \
            stacks fork environment free_lists incremental_procedures; do
            if build "$here/$source.c" "$work/$source.static" "$archive" -lutil -lrt -lpthread \
                -lm -ldl 2>"$out/output"; then
                result "$source, libgc.a" env BDW_ON_NEAP=1 "$work/$source.static"
            else
                report 1 "$source, libgc.a: does not link"
            fi
        done
        if [ -e "$work/leaks.static" ]; then
            result "leaks, libgc.a, hardened" env NEAP_HARDEN=1 BDW_ON_NEAP=1 "$work/leaks.static"
        fi
    elif [ "$library" = "$prefix/lib/neap/libgc.so.1" ]; then
        not_ok "there is no $archive"
    else
        skip "programs with libgc.a" "there is none beside the library"
    fi
fi

# Wrong use: the program has to end by abort(3), and say which function was used wrongly.
misused() { # misused PROGRAM: each line a case and the function
    local case function status
    while read -r case function; do
        LD_LIBRARY_PATH=$work/lib timeout 60 "$work/$1" "$case" >"$out/output" 2>&1
        status=$?
        if [ $status = 134 ] && grep -q "^neap: $function" "$out/output"; then
            status=0
        elif [ $status = 0 ]; then
            status=1 # it went on
        fi
        report $status "$1 $case"
    done 2>/dev/null
}
if wanted misuse; then
    if build "$here/misuse.c" "$work/misuse" -lgc 2>"$out/output"; then
        misused misuse <<'CASES'
double-free GC_free(0x
interior-free GC_free(0x
foreign-free GC_free(0x
malloc-free GC_free(0x
interior-realloc GC_realloc(0x
foreign-realloc GC_realloc(0x
debug-double-free GC_free(0x
large-double-free GC_free(0x
unaligned-link GC_general_register_disappearing_link(0x
no-such-kind GC_generic_malloc:
gcj-before-init GC_gcj_malloc:
kinds-without-end GC_new_kind:
kind-without-memory GC_new_kind:
typed-without-memory GC_malloc_explicitly_typed:
not-the-same-object GC_same_obj:
CASES
    else
        report 1 "misuse: compile"
    fi
fi
if wanted newer_misuse; then
    if build "$here/newer_misuse.c" "$work/newer_misuse" "-I$headers" -L"$work/link" -lgc \
        2>"$out/output"; then
        misused newer_misuse <<'CASES'
pointer-mask GC_set_pointer_mask(0x
pointer-shift GC_set_pointer_shift(3)
gcj-displacement GC_init_gcj_malloc_mp:
gcj-index GC_init_gcj_malloc:
prepared-null GC_calloc_prepare_explicitly_typed(
prepared-small GC_calloc_prepare_explicitly_typed(0x
allocated-null GC_calloc_do_explicitly_typed(
interior-freezero GC_freezero(0x
double-freezero GC_freezero(0x
foreign-freezero GC_freezero(0x
foreign-reallocf GC_realloc(0x
foreign-toggle GC_toggleref_add(0x
CASES
    else
        report 1 "newer_misuse: compile"
    fi
fi

exported() { # exported LIBRARY: what it defines, as in symbols.txt
    nm -D --defined-only "$1" | awk '{ print ($2 == "T" || $2 == "W" ? "function" : "data"), $3 }' | LC_ALL=C sort -k2
}

has_soname() { objdump -p "$library" | grep -q 'SONAME *libgc\.so\.1$'; }

# A user's comparison of both libraries.
compares() {
    "$prefix/bin/neap" run --compare --rounds=1 -- "$work/compared" </dev/null >"$work/table" || return 1
    cat "$work/table"
    grep -Eq '^same output +yes$' "$work/table" && grep -Eq '^cycles +– +[1-9][0-9]*$' "$work/table" &&
        grep -Eq '^longest stop +– +[0-9]+\.[0-9] ms$' "$work/table"
}
if wanted compare; then
    cat >"$work/compared.c" <<'END'
#include <gc.h>
#include <stdio.h>
int main(void)
{
    void **list = NULL;
    for (long i = 0; i < 2000000; i++) {
        void **cell = GC_MALLOC(64);
        *cell = i % 100 ? list : NULL;
        list = cell;
    }
    puts("done");
    return 0;
}
END
    if [ "$library" != "$prefix/lib/neap/libgc.so.1" ]; then
        skip "neap run --compare" "it compares the library that belongs to neap"
    elif build "$work/compared.c" "$work/compared" -lgc 2>"$out/output"; then
        result "neap run --compare" compares
    else
        report 1 "neap run --compare: compile"
    fi
fi

if wanted lists; then
    for source in "$here"/*.c "$here"/*.cc; do
        name=${source##*/}
        grep -qw "${name%.*}" "$here/run.sh" "$here/headers.sh" || echo "$name is run by nobody"
    done >"$out/output"
    [ ! -s "$out/output" ]
    report $? "every program is in a list"
fi

if wanted symbols; then
    list=crates/neap-bdw/symbols.txt
    # shellcheck disable=SC2016 # awk's own variables
    diff <(awk '$1 == "libc" { $1 = "function" }
        /^(function|data) / { sub(/:$/, "", $2); print $1, $2 }' "$list" | LC_ALL=C sort -k2) \
        <(exported "$library") >"$out/output"
    report $? "symbols are those of symbols.txt"
    # Everything that Debian's library has, but for what symbols.txt says it leaves out.
    if [ -n "$against" ]; then
        theirs=$(find "$against" -name libgc.so.1 -print -quit)
    else
        theirs=$(ldconfig -p | awk '/libgc\.so\.1 / { print $NF; exit }')
    fi
    if [ -n "$theirs" ]; then
        omitted=$(sed -n '/^#/p' "$list" | grep -o 'GC_[a-z_]*')
        comm -13 <(exported "$library" | awk '{print $2}' | LC_ALL=C sort) \
            <(exported "$theirs" | awk '{print $2}' | grep '^GC_' | LC_ALL=C sort) |
            grep -vxF "$omitted" >"$out/output"
        [ ! -s "$out/output" ]
        report $? "symbols of libgc are all there (${theirs#"$against"})"
    else
        skip "symbols of libgc are all there" "libgc1 is not installed"
    fi
    # Every environment variable that libgc reads has a line.
    names='FIND|PRINT|DUMP|LOG|ONLY|DONT|INITIAL|MAXIMUM|MARKERS|NPROCS|FREE|FULL|PAUSE|ENABLE|DISABLE'
    names=$names'|FORCE|UNMAP|USE|TRACE|RETRY|ABORT|LOOP|IGNORE|LARGE|NO_|ALL'
    if [ -n "$theirs" ]; then
        LC_ALL=C grep -aoE 'GC_[A-Z_]{4,}' "$theirs" | grep -E "^GC_($names)" | LC_ALL=C sort -u |
            comm -23 - <(awk '$1 == "environment" { sub(/:$/, "", $2); print $2 }' "$list" |
                LC_ALL=C sort) >"$out/output"
        [ ! -s "$out/output" ]
        report $? "environment variables of libgc are all there"
    fi
    result "soname is libgc.so.1" has_soname
fi

. "$here/headers.sh"

settle
if [ "$results" = 0 ]; then
    echo "run.sh: no such test: ${only[*]}" >&2
    exit 2
fi
exit "$failed"
