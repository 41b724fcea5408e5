#!/bin/bash
# Whether programs that were built with the last release run on this library: the functions of
# neap.h and the types in them are compared, by abidiff, with what crates/neap-c/released.abi says
# they were. Functions may come along; what is taken away or changed needs another soname.
# Usage: abi.sh PREFIX FOLDER              compares; leaves files in FOLDER
#        abi.sh PREFIX FOLDER --finds      whether a header that was changed so is refused
#        abi.sh PREFIX FOLDER --record     writes that file: done with each release
# Called by tests/c/run.sh.
set -euo pipefail
prefix=${1:?want PREFIX} folder=${2:?want FOLDER} how=${3:-}
released=$(dirname "$0")/../../crates/neap-c/released.abi
mkdir -p "$folder"

soname=$(readelf --dynamic "$prefix/lib/libneap.so" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')

# library HEADER NAME: a library that defines what the header declares, with debug information of
# the types in C. (The real one has Rust's, and lines only.) Pragmas of the system's headers go:
# they have lines of their own.
library() {
    {
        cc -DNEAP_NO_INLINE '-D__attribute__(of)=' -I"$(dirname "$1")" -E -P -x c "$1" |
            grep -v '^#' | tr '\n' ' ' | sed 's/;/;\n/g' |
            sed -E '/^ *typedef/!s/\<(neap_[a-z_0-9]+ *\(.*\)) *;$/\1 { __builtin_trap(); }/'
    } >"$folder/$2.c"
    cc -w -g -std=gnu2x -fPIC -shared -Wl,-soname,"$soname" "$folder/$2.c" -o "$folder/$2.so"
}

# compare NAME: as abidiff ends; it says what differs. What libc calls its own types is its affair.
compare() {
    printf '[suppress_type]\nname = __sigset_t\n' >"$folder/suppressed"
    abidiff --no-added-syms --suppressions "$folder/suppressed" "$released" "$folder/$1.so"
}

library "$prefix/include/neap.h" declared
case $how in
--record)
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$folder/declared.so" |
        sed 's/ path=.[^ ]*/ path="neap.h"/' >"$released"
    ;;
--finds)
    # change NAME SCRIPT: a header that sed's script changes must be refused, and the change be one.
    change() {
        mkdir -p "$folder/$1"
        cp "$prefix"/include/neap*.h "$folder/$1"
        sed -i -E "$2" "$folder/$1/neap.h"
        ! cmp -s "$folder/$1/neap.h" "$prefix/include/neap.h" || exit 1
        library "$folder/$1/neap.h" "$1"
        if compare "$1" >"$folder/$1.said"; then
            echo "abidiff finds nothing: $1"
            exit 1
        fi
    }
    change taken-away 's|^int neap_collect\(void|int neap_collect_all(void|'
    change other-argument 's|^void \*neap_alloc\(size_t |void *neap_alloc(int |'
    change longer-structure 's|^typedef struct neap_statistics \{|& long first;|'
    ;;
*)
    was=$(sed -n "s/.*<abi-corpus .*soname='\([^']*\)'.*/\1/p" "$released")
    if [ "$was" != "$soname" ]; then
        echo "$soname is no longer $was: record it (tests/c/abi.sh PREFIX FOLDER --record)"
        exit
    fi
    compare declared || {
        echo "programs built with the last release would break: $soname has to have another name"
        exit 1
    }
    # What stands in the record is what is there to be called, too.
    nm -D --defined-only "$prefix/lib/libneap.so" | awk '{ print $3 }' | sort >"$folder/exported"
    sed -n "s/.*<elf-symbol name='\([^']*\)'.*/\1/p" "$released" | sort >"$folder/recorded"
    [ -s "$folder/recorded" ]
    [ -z "$(comm -23 "$folder/recorded" "$folder/exported" | tee /dev/stderr)" ]
    ;;
esac
