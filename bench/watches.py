#!/usr/bin/env python3
# The tables of docs/watches.md, from what was measured, as Markdown. What each watch costs is
# measured now, by build/bin/neap doctor --measure, RUNS times (3), medians; the rest are medians of
# the results in bench/results (or in FILE), which `make bench BENCH=watches` writes. What has not
# been measured is a dash. Usage: bench/watches.py [--costs RUNS] [FILE]
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def row(*cells):
    print("| " + " | ".join(cells) + " |")


def heading(*cells):
    row(*cells)
    row(*("---" for _ in cells))


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def costs(runs):
    """Lines of `neap doctor --measure` end in five columns of numbers or dashes, after the watch's name and the pages' size."""
    found = {}
    for _ in range(runs):
        said = subprocess.run([ROOT / "build/bin/neap", "doctor", "--measure"],
                              capture_output=True, text=True, check=True).stdout
        for line in said.splitlines():
            words = line.split()
            if len(words) == 8 and words[2] in ("KiB", "MiB"):
                found.setdefault((words[0], " ".join(words[1:3])), []).append(words[3:])
    heading("", "pages", "protect 1 GiB", "ask, nothing written", "1/64 written", "all written", "first write to a page")
    for (watch, pages), lines in found.items():
        cells = []
        for column, unit in zip(zip(*lines), ["ms"] * 4 + ["µs"]):
            measured = [float(word) for word in column if word != "-"]
            cells.append(f"{number(statistics.median(measured))} {unit}" if measured else "–")
        row(f"`{watch}`", pages, *cells)
    print()


def median(experiment, label, field):
    contestants = experiment["contestants"] if experiment else []
    values = [sample[field] for one in contestants if one["label"] == label
              for sample in one["samples"] if field in sample]
    return statistics.median(values) if values else None


def pauses(experiments):
    """A row for each contestant, a cell for each size: longest stop, longest operation, operations a second, peak memory."""
    by_size = [experiments.get(f"watches-{size}") for size in ("200m", "1g", "4g")]
    labels = dict.fromkeys(one["label"] for experiment in by_size if experiment
                           for one in experiment["contestants"])
    heading("", "200 MB live", "1 GB live", "4 GB live")
    for label in labels:
        cells = []
        for experiment in by_size:
            values = [median(experiment, label, field) for field in ("longest_pause_ms", "operation_us.max", "operations_per_second", "peak_mb")]
            scales = (1, 1000, 1000, 1)
            stop, operation, rate, peak = (
                "–" if value is None else number(value / scale)
                for value, scale in zip(values, scales))
            cells.append(f"{stop} ms; {operation} ms; {rate}; {peak} MB" if experiment else "–")
        row(f"`{label}`" if "," not in label and label != "libgc" else label, *cells)
    print()


def huge_pages(experiments):
    """A row for each watch and policy: what marking an object takes, and what a program notices."""
    noticed, marked = experiments.get("watches-huge-pages"), experiments.get("watches-huge-marking")
    heading("", "huge pages", "mark an object", "longest stop", "longest operation", "thousand operations a second", "peak memory")
    for one in (noticed or marked or {"contestants": []})["contestants"]:
        label = one["label"]
        watch, pages = label.split(", huge pages: ")
        cells = []
        for experiment, field, scale, unit in (
                (marked, "ns_per_object", 1, " ns"), (noticed, "longest_pause_ms", 1, " ms"),
                (noticed, "operation_us.max", 1e-3, " ms"),
                (noticed, "operations_per_second", 1e-3, ""), (noticed, "peak_mb", 1, " MB")):
            value = median(experiment, label, field)
            cells.append("–" if value is None else number(value * scale) + unit)
        row(f"`{watch}`", pages, *cells)


def main():
    parser = argparse.ArgumentParser(description="Print the tables of docs/watches.md.")
    parser.add_argument("--costs", type=int, default=3, metavar="RUNS", help="how often to measure what each watch costs; 0: not at all")
    parser.add_argument("file", nargs="?", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.costs:
        costs(arguments.costs)
    files = [pathlib.Path(arguments.file)] if arguments.file else sorted((ROOT / "bench/results").glob("*.json"))
    experiments = {}
    for file in files:
        # One row is one machine's: the newest record has it. Other programs' records have none.
        named = {one["name"]: one for one in json.loads(file.read_text()).get("experiments", [])}
        if any(name.startswith("watches") for name in named):
            experiments = named
    pauses(experiments)
    huge_pages(experiments)


main()
