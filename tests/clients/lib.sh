# shellcheck shell=sh
# What the clients' `run` scripts share; sourced by each of them, never run by itself.
# Builds happen on the system's own libraries, so that only the client itself runs on the library
# the caller chose; what was built is kept in build/clients/CASE until the source, the script or
# the compiler changes. Several cases may build at the same time: a product appears by a rename.
#
# A run script sources this file, defines compile() where there is something to compile, and calls
#   product NAME SOURCE COMPILER   compile "$path_to_write" "$source" unless $out/NAME is current
#   launch PROGRAM ARGS...         run the client (replaces the script)
# Environment: CLIENT_NEAP, path of the `neap` program: start the client by `neap run` with it.
# Argument: --build stops before the client is started. A script whose opening comment says "Timed."
# is one of the clients whose wall time and peak memory are compared by run.sh and the benchmarks.
# Exit status: 3 where the client is not installed.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
name=$(basename "$here")
out=$root/build/clients/$name
mkdir -p "$out"

build_only=no
case "${1-}" in
'') ;;
--build) build_only=yes ;;
*)
    echo "$0: unknown argument '$1'; the only one is --build" >&2
    exit 2
    ;;
esac

# The same surroundings for both libraries, whatever the caller's are.
export LC_ALL=C.UTF-8 TZ=UTC HOME="$out"
export XDG_CACHE_HOME="$out/cache" GUILE_AUTO_COMPILE=0
unset GUILE_LOAD_PATH GUILE_LOAD_COMPILED_PATH ECLDIR NEKOPATH CRYSTAL_OPTS

need() {
    command -v "$1" >/dev/null || {
        echo "'$1' is not installed; tests/clients/install.sh installs it" >&2
        exit 3
    }
}

product() {
    need "$3"
    stamp="$(cat "$here/$2" "$here/run" "$here/../lib.sh" | sha256sum)
$(stat -L -c '%n %s %Y %Z' "$(command -v "$3")")"
    if [ -e "$out/$1" ] && [ "$(cat "$out/$1.stamp" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    work=$(mktemp -d "$out/building.XXXXXX")
    if ! (
        unset LD_LIBRARY_PATH LD_PRELOAD
        compile "$work/$1" "$here/$2"
    ) >"$work/log" 2>&1; then
        cat "$work/log" >&2
        rm -rf "$work"
        echo "$name: building $1 from $2 failed" >&2
        exit 2
    fi
    [ ! -d "$out/$1" ] || rm -rf "${out:?}/$1"
    mv -f "$work/$1" "$out/$1"
    printf '%s\n' "$stamp" >"$out/$1.stamp"
    rm -rf "$work"
}

launch() {
    need "$1"
    if [ "$build_only" = yes ]; then
        exit 0
    fi
    if [ -n "${CLIENT_NEAP-}" ]; then
        exec "$CLIENT_NEAP" run -- "$@"
    fi
    exec "$@"
}

# Guile: compiled ahead of time, so that no run pays for the compiler or depends on a cache.
guile_case() {
    compile() {
        guile --no-auto-compile -c '
            (use-modules (system base compile))
            (compile-file (cadr (command-line)) #:output-file (caddr (command-line)))' "$2" "$1"
        [ -s "$1" ]
    }
    product "$name.go" "$1" guile
    launch guile --no-auto-compile -c '(load-compiled (cadr (command-line)))' "$out/$name.go"
}

# ECL: compiled to a shared object by the C compiler; the program loads it, static data and all.
ecl_case() {
    compile() {
        need gcc
        cd "$(dirname "$1")"
        ecl -norc -o "$1" -compile "$2"
        [ -s "$1" ]
    }
    product "$name.fas" "$1" ecl
    launch ecl -norc --eval '(setf *debugger-hook*
        (lambda (condition old) (declare (ignore old))
          (format *error-output* "~&error: ~A~%" condition) (ext:quit 1)))' \
        --eval "(load \"$out/$name.fas\" :verbose nil)" --eval '(ext:quit 0)'
}

# Nim: --mm:boehm makes a program that opens libgc.so.1 with dlopen. Further arguments go to nim.
nim_case() {
    nim_source=$1
    shift
    nim_options="$*"
    compile() {
        # shellcheck disable=SC2086 # the options are words
        nim c --mm:boehm -d:release --hints:off --warnings:off --skipUserCfg \
            --nimcache:"$(dirname "$1")/nimcache" $nim_options -o:"$1" "$2"
    }
    product "$name" "$nim_source" nim
    launch "$out/$name"
}

# Crystal: further arguments go to the compiler (--release for the timed programs).
crystal_case() {
    crystal_source=$1
    shift
    crystal_options="$*"
    compile() {
        # shellcheck disable=SC2086 # the options are words
        CRYSTAL_CACHE_DIR="$(dirname "$1")/cache" crystal build --no-color $crystal_options \
            -o "$1" "$2"
    }
    product "$name" "$crystal_source" crystal
    launch "$out/$name"
}

# Neko: bytecode, run by the virtual machine.
neko_case() {
    compile() {
        nekoc -o "$(dirname "$1")" "$2"
        [ -s "$1" ]
    }
    product "$(basename "$1" .neko).n" "$1" nekoc
    launch neko "$out/$(basename "$1" .neko).n"
}
