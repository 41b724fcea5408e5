# shellcheck shell=bash disable=SC2154 # run.sh sets what it sources this with
# Tests of the headers of libgc's interface: they agree with the system's, with the list of symbols
# and with each other, and programs can be built with them and the libraries alone.

theirs=$against/usr/include
# Another system's headers of libgc, with this one's of everything else.
if [ -n "$against" ]; then
    mkdir "$work/include"
    ln -s "$theirs"/gc "$theirs"/gc*.h "$work/include"
    theirs=$work/include
fi
list=crates/neap-bdw/symbols.txt
# Declared by libgc's headers, and in no library that is built as Debian's is.
in_no_library='GC_get_back_ptr_info|GC_generate_random_(heap_address|valid_address|backtrace)'
in_no_library="$in_no_library|GC_print_backtrace|GC_print_trace(_inner)?|GC_win32_free_heap"

listed() { # listed KINDS: names of the list, of these kinds
    awk -v kinds="^($1)$" '$1 ~ kinds { sub(/:$/, "", $2); print $2 }' "$list" | LC_ALL=C sort -u
}

words() { # words INCLUDE [MORE...]: what the headers there say, macros aside
    local include=$1
    shift
    "${CC:-cc}" -E -P -I"$include" -I"$here" "$@" -x c - | grep -oE '\b(GC|CORD)_\w+' |
        LC_ALL=C sort -u
}

# What is exported is declared, and what is declared is exported.
declares_all() {
    local missing
    echo '#include "headers.h"
#include <gc/gc_undeclared.h>' | words "$headers" >"$work/words"
    missing=$(comm -23 <(listed 'function|data' | grep '^GC_') "$work/words")
    [ -z "$missing" ] || { echo "not declared: $missing"; return 1; }
    echo '#include "headers.h"
#include <gc/gc_undeclared.h>' | "${CC:-cc}" -aux-info "$work/ours" -fsyntax-only -I"$headers" \
        -I"$here" -x c - || return 1
    missing=$(grep -oE '\bGC_\w+ \(' "$work/ours" | tr -d ' (' | grep -vxE "$in_no_library" |
        LC_ALL=C sort -u | comm -23 - <(listed function))
    [ -z "$missing" ] || { echo "declared and not exported: $missing"; return 1; }
}

# Every macro of the list and of the system's headers is defined, with as many parameters as there.
macros() { # macros INCLUDE: names and parameter counts
    {
        "${CC:-cc}" -dM -E -I"$1" "$here/headers.h"
        "${CXX:-c++}" -dM -E -I"$1" -include gc/gc_cpp.h -include gc/gc_allocator.h -x c++ /dev/null
    } | sed -nE 's/^#define ((GC_|CORD_|__GC)\w*)(\([^)]*\))? ?.*/\1 \3/p' |
        awk '{ print $1, $2 == "" ? "-" : gsub(/,/, ",", $2) }' | LC_ALL=C sort -u
}
# What libgc's headers find out for themselves.
own_macros='(HAVE|CAN|INIT_CONF|TMP)_.*|ASSERT|EXPECT|FAST_M_AO_STORE|NO_THREADS'
own_macros="GC_($own_macros|PREFETCH_FOR_WRITE|PTHREAD_EXIT_DECLARED)"
macros_agree() {
    local missing
    macros "$headers" >"$work/ours"
    missing=$(listed macro | grep -vxE 'GC_DEBUG' | comm -23 - <(cut -d' ' -f1 "$work/ours"))
    [ -z "$missing" ] || { echo "not defined: $missing"; return 1; }
    macros "$theirs" | grep -vE "_H -\$|^$own_macros " >"$work/macros"
    missing=$(comm -23 <(cut -d' ' -f1 "$work/macros") <(cut -d' ' -f1 "$work/ours"))
    [ -z "$missing" ] || { echo "the system's, and not defined: $missing"; return 1; }
    # A macro of the same name with other parameters.
    join "$work/macros" "$work/ours" | awk '$2 != $3 { print; wrong = 1 } END { exit wrong }'
}

