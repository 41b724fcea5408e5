#!/bin/bash
# Tests of what a running program shows of its memory: the live page by `neap top` and
# `neap metrics`, probes. Usage: tests/observe/run.sh. PREFIX=DIR tests another installation. Called
# by tools/test.sh.
# shellcheck disable=SC2317,SC2016 # functions are called by name; backquotes are Markdown's
. "$(dirname "$0")/../lib.sh"
begin observe
neap=$prefix/bin/neap
# Debian's own, which has Debian's modules, also where another one comes first.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
client=

# start ARGUMENT…: starts the client; its process is $client, its input stays open until stop.
start() {
    coproc CLIENT { exec env "${environment[@]}" "$out/client" "$@"; }
    read -r -t 60 word client <&"${CLIENT[0]}" && [ "$word" = ready ]
}
stop() {
    local process=$CLIENT_PID
    eval "exec ${CLIENT[1]}>&-"
    wait "$process"
}
environment=(NEAP_MIN_TRIGGER=256K "NEAP_STATS=$out/recording")
rm -f "$out/recording"

cc -O1 -g -Wall -Wextra -Werror -I"$prefix/include" tests/observe/client.c -o "$out/client" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" \
    -lneap -pthread >"$out/output" 2>&1 || {
    sed 's/^/# /' "$out/output"
    echo "not ok - observe/the client builds"
    exit 1
}

# Rows of a look, and figures that move: bytes are handed out and cycles run while somebody looks.
top_shows_figures() {
    timeout 30 "$neap" top --batch --count 3 --interval 0.3 "$client" | tee "$out/top" || return 1
    grep -q "^neap top: process $client (client)" "$out/top" &&
        [ "$(grep -c '^threads *1$' "$out/top")" = 3 ] && grep -q '^allocation  *[0-9.]* [KM]iB/s' "$out/top" &&
        [ "$(sed -n 's/^cycles *\([0-9]*\),.*/\1/p' "$out/top" | sort -nu | wc -l)" -gt 1 ]
}
top_draws() {
    timeout 30 script -qec "stty cols 110 rows 30; '$neap' top --count 3 --interval 0.2 $client" "$out/typescript" </dev/null >/dev/null || return 1
    # What was drawn, without the positions.
    sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' "$out/typescript" >"$out/drawn"
    cat "$out/drawn"
    grep -aq "until the next cycle" "$out/drawn" && grep -aq "stopped, *to" "$out/drawn" && grep -aq $'\x1b\[?1049l' "$out/typescript"
}
top_says_what_is_wrong() {
    local said
    said=$("$neap" top $$ 2>&1) && return 1
    [[ $said == *"does not run on Neap"* ]] || return 1
    said=$("$neap" top 4194304 2>&1) && return 1
    [[ $said == *"there is no process 4194304"* ]]
}
metrics_agree_with_the_process() {
    "$neap" metrics "$client" | tee "$out/metrics" || return 1
    [ "$(tail -n 1 "$out/metrics")" = "# EOF" ] && grep -q "^neap_threads{pid=\"$client\",program=\"client\"} 1$" "$out/metrics" &&
        [ "$(sed -n 's/^neap_cycles_total{.*} //p' "$out/metrics")" -gt 0 ]
}
# The reference parser of OpenMetrics takes it.
metrics_parse() {
    "$python" - "$out/metrics" <<'END'
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
text = open(sys.argv[1]).read()
families = {family.name: family for family in text_string_to_metric_families(text)}
stops = families["neap_pause_seconds"]
assert stops.type == "histogram" and stops.unit == "seconds", stops
count = [sample.value for sample in stops.samples if sample.name == "neap_pause_seconds_count"]
assert count[0] >= families["neap_cycles"].samples[0].value > 0, stops
assert families["neap_used_bytes"].samples[0].value > 1000 * 100
print(len(families), "families")
END
}
# The file is there as long as both processes are.
metrics_file() {
    rm -f "$out"/file.prom*
    "$neap" metrics --file "$out/file.prom" --every 1 "$client" &
    local server=$! turns=100 last
    until [ -s "$out/file.prom" ] || [ $((turns--)) = 0 ]; do sleep 0.05; done
    sleep 1.5
    last=$(tail -n 1 "$out/file.prom")
    kill "$server"
    wait "$server" 2>/dev/null
    [ $? = 143 ] && [ "$last" = "# EOF" ] && [ -z "$(ls "$out"/file.prom* 2>/dev/null)" ] || return 1
    # Of a process that ends long before the next writing.
    NEAP_VISIBLE=1 "$out/client" < <(exec sleep 3) >"$out/ready" 2>&1 &
    local process=$!
    turns=100
    until [ -s "$out/ready" ] || [ $((turns--)) = 0 ]; do sleep 0.05; done
    timeout 30 "$neap" metrics --file "$out/file.prom" --every 20 "$process" &
    server=$! turns=20
    until [ -s "$out/file.prom" ] || [ $((turns--)) = 0 ]; do sleep 0.05; done
    [ -s "$out/file.prom" ] || return 1
    local began=$SECONDS
    wait "$process"
    wait "$server" && [ $((SECONDS - began)) -lt 10 ] && [ ! -e "$out/file.prom" ]
}
metrics_socket() {
    # One that a server left which was killed is in nobody's way.
    rm -f "$out/socket"
    "$python" -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$out/socket"
    "$neap" metrics --socket "$out/socket" "$client" &
    local server=$! status
    "$python" - "$out/socket" <<'END'
import socket, sys, time
for turn in range(100):
    reader = socket.socket(socket.AF_UNIX)
    reader.settimeout(10)
    try:
        reader.connect(sys.argv[1])
        break
    except OSError:
        time.sleep(0.05)
reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: neap\r\n\r\n")
said = b""
while part := reader.recv(65536):
    said += part
assert said.startswith(b"HTTP/1.1 200 OK") and b"openmetrics-text" in said and said.endswith(b"# EOF\n"), said
END
    status=$?
    kill "$server"
    wait "$server" 2>/dev/null
    [ $? = 143 ] && [ ! -e "$out/socket" ] && return "$status"
}

