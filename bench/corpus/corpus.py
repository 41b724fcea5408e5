#!/usr/bin/env python3
# Real programs on the system's libgc and on Neap, in turn: wall time, processor time, peak memory,
# longest stop, cycles. Policy is decided on all of them together, never on one.
#
# Usage: corpus.py [--rounds N] [--only PATTERN]... [--processors N]
#                  [--with NAME=VALUE[,NAME=VALUE]]... [--library LABEL=FOLDER]...
#                  [--json FILE] [--markdown FILE] [--svg FILE]
# The programs are the clients of tests/clients and those beside this file, each a script `run`
# that takes `--build`. Contestants: libgc, neap, and one more for each --with (Neap with
# these variables) and each --library (another libgc.so.1). Prints a row of medians as ratios to
# libgc for each program, and geometric means. Called by `make bench BENCH=corpus`.
# Invariant: contestants take turns; a program whose output differs between them is an error.
import argparse
import fnmatch
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = [*ROOT.glob("tests/clients/*/run"), *ROOT.glob("bench/corpus/*/run")]
FIGURES = ("wall", "processor", "peak")


def environment(contestant, summary):
    """The surroundings of one run: nothing of the caller's options reaches it."""
    values = {name: value for name, value in os.environ.items()
              if not name.startswith(("NEAP_", "GC_", "LD_", "CLIENT_"))}
    values.update(contestant["variables"])
    if contestant["folder"]:
        values["LD_LIBRARY_PATH"] = contestant["folder"]
    if summary:
        values["NEAP_SUMMARY"] = summary
    return values


def run(script, contestant, processors):
    """One run: its figures and what it printed."""
    # time(1) is small: what a process was before it executed the program counts as its peak.
    with tempfile.NamedTemporaryFile() as measured:
        command = ["/usr/bin/time", "-q", "-f", "%M", "-o", measured.name, str(script)]
        began = time.monotonic()
        status, usage, printed = execute(command, processors, environment(contestant, None))
        return {"wall": time.monotonic() - began,
                "processor": usage.ru_utime + usage.ru_stime,
                "peak": int(open(measured.name).read()) / 1024, "status": status}, printed


def cycles(script, contestant, processors):
    """What the library says of another run: by itself, since to write it takes code into memory.
    A client that says nothing did not run on it, and has no ratio."""
    with tempfile.NamedTemporaryFile() as summary:
        status, _, _ = execute([str(script)], processors, environment(contestant, summary.name))
        try:
            said = json.load(open(summary.name))
            return {"cycles": said["cycles"], "longest_ms": said["pauses_ms"]["max"]}
        except (ValueError, KeyError):
            sys.exit(f"{script.parent.name} on {contestant['label']}: no summary, status {status}")


def execute(command, processors, variables):
    if processors:
        command = ["taskset", "-c", ",".join(map(str, range(processors)))] + command
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=variables)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage, printed


