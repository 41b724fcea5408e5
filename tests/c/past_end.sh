# shellcheck shell=bash # sourced by run.sh, which has begun
# The byte past the end: that it is there, that the inline path has it, and that both do without it.
# shellcheck disable=SC2086
if sooner past_end && build past_end.c past_end -O2 $link; then
    for watch in $all_watches; do
        result "past_end, watch=$watch" env NEAP_WATCH="$watch" "$out/past_end"
    done
fi
# shellcheck disable=SC2086
if sooner layout_matches &&
    build layout_matches.c layout_matches_without -O2 -DNEAP_PAST_END=0 $link; then
    result "layout_matches, no byte past the end" "$out/layout_matches_without"
fi