# Prometheus scrapes it by HTTP, and the dashboard asks for what is there.
prometheus_scrapes() {
    rm -rf "$out/prometheus" "$out/url"
    "$neap" metrics --listen 127.0.0.1:0 "$client" >"$out/url" &
    local server=$! status turns=100
    until [ -s "$out/url" ] || [ $((turns--)) = 0 ]; do sleep 0.05; done
    "$python" tests/observe/prometheus.py "$(cat "$out/url")" client "$out"
    status=$?
    kill "$server"
    wait "$server" 2>/dev/null
    return "$status"
}

if start; then
    result "top prints the figures of a running process" top_shows_figures
    result "top draws on a terminal and gives it back" top_draws
    result "metrics are the process's" metrics_agree_with_the_process
    if "$python" -c 'import prometheus_client.openmetrics.parser' 2>/dev/null; then
        result "metrics are OpenMetrics" metrics_parse
    else
        skip "metrics are OpenMetrics" "python3-prometheus-client is not installed"
    fi
    result "metrics in a file" metrics_file
    result "metrics on a socket" metrics_socket
    if command -v prometheus >/dev/null; then
        result "Prometheus scrapes what the dashboard shows" prometheus_scrapes
    else
        skip "Prometheus scrapes what the dashboard shows" "prometheus is not installed"
    fi
    result "the client was not disturbed" stop
else
    echo "not ok - observe/the client starts"
    failed=1
fi
result "top says what is wrong" top_says_what_is_wrong

