#!/usr/bin/env python3
# What docs/hosts.md says of Mono: each program on Mono's own collector (sgen), on its runtime for
# Boehm's collector as packaged, and on that runtime with Neap, in turn: medians, in Markdown.
# Usage: figures.py [--rounds N] [PROGRAM …]; run tests/hosts/run.sh before, which builds all but
# the programs that are here for their figures.
# Invariant: wall times are without the two seconds that a runtime for Boehm's collector waits at
# its end.
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
OUT = ROOT / "build/hosts"
FAREWELL = "Waiting on threads to park"
RUNTIMES = {"sgen": "mono-sgen", "bundled Boehm": "mono-boehm", "Neap": str(OUT / "mono")}
MCS = "/usr/lib/mono/4.5/mcs.exe"
PROGRAMS = {
    "hello": [OUT / "hello.exe"],
    "trees 18": [OUT / "trees.exe", "18"],
    "mcs, 2,000 lines": [MCS, f"-out:{OUT}/measured.exe", OUT / "generated.cs"],
    "mcs, 20,000 lines": [MCS, f"-out:{OUT}/measured.exe", OUT / "generated-long.cs"],
    "pauses 100 3": [OUT / "pauses.exe", "100", "3"],
    "pauses 400 2": [OUT / "pauses.exe", "400", "2"],
}


def build():
    subprocess.run(["mcs", f"-out:{OUT}/pauses.exe", ROOT / "tests/hosts/mono/pauses.cs"], check=True)
    with open(OUT / "generated-long.cs", "w", encoding="utf-8") as made:
        generate = ROOT / "tests/hosts/mono/generate.py"
        subprocess.run([generate, "--parts", "150"], stdout=made, check=True)


def run(runtime, arguments):
    """Seconds, seconds of processor time, peak in MB, and the longest time the program saw."""
    with tempfile.NamedTemporaryFile() as measured:
        command = ["/usr/bin/time", "-q", "-f", "%U %S %M", "-o", measured.name, runtime, *arguments]
        began = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        wall = time.monotonic() - began
        user, system, peak = open(measured.name, encoding="utf-8").read().split()
    if FAREWELL in done.stdout:
        wall -= 2
    longest = re.search(r"longest ([0-9.]+)", done.stdout)
    return (wall, float(user) + float(system), int(peak) / 1024,
            float(longest[1]) if longest else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    asked = parser.parse_args()
    if wrong := set(asked.programs) - set(PROGRAMS):
        sys.exit(f"figures.py: no program {', '.join(wrong)}")
    build()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEAP_")}
    os.environ.clear()
    os.environ.update(environment)
    for name in asked.programs or PROGRAMS:
        runs = {label: [] for label in RUNTIMES}
        for _ in range(asked.rounds):
            for label, runtime in RUNTIMES.items():
                runs[label].append(run(runtime, PROGRAMS[name]))
        cells = []
        for label in RUNTIMES:
            wall, processor, peak, longest = zip(*runs[label])
            median = statistics.median
            cell = f"{median(wall):.2f} / {median(processor):.2f} / {median(peak):.0f}"
            if longest[0] is not None:
                cell += f" / {statistics.median(longest):.1f}"
            cells.append(cell)
        print(f"| `{name}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
