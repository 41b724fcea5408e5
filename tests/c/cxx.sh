# The part of run.sh for C++20, by which programs of neap.hpp are compiled too: coroutines, and what
# C++17 has otherwise. Sourced by it.
# shellcheck shell=bash disable=SC2154 # run.sh sets out, link and rest

# Comparisons and the construction of aggregates have other rules there.
if sooner cxx_references; then
    # shellcheck disable=SC2086
    build cxx_references.cpp cxx_references_20 -O2 -std=c++20 $link &&
        result "cxx_references, C++20" "$out/cxx_references_20"
fi

if wanted cxx_coroutines; then
    # shellcheck disable=SC2086
    build cxx_coroutines.cpp cxx_coroutines -O2 -std=c++20 $link &&
        if [ $rest = yes ]; then
            test_otherwise cxx_coroutines.cpp
        else
            test_program cxx_coroutines.cpp
        fi
fi
