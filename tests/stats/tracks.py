# Looks at the trace of a program of many threads that allocate while cycles run: who marks has a
# track with spans in it, and each span and each stop lies within its cycle.
# Usage: tracks.py TRACE WATCH. Called by run.sh.
import collections
import json
import sys

trace, watch = sys.argv[1:]
with open(trace) as file:
    events = json.load(file)["traceEvents"]
names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
spans = [event for event in events if event["ph"] == "X"]
cycles = {span["args"]["number"]: span for span in spans if span["cat"] == "cycle"}
tracks = collections.defaultdict(collections.Counter)
for span in spans:
    tracks[span["tid"]][span["name"]] += 1
# Nanoseconds are thousandths.
ROUNDING = 0.001


def end(span):
    return span["ts"] + span["dur"]


def is_within(span, outer):
    return outer["ts"] - ROUNDING <= span["ts"] and end(span) <= end(outer) + ROUNDING


def meets(span, other):
    return span["ts"] <= end(other) + ROUNDING and other["ts"] <= end(span) + ROUNDING


for span in spans:
    cycle = cycles.get(span["args"].get("cycle"))
    if span["name"] == "in_collector":
        # Who waits for a cycle's end is woken after that; who finds nothing to do is in none.
        if cycle:
            assert meets(span, cycle), (span, cycle)
        else:
            assert not any(is_within(span, other) for other in cycles.values()), span
    elif span["cat"] != "cycle":
        assert cycle and is_within(span, cycle), (span, cycle)
for number, cycle in cycles.items():
    of_cycle = [span for span in spans if span["cat"] == "stop" and span["args"]["cycle"] == number]
    assert len(of_cycle) == cycle["args"]["stops"], (cycle, of_cycle)
    # The program may end before the first one.
    assert of_cycle or cycle["args"].get("unfinished"), cycle


def named(name):
    return [found for tid, found in tracks.items() if names[tid] == name]


for name, found in ((names[tid], found) for tid, found in tracks.items()):
    print(name, dict(found))
assert len(cycles) > 3, cycles
collector = named("neap: runs cycles")
assert len(collector) == 1 and collector[0]["mark"] > 3, collector
# The track of stops, which is no thread's, has the program's name too.
program = [found for found in named("stops") if "last_stop" not in found]
assert len(program) >= 12 and all(found["in_collector"] for found in program), program
# Also the first thread, which waits for the last cycle.
for tid, found in tracks.items():
    assert names[tid] in ("stops", "main thread") or not set(found) & {"in_collector", "assist"}
if watch == "fork":
    children = [span for span in spans if span["name"] == "forked_mark"]
    (track,) = named("marking, forked process")
    assert track == {"forked_mark": len(children)}, track
    by_child = [number for number, cycle in cycles.items() if cycle["args"]["concurrent"] == 2]
    assert len(by_child) > 3 and by_child == [child["args"]["cycle"] for child in children]
    # Its process is none that has another track, and ends before its marks are read.
    assert not {child["args"]["thread"] for child in children} & set(tracks), children
    for child in children:
        (mark,) = [span for span in spans if span["name"] == "mark"
                   and span["args"]["cycle"] == child["args"]["cycle"]]
        assert child["dur"] > 0 and end(child) <= end(mark) + ROUNDING, (child, mark)
else:
    helpers = named("neap: marks")
    assert helpers and all(set(found) == {"help"} for found in helpers), helpers
    assert sum(found["assist"] > 0 for found in program) > 1, program
