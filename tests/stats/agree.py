# Compares what everything says of the stops of one run: the summary, the report as text, JSON, CSV
# and a page, the trace, and, taken when the program had come to rest, the metrics and `neap top`.
# Usage: agree.py NEAP FOLDER [inside], with FOLDER/summary, recording, metrics and top; `inside`:
# the run ended inside a cycle. Called by run.sh.
import csv
import io
import json
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
found["report --csv stops"] = of([int(stop["length_ns"]) for stop in stops])
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
assert len(page["series"]["stops"]) == min(len(stops), 4000), len(page["series"]["stops"])

metrics = dict(re.findall(r"^(neap_pause\w+)\{[^}]*\} (\S+)$", read("metrics"), re.M))
found["metrics"] = [int(metrics["neap_pause_seconds_count"])] + [
    round(float(metrics[name]) * 1e9) for name in ("neap_pause_seconds_sum", "neap_pause_max_seconds")
]

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
    assert figures[0] == wanted[0], (name, figures, wanted)
    assert all(abs(a - b) < 1000 for a, b in zip(figures, wanted)), (name, figures, wanted)
assert wanted[0] > 2, "hardly any stop"
