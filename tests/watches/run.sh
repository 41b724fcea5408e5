#!/bin/bash
# Real programs where the kernel refuses what the collector would like, as containers do: each runs
# under a seccomp filter with NEAP_WATCH=auto, has to print what it prints on Debian's libgc, and
# its summary has to name the way that was left. Prints test results as CONTRIBUTING.md says. Called
# by tools/test.sh.
. "$(dirname "$0")/../lib.sh"
begin watches
unset "${!NEAP_@}"
build_torture
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is refused, and the way that is left.
filters=(
    "nothing::pagemap"
    "userfaultfd-by-a-filter:--userfaultfd=eperm:fork"
    "userfaultfd-by-an-old-kernel:--userfaultfd=enosys:fork"
    "fork:--fork:pagemap"
    "both:--userfaultfd=eperm --fork:none"
)
clients=(guile-weak nim)
installed=()

# What NEAP_WATCH=auto takes where nothing is refused: this machine may be such a container itself.
best=$(build/bin/neap doctor | sed -n 's/.*NEAP_WATCH=auto would take \(.*\)\./\1/p')
[ "$best" = pagemap ] || echo "# here NEAP_WATCH=auto takes $best anyway"

for client in "${clients[@]}"; do
    status=0
    tests/clients/"$client"/run --build >"$work/log" 2>&1 || status=$?
    if [ $status = 3 ]; then
        skip "$client" "$(tail -n 1 "$work/log")"
        continue
    fi
    installed+=("$client")
    if [ $status != 0 ] ||
        ! tests/clients/"$client"/run >"$work/$client.out" 2>"$work/log"; then
        not_ok "$client on Debian's libgc" - <"$work/log"
    fi
done
for filter in "${filters[@]}"; do
    IFS=: read -r refused arguments wanted <<<"$filter"
    [ "$wanted" != pagemap ] || wanted=$best
    read -ra arguments <<<"$arguments"
    under=("$torture" under "${arguments[@]}" --)
    if said=$("${under[@]}" build/bin/neap doctor 2>&1) && grep -q "auto would take $wanted\." <<<"$said"; then
        passed "doctor, refused: $refused"
    else
        not_ok "doctor, refused: $refused" - <<<"$said"
    fi
    # Only what runs on Neap is refused something: the scripts around it make processes.
    printf '#!/bin/sh\nexec "%s" under %s -- "%s" "$@"\n' "$torture" "${arguments[*]}" \
        "$PWD/build/bin/neap" >"$work/neap"
    chmod +x "$work/neap"
    for client in "${installed[@]}"; do
        name="$client, refused: $refused"
        rm -f "$work/summary"
        if ! CLIENT_NEAP=$work/neap NEAP_WATCH=auto NEAP_SUMMARY=$work/summary \
            timeout --kill-after=5 60 tests/clients/"$client"/run >"$work/out" 2>"$work/log"; then
            not_ok "$name" - <"$work/log"
        elif ! cmp -s "$work/out" "$work/$client.out"; then
            not_ok "$name: prints the same" - < <(diff "$work/$client.out" "$work/out")
        elif ! grep -q "\"watch\":\"$wanted\"" "$work/summary"; then
            not_ok "$name: uses $wanted" - <"$work/summary"
        elif [ -s "$work/log" ]; then
            not_ok "$name: says nothing" - <"$work/log"
        else
            passed "$name: $wanted"
        fi
    done
    name="torture, refused: $refused"
    if timeout --kill-after=5 60 "${under[@]}" "$torture" run --seed 5 --threads 2 --operations 4000 \
        --neap check=3 --neap watch=auto >"$work/log" 2>&1; then
        passed "$name"
    else
        not_ok "$name" - <"$work/log"
    fi
done
exit "$failed"
