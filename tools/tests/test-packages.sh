# Tests of what debian/ says about what is built, where nothing can be installed: tools/systems.sh
# runs packages.sh, which does.
# shellcheck shell=bash disable=SC2154 # run.sh sets top and work

test_packages_have_the_version_of_the_library() {
    local version
    version=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$top/debian/changelog")
    grep -qx "version = \"$version\"" "$top/Cargo.toml"
}

# It lists what dpkg-gensymbols, when packages are built, compares.
test_the_symbols_file_lists_what_the_library_exports() {
    nm -D --defined-only "$top/build/lib/libneap.so" | awk '{ print $3 }' | LC_ALL=C sort >exported
    sed -n 's/^ \(.*\)@Base .*/\1/p' "$top/debian/libneap0.symbols" | LC_ALL=C sort >listed
    diff listed exported
    readelf --dynamic "$top/build/lib/libneap.so" | grep -q '\[libneap.so.0\]'
    sed -n '1s/ .*//p' "$top/debian/libneap0.symbols" | grep -qx libneap.so.0
}

test_each_installed_file_belongs_to_one_package() {
    "$top/tools/install.sh" /usr "$work/stage"
    cat "$top"/debian/*.install "$top/debian/not-installed" >patterns
    (cd stage && find . ! -type d | sed 's|^\./||') >files
    local file pattern found
    while read -r file; do
        found=0
        while read -r pattern; do
            # shellcheck disable=SC2254 # they are patterns
            case $file in $pattern | $pattern/*) found=$((found + 1)) ;; esac
        done <patterns
        [ "$found" = 1 ]
    done <files
    # And no pattern is for nothing.
    while read -r pattern; do
        [[ $pattern != *libneapd* ]] || continue
        compgen -G "stage/$pattern" >/dev/null
    done <patterns
}
