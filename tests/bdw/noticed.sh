#!/bin/bash
# Whether the tests of the libgc interface would notice if an entry of it did nothing: for each
# function, variable, environment variable and macro of crates/neap-bdw/symbols.txt, mutants of it,
# and whether a program of tests/bdw that names it fails with each. Prints a line for each mutant,
# `ENTRY MUTANT PROGRAM`, with a dash where none noticed; fails if one of these is not in
# unnoticed.txt, which says why. A test that ends late counts as noticing. Mutants:
#   empty   the function does nothing and returns 0
#   kept    of a pair GC_set_X, GC_get_X: both only remember, in a place of their own
#   apart   the variable is the program's own, equal to the library's at the start
#   unread  the library reads no such environment variable
#   void    the macro is 0, or nothing
# Not part of `make test`: it runs each program many times. That a mutant is noticed says that the
# entry has a test, not that the test asks for all that is documented.
# usage: tests/bdw/noticed.sh [--library PATH] [--headers PATH] [NAME...]
. "$(dirname "$0")/../lib.sh"
begin bdw
here=$PWD/tests/bdw
library=$prefix/lib/neap/libgc.so.1
headers=$prefix/include/neap
while [ $# -gt 0 ]; do
    case $1 in
    --library) library=$(cd "$from" && realpath "$2"); shift 2 ;;
    --headers) headers=$(cd "$from" && realpath "$2"); shift 2 ;;
    -*) sed -n '14s/^# //p' "$here/noticed.sh" >&2; exit 2 ;;
    *) only+=("$1"); shift ;;
    esac
done
[ -d "$library" ] && library=$library/libgc.so.1
list=crates/neap-bdw/symbols.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib" "$work/mutant"
ln -s "$(realpath "$library")" "$work/lib/libgc.so.1"
ln -s libgc.so.1 "$work/lib/libgc.so"
cp "$library" "$work/library"

# Programs by how long they take, the quickest first; of those whose wrong use ends them, cases.
programs=(inline leaks roots interior links typed past_end loaded debug_forms kinds freed \
    runtime_forms finalizer_cycles alloc newer_alloc newer_heap executable settings runtimes \
    newer_marking debugging asking stacks tba classes unmapping libc_forms collect finalizers \
    fork plain_threads stackbottoms threads altstacks disclaim suspension pacing environment \
    heap_stacks small_stacks misuse newer_misuse)

compile_to() { # compile_to OUTPUT PROGRAM FLAGS...: with our headers
    local output=$1 source=$here/$2.c more=() compiler=${CC:-cc}
    case $2 in
    tba) source=$here/tba.cc more=(-lgctba) compiler=${CXX:-c++} ;;
    classes) source=$here/classes.cc more=(-lgccpp) compiler=${CXX:-c++} ;;
    esac
    shift 2
    "$compiler" -O1 -g -w "$@" "-I$include" "-I$headers" "$source" -o "$output" -rdynamic "-L$work/lib" \
        "-L$prefix/lib/neap" "${more[@]}" -lgc -lpthread -ldl 2>"$work/said"
}
include=$headers

run() { # run LIBRARY PROGRAM-FILE NAME [PRELOAD]: whether the program's checks hold
    local arguments=() more=() case function
    case $3 in
    newer_misuse) ;;
    newer_alloc) more=(NEAP_WATCH=pagemap NEAP_PAST_END=0) ;;
    newer_*) more=(NEAP_WATCH=pagemap) ;;
    small_stacks) more=(LD_BIND_NOW=1 SIGNALLED=1 NEAP_WATCH=pagemap NEAP_MIN_TRIGGER=256K) ;;
    esac
    case $3 in
    loaded) arguments=("$work/plugin.so") ;;
    plain_threads) arguments=("$work/loader_plugin.so") ;;
    misuse | newer_misuse)
        while read -r case function; do
            timeout 20 env LD_LIBRARY_PATH="$1:$prefix/lib/neap" LD_PRELOAD="${4-}" BDW_ON_NEAP=1 \
                "$2" "$case" >"$work/said" 2>&1
            [ $? = 134 ] && grep -q "^neap: $function" "$work/said" || return 1
        done < <(sed -n "/^ *misused $3 /,/^CASES/p" "$here/run.sh" | sed '1d;$d')
        return
        ;;
    esac
    timeout 100 env LD_LIBRARY_PATH="$1:$prefix/lib/neap" LD_PRELOAD="${4-}" BDW_ON_NEAP=1 \
        "${more[@]}" "$2" "${arguments[@]}" >"$work/said" 2>&1
}

# Programs that pass without a mutant; others say nothing.
prepare() {
    local program
    "${CC:-cc}" -w -shared -fPIC "$here/plugin.c" -o "$work/plugin.so"
    "${CC:-cc}" -w -shared -fPIC "$here/../c/loader_plugin.c" -o "$work/loader_plugin.so"
    usable=()
    for program in "${programs[@]}"; do
        if compile_to "$work/$program" "$program" && run "$work/lib" "$work/$program" "$program"; then
            usable+=("$program")
            # What it says itself, and what it includes but for what all include.
            # shellcheck disable=SC2046 # names are words
            (cd "$here" && cat "$program".c* $(sed -n 's/^#include "\(.*\)"/\1/p' "$program".c* |
                grep -v '^check.h$')) >"$work/$program.text"
        else
            echo "# $program does not pass without a mutant" >&2
        fi
    done
}

