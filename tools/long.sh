#!/bin/bash
# The tests that take too long for `make test`. Usage: tools/long.sh soak [SECONDS] | loom | miri |
# sanitize. Prints test results as a part of tools/test.sh does. Called by the Makefile and by
# .ci/run; what needs a nightly Rust says so, and exits with 3, where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

nightly=nightly
# Where a page fault, a signal or another stack takes part, miri and the sanitizers cannot follow.
# These modules are plain computation or memory the tests own, and are tested under them.
miri_modules=(addr options heap::bits heap::classes heap::decay heap::header heap::kind)

need_nightly() {
    rustup run "$nightly" "$@" --version >/dev/null 2>&1 || {
        echo "this needs a nightly Rust: rustup toolchain install $nightly --component miri,rust-src" >&2
        exit 3
    }
}

case "${1:-}" in
soak)
    tests/torture/run.sh --seconds "${2:-600}"
    ;;
loom)
    shopt -s nullglob
    models=(crates/neap-core/tests/loom_*.rs)
    if [ ${#models[@]} = 0 ]; then
        echo "not ok - there are models to run"
        exit 1
    fi
    for file in "${models[@]}"; do
        model=$(basename "$file" .rs)
        # Three preemptions find what two find, at many times the cost.
        LOOM_MAX_PREEMPTIONS=2 RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom tools/one.sh \
            "loom $model" tools/with-rust.sh cargo test --quiet --release --package neap-core --test "$model"
    done
    ;;
miri)
    need_nightly cargo miri
    for module in "${miri_modules[@]}"; do
        MIRIFLAGS='-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check' \
            tools/one.sh "miri $module" \
            rustup run "$nightly" cargo miri test --quiet --package neap-core --lib -- "$module::"
    done
    ;;
sanitize)
    need_nightly cargo
    host=$(rustc -vV | sed -n 's/^host: //p')
    for sanitizer in address thread; do
        RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR=target/sanitize tools/one.sh \
            "$sanitizer sanitizer" rustup run "$nightly" cargo test --quiet -Zbuild-std --target "$host" \
            --package neap-core --lib
    done
    ;;
*)
    echo "long: want soak, loom, miri or sanitize" >&2
    exit 2
    ;;
esac
