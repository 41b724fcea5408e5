#!/bin/bash
# Installs what is missing on a Debian machine, and says what it installs. Does nothing, quickly,
# where nothing is missing. Usage: tools/setup.sh build|demo|test|rest|bench|all
#   build  a C compiler and Rust
#   demo   that, and what the demonstration runs
#   test   what `make test` needs: programs that use libgc, readers of what Neap writes
#   rest   that, and what the other tests need: compilers of D
#   bench  that, and what benchmarks compare with
#   all    everything
# Called by the Makefile. Needs root or sudo only to install.
#
# Debian 12's own rustc is too old; its packages rustc-web and cargo-web, which Debian keeps up to
# date for its browsers, are new enough. A Rust from rustup that is new enough is used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

compilers=(gcc g++ libc6-dev make pkg-config ca-certificates)
rust=(rustc-web cargo-web rustfmt-web rust-web-clippy)
# What tests are built with and run under, and readers of the formats that Neap writes.
tests=(libgc-dev cmake valgrind shellcheck fonts-dejavu-core python3 python3-prometheus-client
    prometheus bpftrace bsdutils chromium)
# Compilers of D, and a program written in it.
d=(ldc gdc dub onedrive sambamba dustmite gir-to-d appstream-generator)
# What benchmarks compare with.
peers=(libmimalloc-dev libjemalloc-dev mono-runtime mono-mcs openjdk-17-jdk-headless ruby)
# Programs that only the corpus of bench/corpus has.
corpus=(asymptote lilypond poke)
command -v go >/dev/null || peers+=(golang-go)

say() { echo "setup: $*" >&2; }

# Those of the named packages that are not installed.
missing() {
    local package
    for package in "$@"; do
        dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -qx installed || echo "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        say "with sudo: $*"
        sudo "$@"
    else
        say "this needs root, and there is no sudo; as root run: $*"
        exit 2
    fi
}

updated=no
install() {
    [ $# -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        say "this is no Debian; install what its packages hold by other means: $*"
        exit 2
    fi
    if [ $updated = no ]; then
        as_root apt-get -qq update 2>&1 | tools/follow.sh "setup, apt-get update" >&2
        updated=yes
    fi
    say "installing $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
        "$@" 2>&1 | tools/follow.sh "setup, apt-get install" >&2
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
            install rustfmt-web rust-web-clippy
        fi
        return
    fi
    local old
    old=$(for package in rustc cargo rustup; do
        [ -n "$(missing "$package")" ] || echo "$package"
    done | tr '\n' ' ')
    if [ -n "$old" ]; then
        say "the installed packages ${old}hold a Rust that is too old and exclude the newer one."
        say "Remove them (sudo apt-get remove $old) or install a newer Rust by rustup, then try again"
        exit 2
    fi
    install "${rust[@]}"
    have_rust || {
        say "Debian's $(cargo --version 2>/dev/null || echo 'cargo') is too old here."
        say "Enable the security updates of your Debian, or install Rust by rustup (https://rustup.rs)"
        exit 2
    }
}

set_up_build() {
    # shellcheck disable=SC2046 # package names are single words
    install $(missing "${compilers[@]}")
    set_up_rust
}

# set_up PACKAGE…: what is missing of them, after what building needs.
set_up() {
    set_up_build
    # shellcheck disable=SC2046
    install $(missing "$@")
}

case "${1:-all}" in
build) set_up_build ;;
demo)
    set_up_build
    tests/clients/install.sh demo
    ;;
test)
    set_up "${tests[@]}"
    tests/clients/install.sh
    ;;
rest)
    set_up "${tests[@]}" "${d[@]}"
    tests/clients/install.sh
    ;;
bench | all)
    set_up "${tests[@]}" "${d[@]}" "${peers[@]}" "${corpus[@]}"
    tests/clients/install.sh
    ;;
*)
    say "want build, demo, test, rest, bench or all, not $1"
    exit 2
    ;;
esac
