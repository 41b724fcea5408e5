#!/bin/bash
# A newcomer who writes C++: docs/tutorial-cpp.md.
page=tutorial-cpp.md report=graph.html needs="c++"
# shellcheck source=tests/newcomer/path.sh
. "$(dirname "$0")/path.sh"