# Names of the programs that name an entry, themselves or by what they include.
naming() {
    local program
    for program in "${usable[@]}"; do
        ! grep -qw "$1" "$work/$program.text" || echo "$program"
    done
    # Names that all programs share.
    ! grep -qw "$1" "$here/check.h" || printf '%s\n' "${usable[@]:0:12}"
}

empty() { # empty FUNCTION
    echo "long $1(void) { return 0; }" >"$work/mutant.c"
    "${CC:-cc}" -w -shared -fPIC "$work/mutant.c" -o "$work/mutant.so"
    local program
    for program in $(naming "$1"); do
        run "$work/lib" "$work/$program" "$program" "$work/mutant.so" || { echo "$program"; return; }
    done
    echo -
}

# A value of one or two words, as functions take and return it in registers.
kept() { # kept X [GETTER]
    cat >"$work/mutant.c" <<CODE
#define _GNU_SOURCE
#include <dlfcn.h>
struct words { long first, second; };
static struct words value, *kept;
static struct words *place(void)
{
    if (!kept) {
        struct words (*get)(void) = (struct words (*)(void))dlsym(RTLD_NEXT, "GC_get_$1");
        kept = dlsym(RTLD_DEFAULT, "apart_GC_$1");
        if (!kept) {
            kept = &value;
            *kept = get();
        }
    }
    return kept;
}
struct words GC_get_$1(void) { return *place(); }
void GC_set_$1(struct words given) { *place() = given; }
CODE
    "${CC:-cc}" -w -shared -fPIC "$work/mutant.c" -o "$work/mutant.so" -ldl
    local program file
    for program in $(naming "GC_set_$1"); do
        file=$work/$program
        if is_listed data "GC_$1" && naming "GC_$1" | grep -x "$program" >/dev/null; then
            file=$work/apart
            compile_apart "GC_$1" "$program" || continue
        fi
        run "$work/lib" "$file" "$program" "$work/mutant.so" || { echo "$program"; return; }
    done
    echo -
}

compile_apart() { # compile_apart VARIABLE PROGRAM: to $work/apart, with a variable of its own
    cat >"$work/apart.c" <<CODE
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
long apart_$1[2];
__attribute__((constructor)) static void fill(void)
{
    memcpy(apart_$1, dlsym(RTLD_DEFAULT, "$1"), sizeof(long));
}
CODE
    "${CC:-cc}" -w -c -fPIC "$work/apart.c" -o "$work/apart.o" &&
        compile_to "$work/apart" "$2" "-D$1=apart_$1" "$work/apart.o"
}
apart() {
    local program
    for program in $(naming "$1"); do
        compile_apart "$1" "$program" || { sed 's/^/# /' "$work/said" >&2; continue; }
        run "$work/lib" "$work/apart" "$program" || { echo "$program"; return; }
    done
    echo -
}

unread() { # unread VARIABLE
    rm -f "$work/mutant/libgc.so.1"
    LC_ALL=C sed "s/$1/XX${1#GC}/g" "$work/library" >"$work/mutant/libgc.so.1"
    local program
    for program in $(naming "$1"); do
        run "$work/mutant" "$work/$program" "$program" || { echo "$program"; return; }
    done
    echo -
}

void() { # void MACRO
    rm -rf "$work/headers"
    cp -rL "$headers" "$work/headers"
    # shellcheck disable=SC2016 # sed's
    sed -i -E -e ':more' -e "/^# *define $1\b.*\\\\\$/{N;s/\\\\\n//;b more}" \
        -e "s/^(# *define $1(\([^)]*\))?)( .*|)\$/\1 ${2-0}/" "$work/headers"/gc/*.h "$work/headers"/*.h
    include=$work/headers
    local program noticed=-
    for program in $(naming "$1"); do
        if ! compile_to "$work/voided" "$program" || ! run "$work/lib" "$work/voided" "$program"; then
            noticed=$program
            break
        fi
    done
    include=$headers
    echo "$noticed"
}

listed() { awk -v kind="$1" '$1 == kind { sub(/:$/, "", $2); print $2 }' "$list"; }

is_listed() { listed "$1" | grep -x "$2" >/dev/null; } # is_listed KIND NAME

tell() { # tell ENTRY MUTANT PROGRAM
    echo "$1 $2 $3"
    if [ "$3" = - ] && ! grep -q "^$1 $2: " "$here/unnoticed.txt"; then
        echo "# not in unnoticed.txt: $1 $2" >&2
        failed=1
    fi
}

prepare
for name in $(listed function); do
    wanted "$name" || continue
    tell "$name" empty "$(empty "$name")"
    case $name in
    GC_set_*) ! is_listed function "GC_get_${name#GC_set_}" ||
        tell "$name" kept "$(kept "${name#GC_set_}")" ;;
    esac
done
for name in $(listed data); do
    ! wanted "$name" || tell "$name" apart "$(apart "$name")"
done
for name in $(listed environment); do
    ! wanted "$name" || tell "$name" unread "$(unread "$name")"
done
for name in $(listed macro); do
    ! wanted "$name" || tell "$name" void "$(void "$name")"
done
exit "$failed"
