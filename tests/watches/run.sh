#!/bin/bash
# Real programs where the kernel refuses what the collector would like, as containers do: each runs under a
# seccomp filter with NEAP_WATCH=auto, has to print what it prints on Debian's libgc, and its summary has to name
# the way that was left. Prints test results as CONTRIBUTING.md says. Called by tools/test.sh.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
unset "${!NEAP_@}"

tools/with-rust.sh cargo build --quiet --release --package neap-torture || {
    echo "not ok - watches: neap-torture can be built"
    exit 1
}
target=$(tools/with-rust.sh cargo metadata --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
torture=$target/release/neap-torture
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# What is refused, and the way that is left.
filters=(
    "nothing::pagemap"
    "userfaultfd-by-a-filter:--userfaultfd=eperm:fork"
    "userfaultfd-by-an-old-kernel:--userfaultfd=enosys:fork"
    "fork:--fork:pagemap"
    "both:--userfaultfd=eperm --fork:none"
)
clients=(guile-weak nim)

# Fails the test $1 with what is on standard input.
not_ok() {
    head -n 20 | sed 's/^/# /'
    echo "not ok - watches/$1"
    failed=$((failed + 1))
}

# What NEAP_WATCH=auto takes where nothing is refused: this machine may be such a container itself.
best=$(build/bin/neap doctor | sed -n 's/.*NEAP_WATCH=auto would take \(.*\)\./\1/p')
[ "$best" = pagemap ] || echo "# here NEAP_WATCH=auto takes $best anyway"

for client in "${clients[@]}"; do
    if ! tests/clients/"$client"/run --build >"$work/log" 2>&1 ||
        ! tests/clients/"$client"/run >"$work/$client.out" 2>"$work/log"; then
        not_ok "$client on Debian's libgc" <"$work/log"
    fi
done
for filter in "${filters[@]}"; do
    IFS=: read -r refused arguments wanted <<<"$filter"
    [ "$wanted" != pagemap ] || wanted=$best
    read -ra arguments <<<"$arguments"
    under=("$torture" under "${arguments[@]}" --)
    if said=$("${under[@]}" build/bin/neap doctor 2>&1) && grep -q "auto would take $wanted\." <<<"$said"; then
        echo "ok - watches/doctor, refused: $refused"
    else
        not_ok "doctor, refused: $refused" <<<"$said"
    fi
    # Only what runs on Neap is refused something: the scripts around it make processes.
    printf '#!/bin/sh\nexec "%s" under %s -- "%s" "$@"\n' "$torture" "${arguments[*]}" \
        "$PWD/build/bin/neap" >"$work/neap"
    chmod +x "$work/neap"
    for client in "${clients[@]}"; do
        name="$client, refused: $refused"
        rm -f "$work/summary"
        if ! CLIENT_NEAP=$work/neap NEAP_WATCH=auto NEAP_SUMMARY=$work/summary \
            timeout --kill-after=5 60 tests/clients/"$client"/run >"$work/out" 2>"$work/log"; then
            not_ok "$name" <"$work/log"
        elif ! cmp -s "$work/out" "$work/$client.out"; then
            diff "$work/$client.out" "$work/out" | not_ok "$name: prints the same"
        elif ! grep -q "\"watch\":\"$wanted\"" "$work/summary"; then
            not_ok "$name: uses $wanted" <"$work/summary"
        elif [ -s "$work/log" ]; then
            not_ok "$name: says nothing" <"$work/log"
        else
            echo "ok - watches/$name: $wanted"
        fi
    done
    name="torture, refused: $refused"
    if timeout --kill-after=5 60 "${under[@]}" "$torture" run --seed 5 --threads 2 --operations 4000 \
        --neap check=3 --neap watch=auto >"$work/log" 2>&1; then
        echo "ok - watches/$name"
    else
        not_ok "$name" <"$work/log"
    fi
done
[ "$failed" = 0 ]