# The recording of that client as a trace: spans of cycles and stops that lie where they can.
traced() {
    "$neap" export --trace "$out/trace.json" "$out/recording" && "$python" - "$out/trace.json" <<'END'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
spans = [event for event in events if event["ph"] == "X"]
assert all(span["ts"] >= 0 and span["dur"] >= 0 for span in spans)
by_track = {}
for span in spans:
    by_track.setdefault(span["tid"], []).append(span)
names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
for track in by_track.values():
    track.sort(key=lambda span: (span["ts"], -span["dur"]))
    open_spans = []
    for span in track:
        while open_spans and open_spans[-1]["ts"] + open_spans[-1]["dur"] <= span["ts"] + 0.001:
            open_spans.pop()
        if open_spans:
            last = open_spans[-1]
            assert span["ts"] + span["dur"] <= last["ts"] + last["dur"] + 0.001, (last, span)
        open_spans.append(span)
tracks = {names[track]: spans for track, spans in by_track.items()}
# The client may end inside a cycle.
cycles = [cycle for cycle in tracks["cycles"] if not cycle["args"].get("unfinished")]
stops = tracks["stops"]
assert "neap: runs cycles" in tracks or "client" in tracks, tracks.keys()
assert len(cycles) > 5 and len(stops) >= len(cycles), (len(cycles), len(stops))
# One that the only thread asks for stops nobody.
last = [cycle for cycle in cycles if cycle["args"]["longest_stop_ns"]][-1]
begin, end = last["ts"] - 1, last["ts"] + last["dur"] + 1000
assert any(begin <= stop["ts"] and stop["ts"] + stop["dur"] <= end for stop in stops), last
assert last["args"]["live_bytes"] > 0
print(len(cycles), "cycles,", len(stops), "stops")
END
}
not_a_recording() {
    local said
    said=$("$neap" export --trace "$out/none.json" tests/observe/client.c 2>&1) && return 1
    echo "$said"
    [[ $said == *"not a recording"* ]] && [ ! -e "$out/none.json" ]
}
result "a recording becomes a trace" traced
result "what is no recording is refused" not_a_recording
environment=(NEAP_MIN_TRIGGER=256K)

