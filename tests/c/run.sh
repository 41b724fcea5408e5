#!/bin/bash
# Builds and runs the tests of the C interface against what `make build` laid out, each in a process
# of its own, and prints a result line for each. Usage: tests/c/run.sh [--rest | NAME …]: with
# --rest the programs under other options and those that take longest, which a run without it leaves
# out; or only these programs. PREFIX=DIR tests another installation; EXECS=N executes that many
# programs in each way. Called by tools/test.sh.
. "$(dirname "$0")/../lib.sh"
begin c
rest=no
[ "${1:-}" != --rest ] || { rest=yes && shift; }
only=("$@")
warnings="-Wall -Wextra -Werror"
link="-L$prefix/lib -Wl,-rpath,$prefix/lib -lneap -pthread -ldl"
# What `neap flags --static` adds.
link_static="$prefix/lib/libneap.a -lutil -lrt -lpthread -lm -ldl -lc"
# What `neap flags --all-static` adds.
link_all_static=$("$prefix/bin/neap" flags --all-static --libs c) || exit

# build SOURCE PROGRAM FLAGS…: compiles and links; a failure is a result.
build() {
    local source=$1 program=$2 compiler="cc -std=gnu11"
    shift 2
    [[ $source != *.cpp ]] || compiler="c++ -std=c++17"
    # shellcheck disable=SC2086
    compile "$program" $compiler -g $warnings -I"$prefix/include" "tests/c/$source" \
        -o "$out/$program" "$@"
}

# test_program NAME [ARGUMENT…]: runs tests/c/NAME as it is.
test_program() {
    result_beside "${1%.*}" "$out/${1%.*}" "${@:2}"
}

# test_otherwise NAME [ARGUMENT…]: runs it with every internal check, and without the byte past the
# end and with cycles that stop the world where that is short.
test_otherwise() {
    local name=${1%.*}
    shift
    result_beside "$name, check=3" env NEAP_CHECK=3 NEAP_MIN_TRIGGER=64K "$out/$name" "$@"
    result_beside "$name, no past_end, short stops" env NEAP_PAST_END=0 NEAP_MAX_PAUSE=1 \
        "$out/$name" "$@"
}

# under_each NAME WATCHES [VARIABLE=VALUE…]: builds tests/c/NAME.c and runs it under each watch.
under_each() {
    local name=$1 watches=$2 watch
    shift 2
    # shellcheck disable=SC2086
    build "$name.c" "$name" -O2 $link || return 0
    for watch in $watches; do
        result "$name, watch=$watch" env NEAP_WATCH="$watch" "$@" "$out/$name"
    done
}
all_watches="none pagemap fork mprotect snapshot"

