#!/bin/bash
# A newcomer who writes Rust: docs/tutorial-rust.md.
page=tutorial-rust.md report=trees.html needs="cargo cc"
# shellcheck source=tests/newcomer/path.sh
. "$(dirname "$0")/path.sh"
