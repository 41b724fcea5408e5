#!/bin/bash
# A newcomer who writes D: docs/tutorial-d.md.
page=tutorial-d.md report=trees.html needs="ldc2 cc"
# shellcheck source=tests/newcomer/path.sh
. "$(dirname "$0")/path.sh"