# sooner NAME, later NAME: whether this is wanted, without --rest or with it; what is asked for by
# name is in either case.
sooner() { [ $rest = no ] && wanted "$1"; }
later() { { [ $rest = yes ] || [ ${#only[@]} != 0 ]; } && wanted "$1"; }

for source in alloc.c misuse.c layout_matches.c layouts.c roots.c thread_roots.c thread_ends.c \
    undeclared_stacks.c no_descriptors.c host.c threads.c c11_threads.c results.c blocked.c \
    waits.c fork.c fibers.c finalizers.c cleaners.c pool.c throwing.cpp handles.c \
    handles_stress.c links.c monitors.c collections.c untouched.c observe.c signals.c requests.c \
    max_heap.c address_space.c options.c first_calls.c first_threads.c crowd.c huge_roots.c \
    two_collectors.c thread_storage.c cxx.cpp cxx_objects.cpp cxx_references.cpp; do
    wanted "${source%.*}" || continue
    # shellcheck disable=SC2086
    build "$source" "${source%.*}" -O2 $link || continue
    case $source in
    # What they measure is what the options change, or does not depend on them.
    layout_matches.c | options.c | address_space.c | waits.c | untouched.c | first_threads.c | \
        crowd.c | huge_roots.c)
        settle
        [ $rest = yes ] || result "${source%.*}" "$out/${source%.*}"
        ;;
    *) if [ $rest = yes ]; then test_otherwise "$source"; else test_program "$source"; fi ;;
    esac
done

# Behind large objects there are guard pages then.
if sooner undeclared_stacks; then
    result_beside "undeclared_stacks, hardened" env NEAP_HARDEN=1 "$out/undeclared_stacks"
    result_beside "undeclared_stacks, no descriptors" "$out/undeclared_stacks" none
    result_beside "undeclared_stacks, first thread ended" "$out/undeclared_stacks" ended
fi

# The host takes what lies between its threads and the ends of their stacks for roots.
if sooner host; then
    result_beside "host, recorded and sampled" env NEAP_STATS="$out/host.neap" NEAP_SAMPLE=512 \
        "$out/host"
fi

. tests/c/cxx.sh
. tests/c/kinds.sh
. tests/c/roots.sh
. tests/c/past_end.sh

if sooner throwing_callbacks || later throwing_callbacks; then
    watches="none pagemap"
    [ $rest = no ] || watches="fork mprotect snapshot"
    # shellcheck disable=SC2086
    build throwing_callbacks.cpp throwing_callbacks -O2 $link &&
        for watch in $watches; do
            for case in program host; do
                result "throwing_callbacks, $case, watch=$watch" env NEAP_WATCH=$watch \
                    NEAP_MIN_TRIGGER=256K "$out/throwing_callbacks" $case
            done
        done
fi

# shellcheck disable=SC2086
if sooner first_threads &&
    build first_threads.c first_threads_libc -O2 -Wl,--no-as-needed -lc $link; then
    result "first_threads, libc first" "$out/first_threads_libc" libc
fi

! sooner registered_late || under_each registered_late "$all_watches"
! sooner closed_watch || under_each closed_watch "pagemap snapshot"

# shellcheck disable=SC2086
if sooner spare_memory && build spare_memory.c spare_memory -O2 $link; then
    for watch in none pagemap fork; do
        result "spare_memory, watch=$watch" env NEAP_WATCH=$watch "$out/spare_memory" 5 80
    done
    result "spare_memory, none is kept" env NEAP_DECAY=0 "$out/spare_memory" 40 9999
    result "spare_memory, slowly" env NEAP_DECAY=50 "$out/spare_memory" 10 9999 slow
fi
! sooner given_back || under_each given_back "none pagemap"

# The kernel would end the program at the first fault.
if sooner blocked_faults; then
    # shellcheck disable=SC2086
    build blocked_faults.c blocked_faults -O2 $link &&
        result "blocked_faults, watch=mprotect" env NEAP_WATCH=mprotect "$out/blocked_faults"
fi

! later coroutines || under_each coroutines "$all_watches" NEAP_MIN_TRIGGER=1M
! sooner ephemerons || under_each ephemerons "$all_watches"
! sooner repeated_words || under_each repeated_words "$all_watches" NEAP_MIN_TRIGGER=256K

if sooner start; then
    # shellcheck disable=SC2086
    if ! "$prefix/bin/neap" doctor | grep 'NEAP_WATCH=auto would take pagemap' >/dev/null; then
        skip start "there is no watch=pagemap here"
    elif build start.c start -O2 $link; then
        result start "$out/start"
        # Also where a stop loses its processor, or is dear.
        result "start, little to keep" env NEAP_MAX_PAUSE=1000 \
            NEAP_MIN_TRIGGER=256K "$out/start" little
        # shellcheck disable=SC2086
        build start.c start_much -O2 -DDATA_BYTES=268435456 $link &&
            result "start, much static data" "$out/start_much" much
        result "start, a watch that was asked for" env NEAP_WATCH=pagemap "$out/start" asked
    fi
fi

# says TEXT COMMAND…: whether the command ends well and says this.
says() {
    local text=$1 said status
    shift
    said=$("$@" 2>&1)
    status=$?
    printf '%s\n' "$said"
    [ "$status" = 0 ] && grep -qF -- "$text" <<<"$said"
}

# places: five processes without the kernel's randomization have their heaps at five places.
places() {
    local places
    places=$(for _ in 1 2 3 4 5; do setarch -R "$out/hardened" place; done | sort -u)
    printf '%s\n' "$places"
    [ "$(wc -l <<<"$places")" = 5 ]
}
if sooner hardened || later hardened; then
    watches="none pagemap"
    [ $rest = no ] || watches="fork mprotect snapshot"
    # shellcheck disable=SC2086
    build hardened.c hardened -O2 $link && {
        for watch in $watches; do
            result "hardened, watch=$watch" env NEAP_HARDEN=1 NEAP_WATCH=$watch NEAP_CHECK=2 \
                NEAP_MIN_TRIGGER=256K "$out/hardened"
        done
        if [ $rest = no ] && setarch -R true 2>/dev/null; then
            NEAP_HARDEN=1 result "hardened, places differ" places
        elif [ $rest = no ]; then
            skip "hardened, places differ" "the kernel does not let setarch turn randomization off"
        fi
    }
fi

# What a program is examined with. Races between the users of one cell, one after the other, are no
# failure here.
if sooner sanitized; then
    export -f says
    # shellcheck disable=SC2086
    {
        build sanitized.c sanitized -O1 $link
        under_valgrind="valgrind -q --suppressions=tools/valgrind.supp --error-exitcode=1"
        for watch in auto none; do
            result "sanitized, valgrind, watch=$watch" env NEAP_WATCH=$watch $under_valgrind \
                "$out/sanitized"
        done
        for watch in pagemap mprotect snapshot; do
            result "sanitized, valgrind instead of watch=$watch" bash -c 'says "$@"' says \
                "the $watch watch does not work here" env NEAP_WATCH=$watch $under_valgrind \
                "$out/sanitized"
        done
        result "sanitized, rr" bash -c 'says "$@"' says '"watch":"fork"' env RUNNING_UNDER_RR=1 \
            NEAP_SUMMARY=- "$out/sanitized"
        # Without reports, which nobody reads: to make one may fail where a signal came in between.
        build sanitized.c sanitized-thread -O1 -fsanitize=thread $link &&
            for watch in $all_watches; do
                # ThreadSanitizer begins before libc does, which then has no environment yet.
                result "sanitized, thread, watch=$watch" bash -c 'says "$@"' says \
                    "\"watch\":\"$watch\"" env NEAP_WATCH=$watch NEAP_SUMMARY=- \
                    TSAN_OPTIONS="suppressions=$PWD/tools/tsan.supp report_bugs=0" \
                    "$out/sanitized-thread"
            done
        result "sanitized, thread, hardened" env NEAP_HARDEN=1 \
            TSAN_OPTIONS="suppressions=$PWD/tools/tsan.supp report_bugs=0" "$out/sanitized-thread"
        result "sanitized, thread, what to set is said" bash -c 'says "$@"' says \
            share/neap/tsan.supp env TSAN_OPTIONS="report_bugs=0" "$out/sanitized-thread"
        build sanitized.c sanitized-address -O1 -fsanitize=address $link && {
            result "sanitized, address" "$out/sanitized-address"
            result "sanitized, address, hardened" env NEAP_HARDEN=1 "$out/sanitized-address"
            result "sanitized, address, what to set is said" bash -c 'says "$@"' says \
                detect_stack_use_after_return=0 \
                env ASAN_OPTIONS=detect_stack_use_after_return=1 "$out/sanitized-address"
        }
    }
fi

# Under a watch a signal may come on top of what is used. `start-`: the first thread that needs the
# collector has a small stack too. What the loader needs to find libc's own functions is not the
# library's, and is ten kilobytes where registers are large: it finds them at the start.
if later small_stacks; then
    export LD_BIND_NOW=1
    # shellcheck disable=SC2086
    build small_stacks.c small_stacks -O2 -Wl,-z,now $link &&
        for watch in none pagemap fork mprotect snapshot; do
            signalled=
            [ $watch = none ] || signalled=1
            for way in plain start-callbacks; do
                result "small_stacks, $way, watch=$watch" env ${signalled:+SIGNALLED=1} \
                    NEAP_WATCH=$watch NEAP_MIN_TRIGGER=256K \
                    "$out/small_stacks" $way
            done
        done
    result "small_stacks, NEAP_STATS" env SIGNALLED=1 NEAP_STATS="$out/small_stacks.stats" \
        NEAP_SAMPLE=64K NEAP_MIN_TRIGGER=256K "$out/small_stacks"
    result "small_stacks, frames of libneap.so" tests/stack_use.sh "$prefix/lib/libneap.so" 4096
    unset LD_BIND_NOW
fi

# stops_itself COMMAND…: whether the command ends itself with a message.
stops_itself() {
    local said status
    said=$("$@" 2>&1)
    status=$?
    printf '%s\n' "$said"
    [ "$status" = 134 ] && grep -q '^neap: this library was called on a thread that is inside' <<<"$said"
}
if sooner handler_calls; then
    # shellcheck disable=SC2086
    build handler_calls.c handler_calls -O2 $link && {
        for case in installing at-ease; do
            result "handler_calls, $case" "$out/handler_calls" $case
        done
        for case in allocates frees collects; do
            result "handler_calls, $case" stops_itself "$out/handler_calls" $case
        done
    }
fi

# It waits for ten seconds, so once.
settle
if later stuck; then
    # shellcheck disable=SC2086
    build stuck.c stuck -O2 -rdynamic $link && result stuck "$out/stuck"
fi

# Whatever signal is in use: one that queues may be refused, and is not pending twice.
if later stop_signal; then
    # shellcheck disable=SC2086
    build stop_signal.c stop_signal -O2 $link && {
        for case in full-queue queue-fills refused-eperm refused-enosys refused-eagain \
            refused-gettid refused-threads cancelled program-handler; do
            for watch in none auto; do
                result "stop_signal, $case, watch=$watch" env NEAP_WATCH=$watch NEAP_MIN_TRIGGER=64K "$out/stop_signal" "$case"
                result "stop_signal, $case, watch=$watch, 40" \
                    env NEAP_STOP_SIGNAL=40 NEAP_WATCH=$watch NEAP_MIN_TRIGGER=64K "$out/stop_signal" "$case"
            done
        done
        # Found out in a stop: a thread that waits for the other's cannot come by, and that is said.
        result "stop_signal, refused-later" sh -c "'$out/stop_signal' refused-later 2>'$out/said' ||
            grep -q 'neap: thread [0-9]* cannot be stopped' '$out/said'"
        result "stop_signal, refused-all" "$out/stop_signal" refused-all
    }
fi

if sooner masks; then
    # shellcheck disable=SC2086
    build masks.c masks -O2 $link &&
        for signal in 0 40; do
            result "masks, signal $signal" env NEAP_STOP_SIGNAL=$signal "$out/masks"
            result "masks, watch=mprotect, signal $signal" \
                env NEAP_WATCH=mprotect NEAP_STOP_SIGNAL=$signal "$out/masks"
            result "masks, inherited, signal $signal" env NEAP_STOP_SIGNAL=$signal "$out/masks" inherited
        done
fi

# One that is pending does nothing to a program that is executed, in whatever way. With the default
# signal: the others end it.
if later exec; then
    # shellcheck disable=SC2086
    build exec.c exec -O2 $link &&
        for watch in none pagemap fork snapshot; do
            result "exec, pending, watch=$watch" env NEAP_WATCH=$watch "$out/exec" pending 0 3
            for way in execve execl syscall posix_spawn vfork fork system; do
                for threads in 0 2; do
                    result "exec, $way, $threads threads, watch=$watch" \
                        env NEAP_WATCH=$watch NEAP_MIN_TRIGGER=64K "$out/exec" $way $threads "${EXECS:-10}"
                done
            done
        done
fi

# With a helper on one processor too.
! sooner large_heap || under_each large_heap "pagemap mprotect" NEAP_MARKERS=4
# A thousand where the limits allow it.
! sooner idle_threads || under_each idle_threads "$all_watches"
! sooner vfork || under_each vfork "$all_watches" NEAP_MIN_TRIGGER=64K
! sooner untold_children || under_each untold_children "$all_watches"
! sooner held_forks || under_each held_forks "pagemap fork none"
! sooner vanished || under_each vanished "pagemap mprotect none"
! sooner finalize_all || under_each finalize_all "pagemap mprotect fork" NEAP_MAX_PAUSE=1
! sooner fork_finalizers || under_each fork_finalizers "$all_watches"
# A program that takes part in cycles, at the limit: a cycle's last references are processed late.
! sooner standing_handlers || under_each standing_handlers "none pagemap"
! sooner long_holds || under_each long_holds "$all_watches"
! sooner stopped_at_limit || under_each stopped_at_limit "pagemap none" NEAP_MAX_HEAP=48MiB
! sooner fork_actions || under_each fork_actions "$all_watches"

if sooner fork_start; then
    # shellcheck disable=SC2086
    build fork_start.c fork_start -O2 $link && result fork_start "$out/fork_start"
fi

! sooner fork_handlers || under_each fork_handlers "$all_watches"
! sooner wait_handlers || under_each wait_handlers "$all_watches"
# With the world stopped for all of marking, sleeps are hardly ever anything but interrupted.
! sooner wait_times || under_each wait_times "auto none"
# Each case ten times, each time in a process of its own. Checked libraries keep what says which
# locks a thread has in storage that the loader gives, under its lock.
if sooner loader && [[ $prefix = *checked ]]; then
    skip "loader" "checked libraries wait for the loader's lock themselves"
elif sooner loader; then
    # shellcheck disable=SC2086
    compile loader_plugin.so cc -g $warnings -shared -fPIC tests/c/loader_plugin.c \
        -o "$out/loader_plugin.so" &&
        build loader.c loader -O2 -rdynamic $link -lanl -lrt &&
        for case in constructor collector finalizers timer notes requests names; do
            for watch in auto none; do
                result "loader, $case, watch=$watch" env NEAP_WATCH=$watch "$out/loader" "$out/loader_plugin.so" "$case"
            done
        done
fi

if sooner reused_module; then
    # shellcheck disable=SC2086
    plugin() {
        compile "$1.so" cc -g $warnings -shared -fPIC "-DBYTES=$1" tests/c/local_plugin.c -o "$out/$1.so"
    }
    # shellcheck disable=SC2086
    plugin 64 && plugin 67108864 && build reused_module.c reused_module -O2 $link &&
        test_program reused_module "$out/64.so" "$out/67108864.so"
fi

# Beside the program the function is called in the middle of a cycle too.
if sooner trace_outside; then
    # shellcheck disable=SC2086
    build trace_outside.c trace_outside -O2 $link &&
        for watch in pagemap mprotect fork none; do
            twice=
            [ "$watch" != pagemap ] ||
                ! "$prefix/bin/neap" doctor | grep 'auto would take pagemap\.' >/dev/null || twice=1
            result "trace_outside, watch=$watch" env ${twice:+TEST_TWICE=1} NEAP_WATCH=$watch \
                "$out/trace_outside"
        done
fi

if sooner prefork; then
    # shellcheck disable=SC2086
    build prefork.c prefork -O2 $link && {
        test_program prefork.c
        test_otherwise prefork.c
        result "prefork, watched" env NEAP_WATCH=pagemap "$out/prefork"
        result "prefork, watch=mprotect" env NEAP_WATCH=mprotect "$out/prefork"
        result "prefork, option on-fork" env NEAP_PREFORK=on-fork "$out/prefork" on-fork
        result "prefork, option on-fork, watched" env NEAP_PREFORK=on-fork NEAP_WATCH=pagemap \
            "$out/prefork" on-fork
    }
fi

# Each watch has its own ways to be in the middle of something. Ten thousand children are enough
# once.
if later fork_faults; then
    # shellcheck disable=SC2086
    build fork_faults.c fork_faults -O2 $link && {
        for case in while-others-allocate from-several-threads killed-children in-a-finalizer \
            chains children-are-lazy \
            closed-descriptors closed-at-the-start spawned daemonized registrations; do
            for watch in none pagemap fork; do
                result_beside "fork_faults, $case, watch=$watch" \
                    env NEAP_WATCH=$watch NEAP_MIN_TRIGGER=256K "$out/fork_faults" "$case"
            done
        done
        result "fork_faults, closed-at-the-start, watch=snapshot" env NEAP_WATCH=snapshot \
            NEAP_MIN_TRIGGER=256K "$out/fork_faults" closed-at-the-start
        result "fork_faults, many-short-children" "$out/fork_faults" many-short-children
        result "fork_faults, while-others-allocate, prefork=on-fork, check=3" \
            env NEAP_PREFORK=on-fork NEAP_CHECK=3 NEAP_MIN_TRIGGER=256K "$out/fork_faults" \
            while-others-allocate
    }
fi

# Without optimisation, without inline allocation, position-independent in the strict way, and with
# the static library.
for source in alloc.c threads.c fork.c thread_roots.c cxx.cpp; do
    name=${source%.*}
    sooner "$name" || continue
    # shellcheck disable=SC2086
    {
        build "$source" "$name-O0" -O0 $link && result_beside "$name, -O0" "$out/$name-O0"
        build "$source" "$name-calls" -O2 -DNEAP_NO_INLINE $link && result_beside "$name, calls" "$out/$name-calls"
        build "$source" "$name-fixed" -O2 -fno-pie -no-pie $link && result_beside "$name, no PIE" "$out/$name-fixed"
        build "$source" "$name-static" -O2 $link_static && result_beside "$name, libneap.a" "$out/$name-static"
    }
done

# Programs that are linked with -static, libc and all.
for source in alloc.c threads.c fork.c thread_roots.c roots.c signals.c waits.c results.c masks.c \
    blocked.c cleaners.c finalizers.c handles.c fibers.c monitors.c collections.c max_heap.c \
    requests.c untold_children.c cxx.cpp cxx_objects.cpp throwing.cpp; do
    name=${source%.*}
    case $source in
    # The others are tested less often.
    threads.c | requests.c | cxx_objects.cpp) sooner "$name" || continue ;;
    *) later "$name" || continue ;;
    esac
    # shellcheck disable=SC2086
    build "$source" "$name-all-static" -O2 $link_all_static &&
        result_beside "$name, all static" "$out/$name-all-static"
