#!/bin/bash
# A newcomer who has a program that uses libgc: docs/moving-from-libgc.md.
page=moving-from-libgc.md report=trees.html needs="guile cc pkg-config"
# shellcheck source=tests/newcomer/path.sh
. "$(dirname "$0")/path.sh"
