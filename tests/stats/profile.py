# Compares what `go tool pprof -top` says of a profile's functions with what the report says: bytes
# allocated in a function and what it called. Usage: profile.py REPORT.json TOP.txt. Called by
# run.sh.
import json
import sys

report = json.load(open(sys.argv[1]))
wanted = {}
for site in report["sites"]:
    for function in {frame.split(" (")[0] for frame in site["frames"]}:
        wanted[function] = wanted.get(function, 0) + site["allocated"]["bytes"]
found = {}
for line in open(sys.argv[2]):
    words = line.split(None, 5)
    if len(words) == 6 and words[4].endswith("%"):
        found[words[5].strip().removesuffix(" (inline)")] = float(words[3].removesuffix("B"))
print(wanted, found)
assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
# Sums of rounded sums.
assert all(abs(found[name] - wanted[name]) < 100 for name in wanted)
