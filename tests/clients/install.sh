#!/bin/sh
# Installs what the client tests need and this machine does not have: the programs of Debian that
# use libgc, the C compiler that ECL, Nim, Crystal and Stalin call, and GNU time for the figures.
# `install.sh demo`: only what the demonstration runs. A program that this system has no package of
# is named and left out; run.sh skips its cases.
# Called by the set-up script; safe to run again: with everything there it does nothing.

set -eu

packages="guile-3.0 ecl w3m nim crystal neko goo libgc1 gcc libc6-dev time
    stalin libgc-dev chase debfoster autogen nix-bin haxe parser3-cgi maxima-sage remake
    mcron apache2-bin apache2-utils libapache2-mod-parser3 python3-minimal
    mailutils-mda libhomfly-dev fauhdlc mmv gobjc"
[ "${1-}" != demo ] || packages="guile-3.0 libgc1 time"

# shellcheck disable=SC2086 # the list is words
exec "$(dirname "$0")/../../tools/apt.sh" $packages
