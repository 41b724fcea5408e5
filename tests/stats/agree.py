# Compares what everything says of the stops of one run: the summary, the report as text, JSON, CSV
# and a page, the trace, and, taken when the program had come to rest, the metrics and `neap top`.
# Where there is each stop, each is compared; where there are percentiles or a histogram, these are
# the stops' own, within a bucket.
# Usage: agree.py NEAP FOLDER [inside], with FOLDER/summary, recording, metrics and top; `inside`:
# the run ended inside a cycle. Called by run.sh.
import collections
import csv
import io
import json
import math
import re
import subprocess
import sys

neap, folder = sys.argv[1:3]


def said(*words):
    return subprocess.run([neap, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def read(name):
    with open(f"{folder}/{name}") as file:
        return file.read()


recording = f"{folder}/recording"
found = {}

# Count, all together, longest, 99 of 100, half: in nanoseconds.
pauses = json.loads(read("summary"))["pauses_ms"]
found["summary"] = [pauses["count"]] + [
    round(pauses[name] * 1e6) for name in ("total", "max", "p99", "p50")
]

report = json.loads(said("report", recording, "--json"))
names = ("count", "total_ns", "max_ns", "p99_ns", "p50_ns")
found["report --json"] = [report["stops"][name] for name in names]
assert sum(report["stops"]["kinds"].values()) == report["stops"]["count"], report["stops"]
statistics = report["statistics"]
names = ("count", "total_ns", "max_ns", "p99_ns", "p50_ns")
found["report --json, statistics"] = [statistics["pause_" + name] for name in names]
assert report["lost_events"] == 0 and report["problems"] == [], report["problems"]


def of(lengths):
    return [len(lengths), sum(lengths), max(lengths)]


stops = list(csv.DictReader(io.StringIO(said("report", recording, "--csv", "stops"))))
lengths = sorted(int(stop["length_ns"]) for stop in stops)
found["report --csv stops"] = of(lengths)
by_kind = collections.Counter(stop["kind"] for stop in stops)
assert by_kind == {kind: count for kind, count in report["stops"]["kinds"].items() if count}, by_kind


def is_percentile(part, shown):
    """Whether this is the length that so many stops do not exceed, rounded up to the end of its
    bucket (an eighth of it at most) but not beyond the longest; in nanoseconds, of tenths of a
    microsecond."""
    exact = lengths[max(math.ceil(len(lengths) * part), 1) - 1]
    return exact - 100 <= shown <= min(exact + exact / 8 + 16, lengths[-1]) + 100


def same_stops(name, others):
    """Whether these are the stops of the table, each to a microsecond: kind, cycle, begin, length
    in nanoseconds, and the thread where it is told."""
    assert len(others) == len(stops), (name, len(others), len(stops))
    wanted = sorted(stops, key=lambda stop: (int(stop["began_ns"]), int(stop["length_ns"])))
    for stop, other in zip(wanted, sorted(others, key=lambda other: (other[2], other[3]))):
        kind, cycle, began, length = other[:4]
        assert (kind, cycle) == (stop["kind"], int(stop["cycle"])), (name, stop, other)
        assert abs(began - int(stop["began_ns"])) < 1000, (name, stop, other)
        assert abs(length - int(stop["length_ns"])) < 1000, (name, stop, other)
        assert other[4:] in ((), (int(stop["thread"]),)), (name, stop, other)


cycles = list(csv.DictReader(io.StringIO(said("report", recording, "--csv", "cycles"))))
found["report --csv cycles"] = [
    sum(int(cycle["stops"]) for cycle in cycles),
    sum(int(cycle["stops_ns"]) for cycle in cycles),
    max(int(cycle["longest_stop_ns"]) for cycle in cycles),
]
found["report --json, cycles"] = [
    sum(cycle["stops"] for cycle in report["cycles"]),
    sum(cycle["stops_ns"] for cycle in report["cycles"]),
    max(cycle["longest_stop_ns"] for cycle in report["cycles"]),
]
# Row by row, too; times of a cycle that did not end are in both or in neither.
for row, cycle in zip(cycles, report["cycles"], strict=True):
    known = {name: int(value) for name, value in row.items() if value and name != "unfinished"}
    assert known == {name: cycle[name] for name in known}, (row, cycle)
    assert all(name in known or cycle.get(name) is None for name in row if name != "unfinished")
# A cycle that did not end says so, and what it did not come to is not there.
cut = [cycle for cycle in cycles if cycle["unfinished"] == "1"]
if sys.argv[3:] == ["inside"]:
    assert len(cut) == 1 and cut[0] == cycles[-1] and int(cut[0]["stops"]) > 0, cut
    assert cut[0]["ended_ns"] == cut[0]["live_bytes"] == "", cut
for cycle in cycles:
    own = [int(stop["length_ns"]) for stop in stops if stop["cycle"] == cycle["number"]]
    assert of(own) == [int(cycle[name]) for name in ("stops", "stops_ns", "longest_stop_ns")], cycle

subprocess.run([neap, "export", recording, "--trace", f"{folder}/trace.json"], check=True)
trace = json.loads(read("trace.json"))["traceEvents"]
drawn = [event for event in trace if event.get("cat") == "stop"]
found["export --trace"] = of([round(stop["dur"] * 1000) for stop in drawn])
same_stops("export --trace", [
    (stop["name"], stop["args"]["cycle"], round(stop["ts"] * 1000), round(stop["dur"] * 1000),
     stop["args"]["thread"]) for stop in drawn])
spans = {event["args"]["number"]: event for event in trace if event.get("cat") == "cycle"}
assert len(spans) == len(cycles) == len(report["cycles"]), (len(spans), len(cycles))
for stop in drawn:
    cycle = spans[stop["args"]["cycle"]]
    assert cycle["ts"] <= stop["ts"], (cycle, stop)
    assert stop["ts"] + stop["dur"] <= cycle["ts"] + cycle["dur"] + 0.001, (cycle, stop)

subprocess.run([neap, "report", recording, "--html", f"{folder}/page.html"], check=True)
page = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', read("page.html"), re.S)
page = json.loads(page.group(1))
found["page"] = [page["summary"]["stops"][name] for name in
                 ("count", "total_ns", "max_ns", "p99_ns", "p50_ns")]
points = [(kind, cycle, ended - length, length) for ended, length, kind, cycle
          in page["series"]["stops"]]
if len(stops) <= 4000:
    same_stops("page", points)
else:
    # Of neighbours the longest.
    table = {(stop["kind"], *(int(stop[name]) for name in ("cycle", "began_ns", "length_ns")))
             for stop in stops}
    assert len(points) == 4000 and table.issuperset(points), len(points)

metrics = dict(re.findall(r"^(neap_pause\w+)\{[^}]*\} (\S+)$", read("metrics"), re.M))
found["metrics"] = [int(metrics["neap_pause_seconds_count"])] + [
    round(float(metrics[name]) * 1e9) for name in ("neap_pause_seconds_sum", "neap_pause_max_seconds")
]

# How many stops there are up to each bound; one that is as long as the bound lies on either side.
buckets = re.findall(r'^neap_pause_seconds_bucket\{[^}]*le="([^"]*)"[^}]*\} (\S+)$', read("metrics"),
                     re.M)
assert len(buckets) > 5 and buckets[-1] == ("+Inf", str(len(stops))), buckets
for bound, count in buckets:
    bound = float(bound) * 1e9
    shorter = sum(length < bound - 0.5 for length in lengths)
    assert shorter <= int(count) <= sum(length <= bound + 0.5 for length in lengths), (bound, count)

# As people read them.
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}


def near(shown, value):
    number, unit = shown.split()
    decimals = len(number.partition(".")[2])
    return abs(float(number) - value / UNITS[unit]) <= 0.51 * 10 ** -decimals


# In nanoseconds; the summary has tenths of a microsecond.
wanted = found["report --json"]
text = said("report", recording)
assert (": cycle " + cut[0]["number"] + ", in which the recording ends, with "
        + cut[0]["stops"] if cut else "all together") in text, text
line = re.search(r"^  stops +([\d,]+), longest (.*?), 99 of 100 at most (.*?), half at most (.*?), "
                 r"all together (.*?) \(", text, re.M)
top = re.search(r"^stops +(\d+), median (.*?), 99 % (.*?), longest (.*?);", read("top"), re.M)
for name, count, shown in (
    ("report", line[1], {2: line[2], 3: line[3], 4: line[4], 1: line[5]}),
    ("top", top[1], {4: top[2], 3: top[3], 2: top[4]}),
):
    assert int(count.replace(",", "")) == wanted[0], (name, count, wanted)
    for place, value in shown.items():
        assert near(value, wanted[place]), (name, place, value, wanted)

for name, figures in found.items():
    for part, shown in zip((0.99, 0.5), figures[3:]):
        assert is_percentile(part, shown), (name, part, shown, lengths)
    assert figures[0] == wanted[0], (name, figures, wanted)
    assert all(abs(a - b) < 1000 for a, b in zip(figures, wanted)), (name, figures, wanted)
assert wanted[0] > 2, "hardly any stop"