done

# The headers alone, in every language they promise.
if sooner headers; then
    for standard in gnu89 c99 c11 gnu17; do
        echo '#include <neap.h>
              void *make(void) { return neap_alloc(24); }' >"$out/header.c"
        result "headers, -std=$standard" cc "-std=$standard" -O1 -Wall -Wextra -pedantic -Werror \
            -I"$prefix/include" \
            -c "$out/header.c" -o "$out/header.o"
    done
    for standard in c++17 c++20 c++23; do
        echo '#include <neap.h>
              #include <neap.hpp>
              void *make() { return neap::make<int>(24); }' >"$out/header.cpp"
        result "headers, -std=$standard" c++ "-std=$standard" -O1 -Wall -Wextra -pedantic \
            -Wold-style-cast -Werror \
            -I"$prefix/include" -c "$out/header.cpp" -o "$out/header.o"
    done
fi

# shellcheck source=tests/c/projects.sh
sooner examples && . tests/c/projects.sh

sooner symbols && result symbols tests/c/symbols.sh "$prefix"
if sooner code_order; then
    for library in lib/libneap.so lib/neap/libgc.so.1; do
        if [ "${TEXT_ORDER-}" = 0 ] || [ -z "$(nm --defined-only "$prefix/$library" 2>&1)" ]; then
            skip "code_order, ${library##*/}" "it was linked without it, or has no symbols"
        else
            result "code_order, ${library##*/}" tests/c/code_order.sh "$prefix/$library"
        fi
    done
fi
if sooner abi; then
    if command -v abidiff >/dev/null; then
        result "abi, as the last release" tests/c/abi.sh "$prefix" "$out/abi"
        result "abi, finds changes" tests/c/abi.sh "$prefix" "$out/abi" --finds
    else
        skip abi "there is no abidiff here (abigail-tools)"
    fi
fi
sooner inline && result inline tests/c/inline.sh "$prefix" "$out"
sooner soname && result "soname" sh -c "readelf -d '$prefix/lib/libneap.so' | grep -q 'soname: \[libneap.so.0\]'"
settle
exit "$failed"
