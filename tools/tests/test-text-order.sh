# The order of functions in the libraries: what is called is found out. Sourced by run.sh, which
# sets top and work.
# shellcheck shell=bash disable=SC2154

test_first_calls_of_a_program_are_listed_once_and_in_order() {
    local library=$top/build/lib/libneap.so.0 status=0
    cc -O2 -Wall -Wextra -Werror -o "$work/first_calls" "$top/tools/text-order/first_calls.c"
    cat >"$work/program.c" <<'END'
#include <neap.h>
#include <unistd.h>
int main(void)
{
    neap_init();
    for (int i = 0; i < 3; i++)
        neap_base(neap_alloc(24));
    if (fork() == 0) {
        neap_collect();
        _exit(0);
    }
    return 7;
}
END
    cc -I"$top/build/include" -o "$work/program" "$work/program.c" -L"$top/build/lib" -lneap
    nm --defined-only "$library" | awk '$2 == "T" { print $1, $3 }' >"$work/symbols"
    mkdir "$work/lists"
    FIRST_CALLS_LIBRARY=$(realpath "$library") FIRST_CALLS_SYMBOLS=$work/symbols \
        FIRST_CALLS_LISTS=$work/lists LD_LIBRARY_PATH=$top/build/lib \
        "$work/first_calls" run --any -- "$work/program" 2>"$work/said" || status=$?
    ! grep -q "can't be traced" "$work/said" || skip "$(cat "$work/said")"
    [ "$status" = 7 ]
    # What the child alone calls is not the program's.
    [ "$(grep -x 'neap_init\|neap_base\|neap_collect' "$work"/lists/*)" = $'neap_init\nneap_base' ]
}
