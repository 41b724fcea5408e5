# What only benchmarks build: the patches of bench/variants fit the sources. Sourced by run.sh,
# which sets top and work.
# shellcheck shell=bash disable=SC2154

test_variants_can_be_made_of_the_sources() {
    local variant
    for variant in marks-in-objects without-statistics; do
        "$top/bench/variants/prepare.sh" "$variant" "$work/$variant"
        test -e "$work/$variant/crates/neap-core/src/lib.rs"
    done
    grep -q 'const KEPT: bool = false' "$work/without-statistics/crates/neap-core/src/stats/mod.rs"
    grep -q 'Bits::of(words' "$work/marks-in-objects/crates/neap-core/src/heap/lookup.rs"
}
