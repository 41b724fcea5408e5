# Tests of tools/install.sh, on trees made up for it, and of what `make build` laid out in this one:
# an installation works wherever it is put.
# shellcheck shell=bash disable=SC2154 # run.sh sets top and work

source_program='#include <neap.h>
int main(void) { return 0; }'

# A tree whose build/ holds what a build leaves, and what tests leave beside it.
tree_that_is_built() {
    mkdir -p tree/build/{bin,include/neap/gc,lib/neap/{cmake,pkgconfig},lib/pkgconfig,clients} \
        tree/build/lib/cmake/Neap \
        tree/build/{lib/debris,share/neap}
    cp -r "$top/tools" tree/
    touch \
        tree/build/{bin/neap,bin/other,include/neap.h,include/neap.hpp,include/neap_inline.h} \
        tree/build/{include/neaptide.h,clients/junk}
    touch \
        tree/build/lib/{libneap.a,libneap-static.a,libneap.so.0.1.0,libother.so,debris/x,neap/libgc.so.1,pkgconfig/neap.pc}
    touch tree/build/lib/{neap/static.options,pkgconfig/neap-static.pc,pkgconfig/other.pc}
    touch tree/build/include/neap/gc{,/gc_mark}.h
    touch tree/build/lib/cmake/Neap/{NeapConfig,Other}.cmake
    touch tree/build/lib/neap/{pkgconfig/bdw-gc.pc,cmake/BDWgcConfig.cmake}
    local part
    for part in cord gccpp gctba; do
        touch "tree/build/lib/neap/lib$part.so.1"
    done
    for part in gc cord gccpp gctba; do
        ln -s "lib$part.so.1" "tree/build/lib/neap/lib$part.so"
        touch "tree/build/lib/neap/lib$part.a"
    done
    touch tree/build/share/neap/{valgrind.supp,grafana-dashboard.json,notes}
    mkdir -p tree/build/share/{man/man1,bash-completion/completions,zsh/site-functions} \
        tree/build/share/fish/vendor_completions.d
    touch tree/build/share/man/man1/{neap.1,neap-run.1,other.1} \
        tree/build/share/{bash-completion/completions/neap,zsh/site-functions/_neap} \
        tree/build/share/fish/vendor_completions.d/neap.fish
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
./include/neap/gc.h
./include/neap/gc/gc_mark.h
./include/neap_inline.h
./lib/cmake/Neap/NeapConfig.cmake
./lib/libneap-static.a
./lib/libneap.a
./lib/libneap.so
./lib/libneap.so.0
./lib/libneap.so.0.1.0
./lib/neap/cmake/BDWgcConfig.cmake
./lib/neap/libcord.a
./lib/neap/libcord.so
./lib/neap/libcord.so.1
./lib/neap/libgc.a
./lib/neap/libgc.so
./lib/neap/libgc.so.1
./lib/neap/libgccpp.a
./lib/neap/libgccpp.so
./lib/neap/libgccpp.so.1
./lib/neap/libgctba.a
./lib/neap/libgctba.so
./lib/neap/libgctba.so.1
./lib/neap/pkgconfig/bdw-gc.pc
./lib/neap/static.options
./lib/pkgconfig/neap-static.pc
./lib/pkgconfig/neap.pc
./share/bash-completion/completions/neap
./share/fish/vendor_completions.d/neap.fish
./share/man/man1/neap-run.1
./share/man/man1/neap.1
./share/neap/grafana-dashboard.json
./share/neap/valgrind.supp
./share/zsh/site-functions/_neap
END
    [ "$(readlink prefix/lib/libneap.so.0)" = libneap.so.0.1.0 ]
    tree/tools/install.sh "$work/prefix" # over what is there
}

test_what_another_version_had_goes_and_what_is_not_ours_stays() {
    tree_that_is_built
    mkdir -p prefix/{lib,include,share/man/man1}
    touch prefix/lib/{libneap.so.0.0.9,libneapd.a,libother.so} prefix/include/neaptide.h \
        prefix/share/man/man1/{neap-gone.1,neaptide.1}
    tree/tools/install.sh "$work/prefix//"
    [ ! -e prefix/lib/libneap.so.0.0.9 ] && [ ! -e prefix/lib/libneapd.a ]
    [ ! -e prefix/share/man/man1/neap-gone.1 ]
    tree/tools/install.sh --remove "$work/prefix"
    (cd prefix && find . ! -type d | sort) >found
    diff found - <<END
./include/neaptide.h
./lib/libother.so
./share/man/man1/neaptide.1
END
    [ ! -e prefix/lib/neap ] && [ ! -e prefix/include/neap ] && [ -e tree/build/bin/neap ]
    tree/tools/install.sh --remove "$work/nowhere"
    [ ! -e nowhere ]
}

