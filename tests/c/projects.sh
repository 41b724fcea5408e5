# shellcheck shell=bash disable=SC2154 # run.sh sets out and prefix
# Programs in projects of their own, built by CMake and Meson: those of examples/cpp against an
# installation and as a subproject, and each of CMake's targets. Sourced by tests/c/run.sh.

# shows FOLDER NAME: whether the example that was built there prints what it should.
shows() {
    local said
    said=$(LD_LIBRARY_PATH=$prefix/lib "$1/${2:?}") || return
    diff "examples/cpp/expected/$2" - <<<"$said"
}
rm -rf "$out/cmake" "$out/meson"
cmake_examples() {
    cmake -S examples/cpp -B "$out/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_BUILD_TYPE=Release && cmake --build "$out/cmake"
}
meson_examples() {
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig meson setup "$out/meson" examples/cpp &&
        meson compile -C "$out/meson"
}
for tool in cmake meson; do
    if ! command -v $tool >/dev/null; then
        skip "examples, $tool" "there is no $tool here"
    elif result "examples, $tool" ${tool}_examples; then
        for example in graph generator; do
            result "examples, $tool, $example" shows "$out/$tool" $example
        done
    fi
done
# As a subproject, by the wrap that `make source` writes, of this tree in place of what it names.
meson_wrap() {
    local project=$out/wrap
    rm -rf "$project"
    mkdir -p "$project/subprojects"
    cp examples/cpp/{graph,generator}.cpp examples/cpp/meson.build "$project"
    tools/source.sh --wrap "$(printf '0%.0s' {1..64})" >"$project/subprojects/neap.wrap"
    ln -s "$PWD" "$project/subprojects/$(sed -n 's/^directory = //p' "$project/subprojects/neap.wrap")"
    # No installation is found.
    PKG_CONFIG_LIBDIR=$project meson setup "$project/build" "$project" &&
        meson compile -C "$project/build" && [ "$("$project/build/graph")" = "$(cat examples/cpp/expected/graph)" ]
}
if command -v meson >/dev/null; then
    result "examples, meson, neap.wrap" meson_wrap
else
    skip "examples, meson, neap.wrap" "there is no meson here"
fi
# Neap::gc and Neap::all_static, in a project of its own.
gc_project() {
    mkdir -p "$out/gc" && cat >"$out/gc/CMakeLists.txt" <<'END' &&
cmake_minimum_required(VERSION 3.16)
project(gc LANGUAGES C)
find_package(Neap REQUIRED)
add_executable(gc gc.c)
target_link_libraries(gc Neap::gc)
add_executable(whole whole.c)
target_link_libraries(whole Neap::all_static)
install(TARGETS gc)
END
        echo '#include <neap.h>
              int main(void) { return neap_alloc(9) == 0; }' >"$out/gc/whole.c" &&
        echo '#include <gc.h>
              int main(void) { GC_INIT(); return GC_MALLOC(9) == 0; }' >"$out/gc/gc.c" &&
        cmake -S "$out/gc" -B "$out/gc/build" -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$out/gc/build" && "$out/gc/build/gc" && "$out/gc/build/whole" &&
        cmake --install "$out/gc/build" --prefix "$out/gc/installed" &&
        ldd "$out/gc/installed/bin/gc" | grep "libgc.so.1 => $(realpath "$prefix")/lib/neap/" &&
        ! readelf --program-headers "$out/gc/build/whole" | grep INTERP
}
if command -v cmake >/dev/null; then
    result "examples, cmake, Neap::gc, Neap::all_static" gc_project
else
    skip "examples, cmake, Neap::gc, Neap::all_static" "there is no cmake here"
fi