# Each function of the system's headers is declared once more after ours, in C.
functions_agree() {
    "${CC:-cc}" -aux-info "$work/theirs" -fsyntax-only -I"$theirs" -I"$here" -x c - \
        <<<'#include "headers.h"' || return 1
    sed -nE 's@^/\* [^*]*/gc/[^*]*\*/ @@p' "$work/theirs" | grep -vE "\b($in_no_library) " |
        sed 's/__va_list_tag \*/va_list/' >"$work/declarations"
    [ "$(wc -l <"$work/declarations")" -gt 250 ] || { echo "too few declarations"; return 1; }
    {
        echo '#include "headers.h"'
        grep -oE '\b(GC|CORD)_\w+ \(' "$work/declarations" | tr -d ' (' | sort -u |
            sed 's/^/#undef /'
        cat "$work/declarations"
    } >"$work/twice.c"
    "${CC:-cc}" -fsyntax-only -Wall -Wextra -Werror -Wno-array-parameter -I"$headers" \
        -I"$here" "$work/twice.c" ||
        return 1
    # A declaration of what ours do not have would pass.
    comm -23 <(grep -oE '\b(GC|CORD)_\w+ \(' "$work/declarations" | tr -d ' (' | sort -u) \
        <(words "$headers" <<<'#include "headers.h"') >"$work/missing"
    sed 's/^/missing: /' "$work/missing"
    [ ! -s "$work/missing" ]
}

