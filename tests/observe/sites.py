# Asks `neap heap` of a snapshot of `client graph`, of which one byte in some was sampled, what is
# alive by allocation site: about as much as there is, and to the byte what `neap report` and the
# pprof profile say of the recording of that run. Usage: sites.py NEAP SNAPSHOT RECORDING PPROF,
# with PPROF what `go tool pprof -raw` says of the profile, or nothing. Called by run.sh.
import json
import re
import subprocess
import sys

neap, snapshot, recording, raw = sys.argv[1:5]
MADE = "make_graph (client.c:"


def said(*words):
    return subprocess.run([neap, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


rows = [row for row in json.loads(said("heap", "--json", snapshot))["sites"]
        if row["name"].startswith(MADE)]
heap = sorted((row["sizes"]["objects"], row["sizes"]["bytes"]) for row in rows)
sites = [site for site in json.loads(said("report", recording, "--json"))["sites"]
         if site["frames"][0].startswith(MADE)]
report = sorted((site["live"]["objects"], site["live"]["bytes"]) for site in sites)
print(heap, report, sum(row["samples"] for row in rows), "samples")
# 1,000 nodes of 24 bytes and 1,000 texts of 100, about.
for objects, size in heap:
    assert 700 <= objects <= 1300 and round(size / objects) in (24, 100), heap
assert len(heap) == 2 and heap == report, (heap, report)
assert sum(row["samples"] for row in rows) < 1500, "nearly all were sampled"
text = said("heap", snapshot)
assert re.search(r"^objects by allocation site \(about: estimated from samples, one in 64 B\)$", text, re.M), text
for objects, _ in heap:
    assert f" ~{objects:,} " in text, text
if raw:
    # Samples of the profile: allocated and in use, objects and bytes, then the places' numbers.
    lines = open(raw).read().splitlines()
    functions = {}
    for line in lines[lines.index("Locations") + 1:]:
        if found := re.match(r" *(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(\S+)", line):
            functions[found[1]] = found[2]
    values = []
    for line in lines:
        found = re.match(r" *\d+ +\d+ +(\d+) +(\d+): (\d+)", line)
        if found and functions[found[3]] == "make_graph":
            values.append((int(found[1]), int(found[2])))
    assert sorted(values) == heap, (values, heap)