test_destdir_comes_before_prefix() {
    tree_that_is_built
    tree/tools/install.sh /opt/somewhere "$work/stage"
    [ -e stage/opt/somewhere/bin/neap ]
    (umask 077 && tree/tools/install.sh / "$work/whole/stage")
    [ "$(stat --format=%a whole whole/stage whole/stage/bin | sort -u)" = 755 ]
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

# In a namespace whose /etc is a copy, by whose ld.so.conf the loader looks in $work/prefix/lib too.
the_loader_is_told() {
    mount --bind etc /etc
    [ ! -d /var/cache/ldconfig ] || mount --bind cache /var/cache/ldconfig
    echo "$work/prefix/lib" >/etc/ld.so.conf.d/neap.conf
    ldconfig
    cp /etc/ld.so.cache before
    "$top/tools/install.sh" "$work/elsewhere"
    "$top/tools/install.sh" "$work/prefix" "$work/stage"
    cmp /etc/ld.so.cache before
    # As who becomes root by `su` has it, and a shell completes a folder's name.
    PATH=/usr/local/bin:/usr/bin:/bin "$top/tools/install.sh" "$work/prefix/"
    export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
    builds "$(pkg-config --cflags --libs neap)"
    readelf -d program >dynamic
    grep -q 'NEEDED.*libneap.so.0' dynamic
    absent 'R.*PATH' dynamic
}

test_the_loader_is_told_where_it_looks() {
    local own=(unshare --mount)
    [ "$(id -u)" = 0 ] || own+=(--map-root-user)
    "${own[@]}" mount --bind . . || skip "no file system can be mounted here"
    mkdir -p etc/ld.so.conf.d cache
    # What a user may not read is not needed.
    cp -a /etc/. etc/ 2>/dev/null || true
    echo "include /etc/ld.so.conf.d/*.conf" >etc/ld.so.conf
    # shellcheck disable=SC2016 # the inner shell expands them
    PATH=$PATH:/usr/sbin:/sbin "${own[@]}" \
        bash -euxo pipefail -c '. "$top/tools/tests/test-install.sh"; the_loader_is_told'
}

test_a_program_can_be_static_as_a_whole() {
    "$top/tools/install.sh" "$work/first"
    mv first second
    printf '%s\n' '#include <neap.hpp>' '#include <thread>' '#include <cstdio>' 'int main() {' \
        '  int *p = nullptr; std::thread([&] { p = neap::make<int>(7); }).join(); neap_collect();' \
        '  std::printf("%d\n", *p); }' >program.cpp
    export PKG_CONFIG_PATH=$work/second/lib/pkgconfig
    local flags
    for flags in "$(second/bin/neap flags --all-static c++)" \
        "$(pkg-config --cflags --libs neap-static)"; do
        # shellcheck disable=SC2086 # flags are words
        c++ program.cpp $flags -o program
        readelf --program-headers program >headers
        absent -E 'INTERP|DYNAMIC' headers
        [ "$(./program)" = 7 ]
    done
    # Under gcc's other way, at an address of the loader's choice.
    # shellcheck disable=SC2046
    c++ -static-pie program.cpp $(pkg-config --cflags --libs neap-static | sed 's/ -static / /') \
        -o program
    [ "$(./program)" = 7 ]
}

# Static by the flag alone, as build systems have it: the archive for other programs has no libc to
# ask there.
test_a_program_that_is_static_by_the_flag_alone_says_what_to_link() {
    "$top/tools/install.sh" "$work/prefix"
    printf '%s\n' '#include <neap.h>' 'int main(void) { return neap_alloc(8) == NULL; }' >program.c
    export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
    # shellcheck disable=SC2046 # flags are words
    cc program.c -static $(pkg-config --cflags --static --libs neap) -o program
    ! ./program 2>said
    grep -q '^neap: .*needs what neap flags --all-static prints' said
}

test_the_archive_needs_no_libgcc() {
    "$top/tools/install.sh" "$work/prefix"
    printf '%s\n' '#include <neap.hpp>' 'int main() { return *neap::make<int>(0); }' >program.cpp
    # shellcheck disable=SC2046 # flags are words
    c++ program.cpp $(prefix/bin/neap flags --static c++) -static-libgcc -static-libstdc++ \
        -o program
    readelf -d program >dynamic
    absent -E 'libneap|libgcc_s|libstdc' dynamic
    env -u LD_LIBRARY_PATH ./program
}

test_the_shared_libraries_need_libc_alone() {
    "$top/tools/install.sh" "$work/prefix"
    for library in libneap.so.0 neap/libgc.so.1; do
        readelf -d "prefix/lib/$library" >dynamic
        grep -q 'NEEDED.*libc\.so' dynamic
        grep NEEDED dynamic >needed
        absent -v -E '\[(libc\.so|ld-linux)' needed
    done
}

test_a_libgc_program_is_built_after_a_move() {
    "$top/tools/install.sh" "$work/first"
    mv first second
    export PKG_CONFIG_PATH=$work/second/lib/neap/pkgconfig
    printf '%s\n' '#include <gc.h>' 'int main(void) { GC_INIT(); return GC_MALLOC(9) == 0; }' >gc.c
    # shellcheck disable=SC2046 # flags are words
    cc -MD gc.c $(pkg-config --cflags --libs bdw-gc) -o program
    grep -q '/second/.*/include/neap/gc/gc.h' -- *.d
    env -u LD_LIBRARY_PATH ./program
    env -u LD_LIBRARY_PATH ldd ./program >needed
    grep -q "libgc.so.1 => $work/second/lib/neap" needed
}

test_a_libgc_program_has_the_archive_in_it() {
    "$top/tools/install.sh" "$work/prefix"
    cat >gc.cc <<'END'
#include <gc/gc_cpp.h>
struct Counted : gc_cleanup { int numbers[5]; };
int main() { GC_INIT(); return new Counted == 0; }
END
    local flags libraries=prefix/lib/neap
    flags=$(PKG_CONFIG_PATH=$work/$libraries/pkgconfig \
        pkg-config --cflags --static --libs-only-l bdw-gc)
    # shellcheck disable=SC2086 # flags are words
    c++ gc.cc $libraries/libgccpp.a $libraries/libgc.a ${flags/-lgc/} -o program
    readelf -d program >dynamic
    absent -E 'libgc\.|libgccpp|libneap' dynamic
    env -u LD_LIBRARY_PATH ./program
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
