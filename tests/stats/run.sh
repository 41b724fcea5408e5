#!/bin/bash
# Records programs whose requests are known, and compares what `neap report` says; ends them in
# every way. Prints a result line for each test. Usage: tests/stats/run.sh [NAME…]: only these of
# the tests that need no tool. PREFIX=DIR tests another installation than build/. Called by
# tools/test.sh.
. "$(dirname "$0")/../lib.sh"
rm -rf "${OUT:-build/stats}"
begin stats
only=("$@")
neap=$prefix/bin/neap
. tests/stats/files.sh

# field FILE PATH: a field of the report's JSON, such as requested.objects.
field() {
    "$neap" report "$1" --json | python3 -c '
import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."):
    value = value[int(name) if isinstance(value, list) else name]
print(json.dumps(value))' "$2"
}

# is FILE PATH VALUE: whether a field has this value.
is() {
    local found
    found=$(field "$1" "$2") || return 1
    [ "$found" = "$3" ] || {
        echo "$2 is $found, not $3"
        return 1
    }
}

# count FILE KIND SIZE: requests of this kind and size.
count() {
    "$neap" report "$1" --csv requests | awk -F, -v kind="$2" -v size="$3" '$1 == size && $2 == kind { print $3 }'
}

# counts FILE: what requests.c makes before it ends.
counts() {
    local kind size wanted found
    while read -r kind size wanted; do
        found=$(count "$1" "$kind" "$size")
        [ "$found" = "$wanted" ] || {
            echo "$kind of $size bytes: ${found:-none}, not $wanted"
            return 1
        }
    done <<END
conservative 24 4000
leaf 5000 40
leaf 1000001 1
leaf 100 1
uncollectable 77 1
typed 64 100
END
}

program() { NEAP_STATS=$1 "$out/requests" "${@:2}"; }

in_order() {
    program "$out/in-order" && counts "$out/in-order" &&
        is "$out/in-order" problems '[]' && is "$out/in-order" padding_bytes 16 &&
        is "$out/in-order" bytes_per_typed_object 0.0 && is "$out/in-order" words_not_scanned 600 &&
        is "$out/in-order" lost_events 0 && is "$out/in-order" statistics.cycles 2 &&
        [ "$(field "$out/in-order" cycles | tr , '\n' | grep -c '"number"')" = 2 ] &&
        "$neap" report "$out/in-order" | grep -q '16 B more allocated'
}

crash() {
    program "$out/crash" crash
    [ $? = 137 ] && counts "$out/crash" && is "$out/crash" process.ended_ns null
}

fork() {
    program "$out/fork" fork && counts "$out/fork" && [ "$(count "$out/fork" conservative 40)" = "" ] &&
        [ "$(count "$out/fork" conservative 48)" = 1 ] || return 1
    local child
    child=$(echo "$out"/fork.*)
    [ "$(count "$child" conservative 40)" = 500 ] && [ "$(count "$child" conservative 24)" = "" ] &&
        is "$child" problems '[]'
}

# Each function's estimate of what it allocated and of what is left, beside what it is; five
# standard deviations and more are allowed for.
sites() {
    NEAP_SAMPLE=64KiB NEAP_STATS=$out/sites "$out/sites-program" && "$neap" report "$out/sites" --json >"$out/sites.json" || return 1
    python3 - "$out/sites.json" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
sums = {}
for site in report["sites"]:
    functions = [frame.split(" (")[0] for frame in site["frames"]]
    if "main" in functions:
        assert "make" in functions and functions.index("make") == 0, site["frames"]
        key = functions[1]
        sums.setdefault(key, [0, 0])
        sums[key][0] += site["allocated"]["bytes"]
        sums[key][1] += site["live"]["bytes"]
wanted = {"keep": (32768000, 32768000), "lose": (131072000, 0), "free_again": (16384000, 0), "lose_large": (40000000, 0)}
assert set(sums) == set(wanted), sums
for name, (allocated, live) in wanted.items():
    found = sums[name]
    assert abs(found[0] - allocated) < allocated * 0.4, (name, found, allocated)
    assert abs(found[1] - live) < max(live * 0.3, 1000000), (name, found, live)
print(sums)
END
}

# Code without a symbol is not the nearest exported function's: it is named by its file and place.
stripped() {
    rm -f "$out/stripped"
    NEAP_SAMPLE=64KiB NEAP_STATS=$out/stripped "$out/stripped-program" &&
        "$neap" report "$out/stripped" --json >"$out/stripped.json" || return 1
    python3 - "$out/stripped.json" <<'END'
import json, re, sys
sites = json.load(open(sys.argv[1]))["sites"]
print(sites[0])
frames = [frame.split(" (")[0] for frame in sites[0]["frames"]]
assert re.fullmatch(r"libstripped\.so\+0x[0-9a-f]+", frames[0]), frames
assert frames[1:3] == ["allocate_a_lot", "main"], frames
END
}