# C++ says the types of all functions, variables and types, the sizes of structures, the values of
# constants: the same program with both headers. The types are those that the system's know.
types_of() { # types_of INCLUDE OUTPUT
    "${CXX:-c++}" -w -I"$1" -I"$here" "$work/types.cc" -c -o "$work/types.o" &&
        "${CXX:-c++}" "$work/types.o" -o "$work/types" && "$work/types" >"$2"
}
types_agree() {
    local name
    words "$theirs" <<<'#include "headers.h"' >"$work/words"
    {
        cat <<'END'
#include "headers.h"
#include <gc/gc_allocator.h>
#include <gc/gc_cpp.h>
#include <cstddef>
#include <cstdio>
#include <typeinfo>
#define TYPE(it) std::printf("%s: %s\n", #it, typeid(decltype(it)).name());
#define NAMED(it) std::printf("%s: %s %zu\n", #it, typeid(it).name(), sizeof(it));
#define VALUE(it) std::printf("%s = %ld\n", #it, (long)(it));
#define FIELD(type, it) std::printf("%s.%s: %zu\n", #type, #it, offsetof(type, it));
END
        listed 'function|data' | grep '^GC_' | comm -12 - "$work/words" | sed 's/^/#undef /'
        echo 'int main() {'
        listed 'function|data' | grep '^GC_' | comm -12 - "$work/words" | sed 's/.*/TYPE(&)/'
        for name in GC_PTR GC_word GC_signed_word GC_oom_func GC_on_heap_resize_proc \
            GC_EventType GC_on_collection_event_proc GC_on_thread_event_proc GC_stop_func \
            GC_finalizer_notifier_proc GC_finalization_proc GC_ToggleRefStatus GC_toggleref_func \
            GC_await_finalize_proc GC_warn_proc GC_abort_func GC_hidden_pointer GC_fn_type \
            GC_stack_base_func GC_has_static_roots_func GC_mark_proc GC_describe_type_fn \
            GC_start_callback_proc GC_push_other_roots_proc GC_reachable_object_proc GC_bitmap \
            GC_descr GC_disclaim_proc GC_ref_kind GCCleanUpFunc GCPlacement gc gc_cleanup CORD \
            CORD_fn CORD_iter_fn CORD_batched_iter_fn CORD_pos CORD_ec GC_prof_stats_s \
            GC_timeval_s GC_stack_base GC_finalizer_closure; do
            echo "NAMED($name)"
        done
        for name in GC_EVENT_START GC_EVENT_MARK_START GC_EVENT_MARK_END GC_EVENT_RECLAIM_START \
            GC_EVENT_RECLAIM_END GC_EVENT_END GC_EVENT_PRE_STOP_WORLD GC_EVENT_POST_STOP_WORLD \
            GC_EVENT_PRE_START_WORLD GC_EVENT_POST_START_WORLD GC_EVENT_THREAD_SUSPENDED \
            GC_EVENT_THREAD_UNSUSPENDED GC_TOGGLE_REF_DROP GC_TOGGLE_REF_STRONG \
            GC_TOGGLE_REF_WEAK GC_UNREFERENCED GC_NO_SPACE GC_REFD_FROM_ROOT GC_REFD_FROM_REG \
            GC_REFD_FROM_HEAP GC_FINALIZER_REFD UseGC NoGC PointerFreeGC GC_SUCCESS \
            GC_DUPLICATE GC_NO_MEMORY GC_UNIMPLEMENTED GC_NOT_FOUND GC_TIME_UNLIMITED \
            GC_PROTECTS_NONE GC_PROTECTS_POINTER_HEAP GC_PROTECTS_PTRFREE_HEAP \
            GC_PROTECTS_STATIC_DATA GC_PROTECTS_STACK GC_DS_TAG_BITS GC_DS_TAGS GC_DS_LENGTH \
            GC_DS_BITMAP GC_DS_PROC GC_DS_PER_OBJECT GC_INDIR_PER_OBJ_BIAS GC_LOG_MAX_MARK_PROCS \
            GC_MAX_MARK_PROCS GC_RESERVED_MARK_PROCS GC_GCJ_RESERVED_MARK_PROC_INDEX \
            GC_PROC_BYTES GC_TYPE_DESCR_LEN GC_GRANULE_BYTES GC_GRANULE_WORDS GC_TINY_FREELISTS \
            GC_I_NORMAL GC_I_PTRFREE GC_WORDSZ CORD_NOT_FOUND CORD_POS_INVALID MAX_DEPTH \
            FUNCTION_BUF_SZ CORD_BUFSZ 'GC_MAKE_PROC(5, 7)' 'GC_HIDE_POINTER((void *)3)' \
            'GC_WORDS_TO_WHOLE_GRANULES(5)' 'GC_BITMAP_SIZE(char[1000])' \
            'GC_WORD_LEN(char[80])' 'GC_RAW_BYTES_FROM_INDEX(3)'; do
            echo "VALUE(($name))"
        done
        for name in heapsize_full free_bytes_full unmapped_bytes bytes_allocd_since_gc \
            allocd_bytes_before_gc non_gc_bytes gc_no markers_m1 bytes_reclaimed_since_gc \
            reclaimed_bytes_before_gc expl_freed_bytes_since_gc obtained_from_os_bytes; do
            echo "FIELD(GC_prof_stats_s, $name)"
        done
        for name in cur_pos path_len cur_leaf cur_start cur_end path function_buf; do
            echo "FIELD(CORD_Pos, $name)"
        done
        echo 'FIELD(GC_timeval_s, tv_nsec) FIELD(GC_finalizer_closure, cd)'
        echo 'FIELD(CORD_ec_struct, ec_bufptr) FIELD(CORD_ec_struct, ec_buf)'
        echo 'FIELD(GC_stack_base, mem_base) FIELD(CORD_pe, pe_start_pos)'
        echo '}'
    } >"$work/types.cc"
    types_of "$theirs" "$work/types.theirs" && types_of "$headers" "$work/types.ours" || return 1
    [ "$(wc -l <"$work/types.theirs")" -gt 400 ] || { echo "too few types"; return 1; }
    diff "$work/types.theirs" "$work/types.ours"
}

