# Roots of libraries, and large ones: what they cost, and that nothing is lost of them. Sourced by
# run.sh.

if sooner dlopen_roots; then
    for model in global-dynamic initial-exec; do
        # shellcheck disable=SC2086
        cc -g $warnings -shared -fPIC -ftls-model=$model tests/c/plugin.c -o "$out/$model.so" &&
            build dlopen_roots.c dlopen_roots -O2 $link &&
            result "dlopen_roots, $model" "$out/dlopen_roots" "$out/$model.so"
    done
    test_otherwise dlopen_roots "$out/initial-exec.so"
fi

if sooner root_words && build root_words.c root_words -O2 $link; then
    for watch in pagemap mprotect fork none; do
        result "root_words, watch=$watch" env NEAP_WATCH=$watch "$out/root_words"
    done
fi

! sooner kept_roots || under_each kept_roots "pagemap fork" NEAP_MARKERS=4

if later watched_roots; then
    # shellcheck disable=SC2086
    cc -g $warnings -shared -fPIC tests/c/plugin.c -o "$out/plugin.so" &&
        build watched_roots.c watched_roots -O2 $link &&
        for watch in pagemap fork none; do
            result "watched_roots, watch=$watch" env NEAP_WATCH=$watch NEAP_CHECK=3 \
                NEAP_MIN_TRIGGER=256K "$out/watched_roots" "$out/plugin.so"
        done
    result "watched_roots, minor cycles" env NEAP_MINOR_CYCLES=always NEAP_CHECK=3 \
        NEAP_MIN_TRIGGER=256K "$out/watched_roots" "$out/plugin.so" 200000
    # shellcheck disable=SC2086
    cc -g $warnings -shared -fPIC '-DSLOTS=(3 << 17)' tests/c/plugin.c -o "$out/plugin_3m.so" &&
        build watched_roots.c watched_roots_3m -O2 '-DSLOTS=(3 << 17)' $link &&
        for watch in pagemap fork; do
            result "watched_roots, in pieces, watch=$watch" env NEAP_WATCH=$watch NEAP_CHECK=3 \
                NEAP_MIN_TRIGGER=256K "$out/watched_roots_3m" "$out/plugin_3m.so"
        done
    build watched_roots.c watched_roots_shared -O2 '-DSLOTS=(3 << 17)' -DSHARING=MAP_SHARED $link &&
        for watch in pagemap fork; do
            result "watched_roots, shared, watch=$watch" env NEAP_WATCH=$watch NEAP_CHECK=3 \
                NEAP_MIN_TRIGGER=256K "$out/watched_roots_shared" "$out/plugin_3m.so"
        done
fi