# A snapshot shows the whole list, typed nodes and texts, and neither the garbage nor anything that
# is not there.
snapshot() {
    "$out/client" snapshot "$out/graph.heapsnapshot" && "$python" - "$out/graph.heapsnapshot" <<'END'
import json, sys
file = json.load(open(sys.argv[1]))
fields = len(file["snapshot"]["meta"]["node_fields"])
nodes = [file["nodes"][at:at + fields] for at in range(0, len(file["nodes"]), fields)]
assert len(nodes) == file["snapshot"]["node_count"]
names = [file["strings"][node[1]] for node in nodes]
assert len({node[2] for node in nodes}) == len(nodes)
starts, at = [], 0
for node in nodes:
    starts.append(at)
    at += node[4]
assert at * 3 == len(file["edges"]) == file["snapshot"]["edge_count"] * 3
def children(index):
    edges = range(starts[index], starts[index] + nodes[index][4])
    return [file["edges"][3 * edge + 2] // fields for edge in edges]
listed = [index for index, name in enumerate(names) if name.startswith("layout")]
assert len(listed) == 1000, len(listed)
texts = [child for index in listed for child in children(index) if names[child].startswith("leaf")]
assert len(set(texts)) == 1000, len(set(texts))
reached, waiting = {0}, [0]
while waiting:
    for child in children(waiting.pop()):
        if child not in reached:
            reached.add(child)
            waiting.append(child)
assert len(reached) == len(nodes), (len(reached), len(nodes))
assert names.count("conservative, 4096 bytes") == 0
END
}
# A parser that others wrote opens it, and counts the same: 1,000 nodes in cells of 32 bytes, 1,000
# texts in cells of 112.
snapshot_parses() {
    tools/with-rust.sh cargo run --quiet --package neap-observe-tests -- "$out/graph.heapsnapshot" >"$out/parsed" || return 1
    cat "$out/parsed"
    grep -q '^1000 32000 layout' "$out/parsed" && grep -q '^1000 112000 leaf, 112 bytes' "$out/parsed" &&
        [ "$(sed -n 's/^retained //p' "$out/parsed")" -ge 144000 ]
}
no_snapshot() {
    local said
    said=$("$out/client" snapshot "$out/no/such/folder" 2>&1) && return 1
    [[ $said == *"No such file or directory"* ]]
}
result "a heap snapshot shows the live graph" snapshot
result "a parser of heap snapshots opens it" snapshot_parses
result "a snapshot that cannot be written says why" no_snapshot

# What keeps objects alive, under each watch; once with the sites of allocations.
kept_alive() {
    env NEAP_WATCH="$1" NEAP_MIN_TRIGGER=256K "${@:2}" \
        "$out/client" graph "$out/old.heapsnapshot" "$out/new.heapsnapshot" || return 1
    "$python" tests/observe/heap.py "$neap" "$out/old.heapsnapshot" "$out/new.heapsnapshot" \
        ${2:+sites}
}
for watch in none pagemap fork mprotect snapshot; do
    result "heap says what keeps objects alive, watch=$watch" kept_alive "$watch"
done
result "heap knows allocation sites" kept_alive auto NEAP_SAMPLE=1 "NEAP_STATS=$out/kept"

# Where few are sampled, each stands for as many as in the report and the profile of the same run.
estimated() {
    local raw=
    rm -f "$out/estimated"
    env NEAP_MIN_TRIGGER=256K NEAP_SAMPLE=64 "NEAP_STATS=$out/estimated" \
        "$out/client" graph "$out/some.heapsnapshot" "$out/new.heapsnapshot" &&
        "$neap" export "$out/estimated" --pprof "$out/estimated.pb.gz" || return 1
    if command -v go >/dev/null; then
        raw=$out/estimated.raw
        PPROF_TMPDIR=$out go tool pprof -raw "$out/estimated.pb.gz" >"$raw" || return 1
    fi
    "$python" tests/observe/sites.py "$neap" "$out/some.heapsnapshot" "$out/estimated" "$raw"
}
result "heap estimates by allocation site as the report and pprof do" estimated

tests/observe/heap-of-process.sh || failed=1

# By HTTP: the figures, and the sites as Go's programs serve theirs.
serves() {
    local server status=1 turns=100 address
    rm -f "$out/address"
    "$neap" metrics --listen 127.0.0.1:0 "$client" >"$out/address" &
    server=$!
    until [ -s "$out/address" ] || [ $((turns--)) = 0 ]; do sleep 0.05; done
    address=$(sed 's|/metrics$||' "$out/address")
    # The first sites are in the recording half a second after the start.
    sleep 1
    curl -sSf "$address/metrics" >"$out/served" && tail -n 1 "$out/served" | grep -qx '# EOF' &&
        curl -sSf "$address/debug/pprof/heap" >"$out/heap.gz" &&
        curl -sSf "$address/debug/pprof/allocs" >"$out/allocs.gz" &&
        ! curl -sSf "$address/else" 2>/dev/null &&
        ! curl -sSf "$address/debug/pprof/heap?seconds=x" 2>/dev/null &&
        curl -sSf -I "$address/debug/pprof/heap" | grep -q '^HTTP/1.1 200' &&
        curl -sSf "$address/debug/pprof/heap?debug=1" | grep -q '^allocation sites' &&
        curl -sSf "$address/debug/pprof/allocs?seconds=1" >"$out/changes.gz" &&
        gunzip -t "$out/heap.gz" "$out/allocs.gz" && status=0
    if [ $status = 0 ] && command -v go >/dev/null; then
        # Which of its values it shows first is the profile's own say.
        PPROF_TMPDIR=$out go tool pprof -top "$out/heap.gz" >"$out/heap.top" &&
            PPROF_TMPDIR=$out go tool pprof -top "$out/allocs.gz" >"$out/allocs.top" &&
            grep -q '^Type: inuse_space' "$out/heap.top" && grep -q ' main$' "$out/heap.top" &&
            PPROF_TMPDIR=$out go tool pprof -top "$out/changes.gz" >"$out/changes.top" &&
            grep -q '^Type: alloc_space' "$out/allocs.top" &&
            grep -q '^Duration: 1s' "$out/changes.top" || status=1
        # A profile is of the moment at which it was asked for.
        local age=$(($(date +%s) - $(date -d "$(sed -n 's/^Time: //p' "$out/allocs.top")" +%s)))
        [ "$age" -lt 60 ] || status=1
        cat "$out/heap.top" "$out/allocs.top" "$out/changes.top"
    fi
    kill "$server"
    wait "$server" 2>/dev/null
    return "$status"
}
rm -f "$out/sites"
environment+=(NEAP_SAMPLE=16KiB "NEAP_STATS=$out/sites")
if ! command -v curl >/dev/null; then
    skip "metrics and profiles by HTTP" "no curl"
elif start; then
    result "metrics and profiles by HTTP" serves
    stop
fi

# What threads allocate that end before they have reported much is seen, and cycles come for it;
# and their stacks begin with the program's own function.
threads() {
    coproc THREADS { exec env "NEAP_STATS=$out/threads.stats" NEAP_SAMPLE=16KiB "$out/threads"; }
    local process=$THREADS_PID input=${THREADS[1]} status=1
    read -r -t 60 word _ <&"${THREADS[0]}" && [ "$word" = ready ] &&
        "$neap" top --batch --count 1 "$process" | tee "$out/top" &&
        grep -Eq '^allocation .* (9[0-9]\.[0-9]|1[01][0-9]) MiB since the start$' "$out/top" &&
        [ "$(sed -n 's/^cycles *\([0-9]*\),.*/\1/p' "$out/top")" -ge 10 ] && status=0
    eval "exec $input>&-"
    wait "$process" || return 1
    return $status
}
thread_starts() {
    local frame
    "$neap" report --json "$out/threads.stats" >"$out/threads.json" &&
        "$neap" export --pprof "$out/threads.pb.gz" "$out/threads.stats" &&
        "$python" - "$out/threads.json" <<'END' || return 1
import json, sys
sites = json.load(open(sys.argv[1]))["sites"]
stacks = [site["frames"] for site in sites if any("work" in frame for frame in site["frames"])]
assert stacks, sites
for stack in stacks:
    work = next(at for at, frame in enumerate(stack) if frame.startswith("work"))
    outer = stack[work + 1] if len(stack) > work + 1 else ""
    assert "libgc" not in outer and "neap" not in outer and not outer.startswith("begin"), stack
print(len(stacks), stacks[0])
END
    command -v go >/dev/null || return 0
    PPROF_TMPDIR=$out go tool pprof -traces "$out/threads.pb.gz" >"$out/traces" || return 1
    grep -q ' work$' "$out/traces" || return 1
    ! grep -E ' (begin|neap_.*start)$' "$out/traces"
}
if compile threads cc -O1 -g -Wall -Wextra -Werror -I"$prefix/include/neap" tests/observe/threads.c -o "$out/threads" \
    -L"$prefix/lib/neap" -Wl,-rpath,"$prefix/lib/neap" -lgc -pthread; then
    rm -f "$out/threads.stats"
    result "what threads allocate that soon end is seen" threads
    result "stacks begin with the program's function" thread_starts
fi

# The view of a program that allocates next to nothing, from the start on: what it waits for first,
# then its figures, for as long as it runs.
top_of_a_small_program() {
    timeout 60 script -qec "stty cols 110 rows 30; '$neap' run --top -- sh -c 'exit 3'" "$out/typescript" </dev/null >/dev/null
    [ $? = 2 ] || { echo "a program without libgc is refused"; return 1; }
    timeout 60 script -qec "stty cols 110 rows 30; '$neap' run --top -- '$out/small' 1" "$out/typescript" </dev/null >/dev/null
    [ $? = 7 ] || { echo "another status than the program's"; return 1; }
    sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' "$out/typescript" | tr -d ' ' >"$out/drawn"
    cat "$out/drawn"
    # What is drawn anew leaves out what is there already.
    grep -aq 'hasnotusedthecollectoryet;waitingforthat' "$out/drawn" && grep -aq 'nocycleyet' "$out/drawn" &&
        grep -aq 'smallsaysthis' "$out/drawn"
}
# What a program starts and leaves behind is not waited for, and writes on.
top_leaves_what_goes_on() {
    local began=$SECONDS
    timeout 60 script -qec "stty cols 110 rows 30; '$neap' run --any --top -- \
        sh -c '(sleep 1; echo writes on; sleep 20) & echo it says this; exit 3'; status=\$?; sleep 2; exit \$status" \
        "$out/typescript" </dev/null >/dev/null
    [ $? = 3 ] && [ $((SECONDS - began)) -lt 15 ] && grep -aq 'it says this' "$out/typescript" && grep -aq 'writes on' "$out/typescript"
}
# Of one that nobody asked to be seen it is said that it runs on Neap, and what to do.
small_says_what_to_do() {
    local command said process status=0
    "$neap" run -- "$out/small" 0 >/dev/null &
    process=$!
    sleep 0.7
    for command in top metrics heap; do
        said=$("$neap" "$command" "$process" 2>&1) && status=1
        echo "$said"
        [[ $said == *"runs on Neap"*"neap run --visible -- PROGRAM"* ]] || status=1
    done
    wait "$process"
    return $status
}
if compile small cc -O1 -Wall -Wextra -Werror -I"$prefix/include/neap" tests/observe/small.c -o "$out/small" \
    -L"$prefix/lib/neap" -lgc; then
    result "neap run --top of a program that allocates next to nothing" top_of_a_small_program
    result "neap run --top waits for its program alone" top_leaves_what_goes_on
    result "a small program that nobody sees says what to do" small_says_what_to_do
fi

# A child of fork() has a page of its own.
forked() {
    "$neap" top --batch --count 2 --interval 0.2 "$client" | grep "process $client"
}
if start fork; then
    result "a forked child has its own page" forked
    stop
fi

if [ -r "$prefix/lib/libneap.so" ]; then
    list() { bpftrace -l "usdt:$1:*"; }
    notes() { readelf -n "$1" | sed -n 's/^ *Name: //p' | sort -u; }
    wanted=$(sed -n '/^## Steps/,/^## Stops/s/^| [0-9]* | `\([a-z_]*\)`.*/\1/p' docs/events.md)
    probes() {
        local found name
        found=$(notes "$1")
        echo "$found"
        for name in cycle cycle_start before_stop stopped mark_start mark_end resumed; do
            grep -qx "$name" <<<"$found" || { echo "there is no probe $name"; return 1; }
        done
        # Nothing is there that is not documented.
        for name in $found; do [ "$name" = cycle ] || grep -qx "$name" <<<"$wanted" || return 1; done
    }
    listed() {
        list "$1" | tee "$out/listed" || return 1
        grep -q ":neap:cycle$" "$out/listed" && grep -q ":neap:stopped$" "$out/listed"
    }
    for library in "$prefix/lib/libneap.so" "$prefix/lib/neap/libgc.so.1"; do
        library=$(realpath "$library")
        result "probes of $(basename "$library")" probes "$library"
        if command -v bpftrace >/dev/null && [ "$(id -u)" = 0 ]; then
            result "bpftrace lists the probes of $(basename "$library")" listed "$library"
        else
            skip "bpftrace lists the probes of $(basename "$library")" "it needs bpftrace and root"
        fi
    done
fi
exit "$failed"
