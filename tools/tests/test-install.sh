# Tests of tools/install.sh, on trees made up for it, and of what `make build` laid out in this one:
# an installation works wherever it is put.
# shellcheck shell=bash disable=SC2154 # run.sh sets top and work

source_program='#include <neap.h>
int main(void) { return 0; }'

# A tree whose build/ holds what a build leaves, and what tests leave beside it.
tree_that_is_built() {
    mkdir -p tree/build/{bin,include,lib/neap,lib/pkgconfig,clients,lib/debris,share/neap}
    cp -r "$top/tools" tree/
    touch \
        tree/build/{bin/neap,bin/other,include/neap.h,include/neap.hpp,include/other.h,clients/junk}
    touch \
        tree/build/lib/{libneap.a,libneap.so.0.1.0,libother.so,debris/x,neap/libgc.so.1,pkgconfig/neap.pc}
    touch tree/build/share/neap/{valgrind.supp,notes}
    ln -s libneap.so.0.1.0 tree/build/lib/libneap.so.0
    ln -s libneap.so.0 tree/build/lib/libneap.so
}

test_what_belongs_is_installed_and_nothing_else() {
    tree_that_is_built
    tree/tools/install.sh "$work/prefix"
    (cd prefix && find . ! -type d | sort) >found
    diff found - <<END
./bin/neap
./include/neap.h
./include/neap.hpp
./lib/libneap.a
./lib/libneap.so
./lib/libneap.so.0
./lib/libneap.so.0.1.0
./lib/neap/libgc.so.1
./lib/pkgconfig/neap.pc
./share/neap/valgrind.supp
END
    [ "$(readlink prefix/lib/libneap.so.0)" = libneap.so.0.1.0 ]
    tree/tools/install.sh "$work/prefix" # over what is there
}

test_destdir_comes_before_prefix() {
    tree_that_is_built
    tree/tools/install.sh /opt/somewhere "$work/stage"
    [ -e stage/opt/somewhere/bin/neap ]
    [ ! -e /opt/somewhere ]
}

test_a_relative_prefix_is_in_the_tree() {
    tree_that_is_built
    tree/tools/install.sh out
    [ -e tree/out/bin/neap ]
}

test_a_prefix_that_cannot_be_written_is_said() {
    tree_that_is_built
    touch file
    local status=0
    tree/tools/install.sh "$work/file/prefix" >out 2>&1 || status=$?
    [ "$status" = 2 ]
    grep -q 'cannot write to .*/file/prefix' out
}

# Compiles a program with the flags given and runs it, without LD_LIBRARY_PATH.
builds() {
    printf '%s\n' "$source_program" >program.c
    # shellcheck disable=SC2068 # flags are words
    ${CC:-cc} program.c -Wl,--no-as-needed $@ -o program
    env -u LD_LIBRARY_PATH ./program
}

test_flags_build_a_program_even_after_a_move() {
    "$top/tools/install.sh" "$work/first"
    mv first second
    builds "$(second/bin/neap flags c)"
    readelf -d program | grep -q 'libneap.so.0'
    builds "$(second/bin/neap flags --static c)"
    readelf -d program >dynamic
    absent 'libneap.so' dynamic
    printf '%s\n' "$source_program" >program.cpp
    # shellcheck disable=SC2046 # flags are words
    c++ program.cpp $(second/bin/neap flags c++) -o program
}

test_pkg_config_says_the_same() {
    "$top/tools/install.sh" "$work/prefix"
    export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
    builds "$(pkg-config --cflags --libs neap) -Wl,-rpath,$(pkg-config --variable=libdir neap)"
    [ "$(pkg-config --modversion neap)" = "$(prefix/bin/neap version | cut -d' ' -f2)" ]
}

test_a_libgc_program_runs_on_an_installation() {
    "$top/tools/install.sh" "$work/prefix"
    echo '(display (apply + (iota 10)))' >program.scm
    [ "$(prefix/bin/neap run -- guile --no-auto-compile program.scm)" = 45 ]
    local shown
    shown=$(prefix/bin/neap run --summary=summary.json -- guile --no-auto-compile program.scm)
    [ "$shown" = 45 ]
    grep -q '"cycles"' summary.json
}

test_every_figure_that_is_printed_is_explained() {
    "$top/tools/install.sh" "$work/prefix"
    echo '(let loop ((i 0)) (if (< i 1000000) (begin (make-vector 10 i) (loop (+ i 1)))))' >program.scm
    prefix/bin/neap run --log=cycles --summary=summary.json -- guile \
        --no-auto-compile program.scm 2>log
    grep -o ' [a-z_]*=' log | tr -d ' =' | sort -u >fields
    grep -o '"[a-z0-9_]*":' summary.json | tr -d '":' | sort -u >>fields
    [ "$(wc -l <fields)" -gt 20 ]
    while read -r field; do
        grep -q "\`$field\`" "$top/docs/figures.md"
    done <fields
}
