#!/bin/bash
# Installs what is missing on a Debian machine, and says what it installs. Does nothing, quickly,
# where nothing is missing. Usage: tools/setup.sh build|packages|demo|test|rest|hosts|bench|fuzz|
#        book|all
#   build     a C compiler and Rust
#   packages  that, and what makes Debian packages
#   demo      that of build, and what the demonstration runs
#   test      what `make test` needs: programs that use libgc, readers of what Neap writes
#   rest      that, and what the other tests need: compilers of D, what makes packages and systems
#   hosts     what the part `hosts` of the tests needs, as far as this system has it
#   bench     rest, and what benchmarks compare with
#   fuzz      that of build, and libFuzzer
#   book      mdBook, into build/tools, which takes some minutes the first time
#   all       everything but that
# Called by the Makefile. Needs root or sudo only to install.
#
# The rustc of Debian 12 and 13 is too old; their packages rustc-web and cargo-web, which Debian
# keeps up to date for its browsers, are new enough. Later systems have only rustc, which is. A Rust
# from rustup that is new enough is used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

compilers=(gcc g++ libc6-dev make pkg-config ca-certificates)
rust=(rustc-web cargo-web rustfmt-web rust-web-clippy)
plain_rust=(rustc cargo rustfmt rust-clippy)
# What tests are built with and run under, and readers of the formats that Neap writes.
tests=(libgc-dev cmake meson abigail-tools valgrind shellcheck fonts-dejavu-core python3
    python3-prometheus-client prometheus bpftrace bsdutils chromium bash-completion fish mandoc)
# Compilers of D, and a program written in it.
d=(ldc gdc dub onedrive sambamba dustmite gir-to-d appstream-generator)
# Runtimes that carry a copy of Boehm's collector, with what their tests are made with.
hosts=(mono-runtime mono-runtime-sgen mono-runtime-boehm mono-mcs libmonoboehm-2.0-dev
    libmono-2.0-dev libmonosgen-2.0-dev)
# What makes packages of Debian, and fresh systems to try them on.
packages=(debhelper dpkg-dev xz-utils)
systems=(debootstrap "${packages[@]}")
# What benchmarks compare with.
peers=(libmimalloc-dev libjemalloc-dev mono-runtime mono-mcs default-jdk-headless ruby)
# Programs that only the corpus of bench/corpus has.
corpus=(asymptote lilypond poke inkscape macaulay2)
command -v go >/dev/null || peers+=(golang-go)

say() { echo "setup: $*" >&2; }

install() { tools/apt.sh "$@"; }

# What `make book` installs. Its Rust is the one that Neap needs.
mdbook=0.5.4

is_installed() {
    dpkg-query --show --showformat='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

have_rust() {
    tools/with-rust.sh true 2>/dev/null
}

# cargo, rustc, rustfmt and clippy, new enough.
set_up_rust() {
    if have_rust; then
        if tools/with-rust.sh cargo fmt --version >/dev/null 2>&1 &&
            tools/with-rust.sh cargo clippy --version >/dev/null 2>&1; then
            return
        fi
        if tools/with-rust.sh sh -c 'command -v rustup' >/dev/null 2>&1; then
            say "adding rustfmt and clippy to the Rust of rustup"
            tools/with-rust.sh rustup component add rustfmt clippy >&2
        else
            if is_installed rustc-web; then
                install "${rust[@]:2}"
            else
                install "${plain_rust[@]:2}"
            fi
        fi
        return
    fi
    local old
    old=$(for package in rustc cargo rustup; do
        ! is_installed "$package" || echo "$package"
    done | tr '\n' ' ')
    if [ -n "$old" ]; then
        say "the installed packages ${old}hold a Rust that is too old and exclude the newer one."
        say "Remove them (sudo apt-get remove $old) or install a newer Rust by rustup, then try again"
        exit 2
    fi
    if tools/apt.sh --available "${rust[@]}"; then
        install "${rust[@]}"
    else
        install "${plain_rust[@]}"
    fi
    have_rust || {
        say "Debian's $(cargo --version 2>/dev/null || echo 'cargo') is too old here."
        say "Enable the security updates of your Debian, or install Rust by rustup (https://rustup.rs)"
        exit 2
    }
}

set_up_build() {
    install "${compilers[@]}"
    set_up_rust
}

# set_up PACKAGE…: what is missing of them, after what building needs.
set_up() {
    set_up_build
    install "$@"
}

# mdBook: one that is on PATH will do. Only `make book` and the part book-built need it. Without
# what serves pages and watches files, and hardly optimized, it is built sooner.
set_up_book() {
    set_up python3
    ! tools/book.sh --find >/dev/null || return 0
    say "installing mdBook $mdbook into build/tools"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
        tools/with-rust.sh cargo install mdbook --version "$mdbook" --locked --quiet \
        --no-default-features --features search --root build/tools 2>&1 |
        tools/follow.sh "setup, cargo install mdbook" >&2
}

case "${1:-all}" in
build) set_up_build ;;
packages) set_up "${packages[@]}" ;;
demo)
    set_up_build
    tests/clients/install.sh demo
    ;;
test)
    set_up "${tests[@]}"
    tests/clients/install.sh
    ;;
rest)
    set_up "${tests[@]}" "${d[@]}" "${systems[@]}"
    tests/clients/install.sh
    ;;
hosts)
    set_up
    install "${hosts[@]}"
    ;;
bench | all)
    set_up "${tests[@]}" "${d[@]}" "${systems[@]}" "${peers[@]}" "${corpus[@]}"
    tests/clients/install.sh
    [ "${1:-all}" = bench ] || install "${hosts[@]}"
    ;;
book) set_up_book ;;
fuzz)
    set_up_build
    # Its package has the number of a version of LLVM in its name.
    mapfile -t engines < <(apt-cache search --names-only '^libfuzzer-[0-9]+-dev$' | sort -V)
    [ ${#engines[@]} = 0 ] || install "${engines[-1]%% *}"
    ;;
*)
    say "want build, packages, demo, test, rest, hosts, bench, book or all, not $1"
    exit 2
    ;;
esac