# Each header by itself, twice, in every form of the language, with warnings as errors.
compiles_alone() {
    local header flags
    for header in "$headers"/*.h "$headers"/gc/*.h; do
        header=${header#"$headers"/}
        printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$header" "$header" \
            >"$work/alone.c"
        for flags in "" -DGC_THREADS -DGC_DEBUG; do
            case $header in
            *gc_cpp.h | *gc_allocator.h) ;;
            *)
                # shellcheck disable=SC2086 # no word where there are no flags
                "${CC:-cc}" -std=gnu99 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror $flags \
                    -fsyntax-only -I"$headers" "$work/alone.c" || return 1
                ;;
            esac
        done
        for flags in 98 11 14 17 20; do
            "${CXX:-c++}" -std=gnu++$flags -Wall -Wextra -Werror -DGC_THREADS -fsyntax-only \
                -I"$headers" -x c++ "$work/alone.c" || return 1
        done
    done
}

# What programs are told by pkg-config, of wherever this installation is.
told() { PKG_CONFIG_PATH=$prefix/lib/neap/pkgconfig pkg-config "$@" bdw-gc; }

# with_ours PROGRAM: a program built with our headers and libraries alone. It finds the libraries
# without LD_LIBRARY_PATH.
with_ours() {
    local source=$1 more=() folder
    case ${source##*/} in
    classes.cc) more=(-lgccpp) ;;
    tba.cc) more=(-lgctba) ;;
    cords.c) more=(-lcord) ;;
    esac
    folder=$(realpath "$prefix/lib/neap")
    # shellcheck disable=SC2046 # flags are words
    build "$source" "$work/with_ours" -MD -MF "$work/read" $(told --cflags) \
        "-L$prefix/lib/neap" "${more[@]}" $(told --libs) -lpthread -ldl || return 1
    ! grep -E "$theirs/(gc/|gc\.h|gc_cpp\.h)" "$work/read" || return 1
    ldd "$work/with_ours" >"$work/needed"
    if grep -E 'libgc|libcord' "$work/needed" | grep -v 'libgcc_s' |
        awk '{ print $3 }' | xargs realpath | grep -v "^$folder/"; then
        echo "found elsewhere than in $folder"
        return 1
    fi
    env -u LD_LIBRARY_PATH BDW_ON_NEAP=1 timeout 120 "$work/with_ours"
}

# The same by CMake.
by_cmake() {
    local folder
    mkdir -p "$work/cmake"
    cp "$here/classes.cc" "$here/cords.c" "$work/cmake/"
    sed "s@^#include \"\(check\|../checks\)@#include \"$here/\1@" -i "$work/cmake"/*.c*
    cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.10)
project(clients C CXX)
find_package(BDWgc 8.0 REQUIRED COMPONENTS gc gccpp cord)
add_executable(classes classes.cc)
target_link_libraries(classes BDWgc::gccpp BDWgc::gc)
add_executable(cords cords.c)
target_link_libraries(cords BDWgc::cord)
install(TARGETS classes cords)
END
    CMAKE_PREFIX_PATH=$prefix/lib/neap cmake -S "$work/cmake" -B "$work/cmake/build" \
        -DCMAKE_INSTALL_PREFIX="$work/cmake/installed" &&
        cmake --build "$work/cmake/build" && cmake --install "$work/cmake/build" || return 1
    # CMake takes the paths of the build out of what it installs.
    for folder in build installed/bin; do
        env -u LD_LIBRARY_PATH BDW_ON_NEAP=1 "$work/cmake/$folder/classes" &&
            env -u LD_LIBRARY_PATH BDW_ON_NEAP=1 "$work/cmake/$folder/cords" || return 1
    done
}

if wanted headers; then
    result "headers declare what symbols.txt has" declares_all
    if [ -e "$theirs/gc/gc.h" ]; then
        result "headers have the macros of libgc's" macros_agree
        result "headers have the functions of libgc's" functions_agree
        result "headers have the types of libgc's" types_agree
    fi
    result "headers compile alone" compiles_alone
    for source in alloc finalizers links kinds typed debugging runtimes inline leaks cords; do
        result "$source with our headers" with_ours "$here/$source.c"
    done
    for source in classes tba; do
        result "$source with our headers" with_ours "$here/$source.cc"
    done
    if command -v cmake >/dev/null; then
        result "find_package(BDWgc)" by_cmake
    else
        skip "find_package(BDWgc)" "cmake is not installed"
    fi
fi