# shellcheck source=/dev/null
. tests/stats/sites/names.sh

# Go's own tool reads the profile and names the functions.
profile() {
    "$neap" export "$out/sites" --pprof "$out/sites.pb.gz" || return 1
    PPROF_TMPDIR=$out go tool pprof -top -cum -sample_index=alloc_space "$out/sites.pb.gz" >"$out/sites.top" || return 1
    cat "$out/sites.top"
    for function in make keep lose free_again lose_large; do
        grep -q " $function\$" "$out/sites.top" || return 1
    done
    PPROF_TMPDIR=$out go tool pprof -top -cum -nodefraction=0 -unit=B \
        -sample_index=alloc_space "$out/sites.pb.gz" >"$out/sites.bytes" &&
        python3 tests/stats/profile.py "$out/sites.json" "$out/sites.bytes" || return 1
    PPROF_TMPDIR=$out go tool pprof -top -cum -sample_index=inuse_space "$out/sites.pb.gz" |
        grep -Eq ' (9[0-9](\.[0-9]+)?|100)% +keep$'
}

unsampled() {
    is "$out/in-order" sites null && ! "$neap" export "$out/in-order" --pprof "$out/none.pb.gz" 2>"$out/said" &&
        grep -q 'without sampling' "$out/said"
}

page() {
    local browser
    # With sites, if they could be recorded.
    "$neap" report "$out/sites" --html "$out/page.html" || return 1
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        return 1
    # No name resolves: the page has to do without a network.
    timeout 50 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$out/browser" \
        --host-resolver-rules="MAP * ~NOTFOUND" --virtual-time-budget=3000 --window-size=1300,2200 \
        --screenshot="$out/page.png" --dump-dom "file://$out/page.html" >"$out/page.dom" 2>"$out/browser.log"
    grep -q 'data-ready="1[0-9]"' "$out/page.dom" || {
        echo "the page did not draw everything"
        tail -n 20 "$out/browser.log"
        return 1
    }
    [ "$(grep -o 'id="flame" data-marks="[0-9]*"' "$out/page.dom" | grep -o '[0-9]*')" -ge 6 ] || return 1
    ! grep -q 'data-marks="0"' "$out/page.dom" || return 1
    # A page that draws nothing has a picture of a few kilobytes.
    [ "$(stat -c %s "$out/page.png")" -gt 50000 ]
}

# Axes have round numbers with labels that say them: over many ranges, and on pages of runs of many
# sizes.
axes() {
    local folder=$out/axes
    mkdir -p "$folder" && cp crates/neap-report/src/page/axis.js tests/stats/axes.html "$folder" &&
        timeout 50 "$(browser)" --headless --no-sandbox --disable-gpu --user-data-dir="$folder/browser" \
            --dump-dom "file://$folder/axes.html" >"$folder/dom" 2>/dev/null
    grep -q 'data-looked="[1-9][0-9]*" data-wrong="0"' "$folder/dom" || {
        sed -n '/<body/,$p' "$folder/dom"
        return 1
    }
    "$neap" report "$out/sites" --html "$out/page.html" &&
        python3 tests/stats/scales.py "$(browser)" "$out/page.html" "$folder"
}

# Under a tool that runs the program on a processor of its own making, and hides a page of the
# kernel's.
under_valgrind() {
    timeout 100 valgrind --quiet --tool=none "$out/requests" 2>"$out/said" || {
        cat "$out/said"
        return 1
    }
}

# typed FILE: layouts cost the 1,000 objects of four words nothing, and save three words of each.
typed() {
    is "$1" bytes_per_typed_object 0.0 || return 1
    "$neap" report "$1" --json | python3 -c '
import json, sys
wanted = {"element_words": 4, "pointer_words": 1}
rows = [row for row in json.load(sys.stdin)["layouts"] if row["shape"] == wanted and row["objects"] >= 1000]
print(rows)
assert len(rows) == 1 and rows[0]["bytes"] == 32 * rows[0]["objects"] and rows[0]["not_scanned_bytes"] == 24 * rows[0]["objects"]'
}
typed_libgc() {
    cc -std=gnu11 -O2 -Wall -Wextra -Werror tests/stats/typed_libgc.c -o "$out/typed-libgc" -lgc &&
        LD_LIBRARY_PATH=$prefix/lib/neap NEAP_STATS=$out/typed.libgc "$out/typed-libgc" &&
        typed "$out/typed.libgc" && is "$out/typed.libgc" words_not_scanned 3000
}
typed_d() {
    # shellcheck disable=SC2046 # flags are words
    ldc2 -w -O2 -od="$out/typed-d.obj" -of="$out/typed-d" tests/stats/typed.d $("$neap" flags d) &&
        NEAP_STATS=$out/typed.d "$out/typed-d" --DRT-gcopt=gc:neap-precise && typed "$out/typed.d"
}

