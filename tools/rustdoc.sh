#!/bin/bash
# Builds the Rust documentation, warnings as errors, and runs the examples in it. Called by
# tools/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

# Private items are documented too, so links to them lead somewhere.
RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' \
    tools/with-rust.sh cargo doc --quiet --workspace --no-deps --document-private-items
tools/with-rust.sh cargo test --quiet --package neap-core --doc
