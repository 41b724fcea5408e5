#!/bin/bash
# A newcomer who writes C: docs/tutorial-c.md.
page=tutorial-c.md report=trees.html needs="cc"
# shellcheck source=tests/newcomer/path.sh
. "$(dirname "$0")/path.sh"
