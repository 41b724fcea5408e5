#!/bin/bash
# Builds the Rust documentation, warnings as errors, and runs the examples in it. Called by
# tools/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

# Private items are documented too, so links to them lead somewhere. Two crates have a library
# called neap.
export RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links'
document() { tools/with-rust.sh cargo doc --quiet --no-deps --document-private-items "$@"; }
document --workspace --exclude neap
document --package neap
tools/with-rust.sh cargo test --quiet --package neap-core --doc
