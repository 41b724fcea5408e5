#!/bin/bash
# Runs a command with a Rust that is new enough on PATH: the one that is there, or rustup's in the
# home folder, which a non-login shell does not see. Called by the Makefile and the other scripts.
set -euo pipefail

least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")

# Whether the cargo in folder $1 (empty: on PATH) is at least $least.
is_new_enough() {
    local version
    version=$("${1:+$1/}cargo" --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$version" ] && [ "$(printf '%s\n' "$least" "$version" | sort -V | head -n 1)" = "$least" ]
}

if ! is_new_enough ""; then
    home=${CARGO_HOME:-$HOME/.cargo}
    if ! is_new_enough "$home/bin"; then
        echo "Neap needs Rust $least or newer, with cargo; \`make setup\` installs it" >&2
        exit 2
    fi
    export PATH="$home/bin:$PATH"
fi
exec "$@"