# agree [inside]: everything that tells of stops tells the same of one run, by every watch that this
# machine allows; also of a run that ends inside a cycle.
agree() {
    local folder watch program watches=(pagemap mprotect fork snapshot)
    [ $# = 1 ] || watches+=(none)
    for watch in "${watches[@]}"; do
        folder=$out/agree.$watch$*
        rm -rf "$folder" && mkdir "$folder" || return 1
        coproc STOPS {
            NEAP_WATCH=$watch NEAP_MIN_TRIGGER=1M NEAP_STATS=$folder/recording \
                NEAP_SUMMARY=$folder/summary exec "$out/stops" "$@" 2>"$folder/said"
        }
        if ! read -r -t 60 _ <&"${STOPS[0]}"; then
            cat "$folder/said"
            return 1
        fi
        program=$STOPS_PID
        "$neap" metrics "$program" >"$folder/metrics" &&
            "$neap" top --batch --count 1 "$program" >"$folder/top" || return 1
        eval "exec ${STOPS[1]}>&-"
        wait "$program"
        python3 tests/stats/agree.py "$neap" "$folder" "$@" || {
            echo "watch $watch"
            return 1
        }
    done
}

# Who marks has a track of its own in a trace, also the process that does with watch=fork. Markers
# beside the collector's thread there are on six processors.
tracks() {
    local watch folder
    for watch in pagemap fork; do
        folder=$out/tracks.$watch
        rm -rf "$folder" && mkdir "$folder" &&
            NEAP_WATCH=$watch NEAP_MIN_TRIGGER=1M NEAP_MARKERS=6 NEAP_STATS=$folder/recording \
                "$out/stops" many </dev/null >/dev/null &&
            "$neap" export "$folder/recording" --trace "$folder/trace.json" &&
            python3 tests/stats/tracks.py "$folder/trace.json" "$watch" || return 1
    done
}

# A thread that waits for a cycle marks in few pieces: in one for each round of the cycle, and not
# in hundreds, each of which reads the clock all the time. Who finds nothing to do looks for some 20
# microseconds, now and then: these do not count.
waits_mark() {
    NEAP_WATCH=pagemap NEAP_STATS=$out/waits.recording "$out/waits" &&
        "$neap" export "$out/waits.recording" --trace "$out/waits.json" || return 1
    python3 -c '
import json, sys
events = [event for event in json.load(open(sys.argv[1]))["traceEvents"] if event["ph"] == "X"]
waited = [event for event in events if event["name"] == "in_collector" and event["dur"] > 2000]
inside = lambda event: any(
    wait["tid"] == event["tid"] and wait["ts"] <= event["ts"] < wait["ts"] + wait["dur"] for wait in waited)
pieces = [event["dur"] for event in events if event["name"] == "assist" and event["dur"] > 150 and inside(event)]
print(len(waited), "waits,", len(pieces), "pieces, microseconds:", sorted(pieces)[-20:])
sys.exit(not (waited and 0 < len(pieces) <= 20 * len(waited)))' "$out/waits.json"
}

# The page at the widths of a telephone, a tablet and a screen, looked at by a checker of what
# people need who do not see it.
readonly checker=axe-core@4.14.1
page_is_readable() {
    mkdir -p "$out/look" && "$neap" report "$out/sites" --html "$out/look/page.html" || return 1
    python3 tests/stats/readable.py "$(browser)" "$out/checker/axe.min.js" "$out/look/page.html" \
        "$out/look"
}

# A viewer of this format reads the trace: it has every track, and as long a time of stops.
readonly viewer=speedscope@1.25.0
browser() { command -v chromium chromium-browser google-chrome | head -n 1; }
# fetch FOLDER PACKAGE: a package of npm's registry, once.
fetch() {
    [ -d "$out/$1" ] && return
    (
        mkdir -p "$out/$1.new" && cd "$out/$1.new" && timeout 60 npm pack --silent "$2" &&
            tar -xzf ./*.tgz --strip-components=1 && mv "$out/$1.new" "$out/$1"
    ) >/dev/null 2>&1
}
# viewer_reads FOLDER: whether it shows all of the trace of the recording there.
viewer_reads() {
    local folder=$1 tracks
    "$neap" export "$folder/recording" --trace "$folder/trace.json" || return 1
    printf 'speedscope.loadFileFromBase64("trace.json", "%s")' "$(base64 -w0 "$folder/trace.json")" >"$folder/trace.js"
    timeout 60 "$(browser)" --headless --no-sandbox --disable-gpu \
        --user-data-dir="$out/browser" --host-resolver-rules="MAP * ~NOTFOUND" \
        --allow-file-access-from-files --virtual-time-budget=8000 \
        --dump-dom "file://$out/viewer/dist/release/index.html#localProfilePath=$folder/trace.js" 2>"$out/browser.log" |
        sed 's/<[^>]*>/ /g' | tr -s ' \n' >"$folder/viewer.text"
    grep -o 'Name Total Weight.*' "$folder/viewer.text" || return 1
    tracks=$(python3 -c '
import json, sys
print(len({event["tid"] for event in json.load(open(sys.argv[1]))["traceEvents"] if event["ph"] == "X"}))' "$folder/trace.json")
    grep -q "(1/$tracks)" "$folder/viewer.text" && grep -q ', cycles (tid' "$folder/viewer.text" &&
        grep -q ", stops (tid [0-9]*) $(field "$folder/recording" stops.total_ns | LC_ALL=C awk '{ printf "%.2f", $1 / 1e6 }')ms" "$folder/viewer.text"
}
# Of cycles that stop the world, that run beside the program, and that a forked process marks for.
trace_is_read() {
    viewer_reads "$out/agree.none" && viewer_reads "$out/tracks.pagemap" &&
        viewer_reads "$out/tracks.fork"
}

agree_inside() { agree inside; }

compare() {
    "$neap" report "$out/in-order" "$out/crash" | grep -q '^objects requested .* 1.000$' &&
        "$neap" report "$out/in-order" "$out/crash" --json | grep -q '"a": 4146'
}

compile requests.c cc -std=gnu11 -g -O2 -Wall -Wextra -Werror -D_GNU_SOURCE \
    -I"$prefix/include" tests/stats/requests.c -o "$out/requests" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap -pthread || exit 1
compile sites.c cc -std=gnu11 -g -O2 -fomit-frame-pointer -Wall -Wextra -Werror \
    -I"$prefix/include" tests/stats/sites/sites.c -o "$out/sites-program" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap -pthread || exit 1
compile stripped.c cc -std=gnu11 -O2 -fPIC -shared -s -Wall -Wextra -Werror \
    -I"$prefix/include" tests/stats/sites/stripped.c -o "$out/libstripped.so" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap || exit 1
compile stripped.c cc -std=gnu11 -O2 -g -DPROGRAM -Wall -Wextra -Werror \
    -I"$prefix/include" tests/stats/sites/stripped.c -o "$out/stripped-program" -L"$out" \
    -Wl,-rpath,"$out" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lstripped -lneap || exit 1
compile moves.c cc -std=gnu11 -g -O2 -Wall -Wextra -Werror -I"$prefix/include" tests/stats/moves.c \
    -o "$out/moves" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap -pthread || exit 1
compile stops.c cc -std=gnu11 -g -O2 -Wall -Wextra -Werror -I"$prefix/include" tests/stats/stops.c \
    -o "$out/stops" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap -pthread || exit 1
compile waits.c cc -std=gnu11 -g -O2 -Wall -Wextra -Werror -I"$prefix/include" tests/stats/waits.c \
    -o "$out/waits" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap || exit 1
for test in in_order crash fork closed daemon full summary_refused together in_turn execs \
    refused files compare agree agree_inside sites stripped containers debugging_information_apart \
    unsampled; do
    wanted "$test" || continue
    result "$test" "$test"
done
[ ${#only[@]} = 0 ] || exit "$failed"
if "$neap" doctor | grep -q "^ *pagemap *works"; then
    result waits_mark waits_mark
    result tracks tracks
else
    skip tracks "the kernel refuses the pagemap watch"
    skip waits_mark "the kernel refuses the pagemap watch"
fi
# with TOOL NAME: the test of this name, which needs a tool.
with() {
    if command -v "$1" >/dev/null; then
        result "$2" "$2"
    else
        skip "$2" "no $1"
    fi
}
with go profile
with valgrind under_valgrind
if [ -e "$prefix/lib/libneapd.a" ]; then
    with ldc2 typed_d
else
    skip typed_d "the D package is not built: there was no D compiler"
fi
if [ -e /usr/include/gc/gc.h ] && [ -e "$prefix/lib/neap/libgc.so.1" ]; then
    result typed_libgc typed_libgc
else
    skip typed_libgc "no gc.h"
fi
if command -v chromium chromium-browser google-chrome >/dev/null; then
    result page page
    result axes axes
    # with_package FOLDER PACKAGE TEST: the test, if the package can be had.
    with_package() {
        if command -v npm >/dev/null && fetch "$1" "$2"; then
            result "$3" "$3"
        else
            skip "$3" "no npm, or its registry cannot be reached"
        fi
    }
    with_package viewer "$viewer" trace_is_read
    with_package checker "$checker" page_is_readable
else
    skip page "no Chromium"
    skip axes "no Chromium"
    skip trace_is_read "no Chromium"
    skip page_is_readable "no Chromium"
fi
exit "$failed"