def measure(scripts, contestants, rounds, processors):
    """Medians by program and contestant."""
    found = {}
    for script in scripts:
        name = script.parent.name
        if subprocess.run([str(script), "--build"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL).returncode:
            print(f"{name}: cannot be built or is not installed, left out", file=sys.stderr)
            continue
        runs = {contestant["label"]: [] for contestant in contestants}
        outputs = {}
        for _ in range(rounds):
            for contestant in contestants:
                figures, printed = run(script, contestant, processors)
                if figures["status"]:
                    sys.exit(f"{name} on {contestant['label']}: status {figures['status']}")
                if outputs.setdefault(name, printed) != printed:
                    sys.exit(f"{name} on {contestant['label']}: prints something else")
                if contestant["folder"]:
                    figures.update(cycles(script, contestant, processors))
                runs[contestant["label"]].append(figures)
        found[name] = {label: {key: statistics.median(one[key] for one in all_ if key in one)
                               for key in all_[0]} for label, all_ in runs.items()}
        row = found[name]
        print(f"{name:22}", "  ".join(
            f"{label} {ratios(row, label)}" for label in list(row)[1:]), flush=True)
    return found


def ratios(row, label):
    base, ours = row["libgc"], row[label]
    text = "/".join(f"{ours[key] / max(base[key], 0.01):.2f}" for key in FIGURES)
    stop = f" {ours['longest_ms']:.1f} ms" if "longest_ms" in ours else ""
    return f"{text} ({base['wall']:.2f} s, {base['peak']:.0f} MB{stop}, {ours.get('cycles', 0):.0f})"


def summarized(found, label):
    """Geometric mean and worst of each figure."""
    out = {}
    for key in FIGURES:
        all_ = [row[label][key] / max(row["libgc"][key], 0.01) for row in found.values()]
        out[key] = (math.exp(statistics.mean(map(math.log, all_))), max(all_))
    return out


def table(found, labels):
    """The results as Markdown."""
    lines = ["| program | libgc: s, MB |" + "".join(
        f" {label}: wall / processor / memory | longest stop ms | cycles |" for label in labels),
        "| --- | --- |" + " --- | --- | --- |" * len(labels)]
    for name, row in sorted(found.items()):
        base = row["libgc"]
        cells = ""
        for label in labels:
            ours = row[label]
            three = " / ".join(f"{ours[key] / max(base[key], 0.01):.2f}" for key in FIGURES)
            cells += f" {three} | {ours.get('longest_ms', float('nan')):.1f} |"
            cells += f" {ours.get('cycles', 0):.0f} |"
        lines.append(f"| {name} | {base['wall']:.2f}, {base['peak']:.0f} |{cells}")
    for which, index in (("geometric mean", 0), ("worst", 1)):
        cells = ""
        for label in labels:
            means = summarized(found, label)
            cells += " " + " / ".join(f"{means[key][index]:.2f}" for key in FIGURES) + " | | |"
        lines.append(f"| **{which}** | |{cells}")
    return "\n".join(lines) + "\n"


def scatter(found, label):
    """Memory against processor time, a dot for each program, both as ratios to libgc's."""
    size, margin, most = 480, 50, 2.5
    place = lambda ratio: margin + min(ratio, most) / most * (size - 2 * margin)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" '
             'font-family="sans-serif" font-size="10">',
             f'<rect width="{size}" height="{size}" fill="white"/>']
    for ratio in (0.5, 1.0, 1.5, 2.0, 2.5):
        x, y = place(ratio), size - place(ratio)
        stroke = "#888" if ratio == 1.0 else "#ddd"
        parts.append(f'<path d="M{x} {margin}V{size - margin}M{margin} {y}H{size - margin}" '
                     f'stroke="{stroke}" fill="none"/>')
        parts.append(f'<text x="{x - 8}" y="{size - margin + 14}">{ratio}</text>'
                     f'<text x="{margin - 22}" y="{y + 3}">{ratio}</text>')
    for name, row in sorted(found.items()):
        base, ours = row["libgc"], row[label]
        x = place(ours["processor"] / max(base["processor"], 0.01))
        y = size - place(ours["peak"] / base["peak"])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#2266aa" fill-opacity="0.6">'
                     f"<title>{name}</title></circle>"
                     f'<text x="{x + 5:.1f}" y="{y - 4:.1f}" fill="#555">{name}</text>')
    parts.append(f'<text x="{size / 2 - 70}" y="{size - 12}">processor time, libgc = 1</text>')
    parts.append(f'<text transform="translate(14 {size / 2 + 60}) rotate(-90)">'
                 "peak memory, libgc = 1</text></svg>")
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description="real programs on libgc and on Neap")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--processors", type=int, default=0)
    parser.add_argument("--with", action="append", default=[], dest="settings")
    parser.add_argument("--library", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--svg")
    asked = parser.parse_args()
    folder = str(ROOT / "build/lib/neap")
    contestants = [{"label": "libgc", "folder": None, "variables": {}},
                   {"label": "neap", "folder": folder, "variables": {}}]
    for setting in asked.settings:
        variables = dict(part.split("=", 1) for part in setting.split(","))
        for name in variables:
            if not name.startswith(("NEAP_", "GC_")):
                parser.error(f"--with {setting}: {name} is no variable of Neap's, NEAP_*")
        contestants.append({"label": setting, "folder": folder, "variables": variables})
    for library in asked.library:
        label, where = library.split("=", 1)
        contestants.append({"label": label, "folder": where, "variables": {}})
    wanted = asked.only or ["*"]
    scripts = [script for script in sorted(PROGRAMS)
               if any(fnmatch.fnmatch(script.parent.name, pattern) for pattern in wanted)]
    if not scripts:
        sys.exit(f"corpus.py: no program matches {wanted}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = measure(scripts, contestants, asked.rounds, asked.processors)
    if not found:
        sys.exit("corpus.py: nothing was measured, see above for why")
    labels = [contestant["label"] for contestant in contestants[1:]]
    for label in labels:
        means = summarized(found, label)
        print(f"# {label}: " + ", ".join(
            f"{key} {mean:.2f} (worst {worst:.2f})" for key, (mean, worst) in means.items()))
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(found, indent=1))
    if asked.markdown:
        pathlib.Path(asked.markdown).write_text(table(found, labels))
    if asked.svg:
        pathlib.Path(asked.svg).write_text(scatter(found, "neap"))


if __name__ == "__main__":
    main()
