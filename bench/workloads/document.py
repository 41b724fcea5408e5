#!/usr/bin/env python3
# Writes the figures and graphs of docs/allocation-patterns.md from what `replay` prints and
# `neap report` says. Usage: document.py PATTERNS REPORTS REPLAYED…: PATTERNS is patterns-2010.json;
# REPORTS a folder with PROGRAM.json, what `neap report --json` says of each replay on neap.h; each
# REPLAYED is LABEL=FILE with lines of replay's JSON. The text between the markers of the document
# is replaced, and docs/allocation-patterns-*.svg are drawn. Called by `make -C bench document`.
import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- replayed: begin -->\n", "<!-- replayed: end -->\n"
COLOURS = ["#9aa5b1", "#616e7c", "#e0a458", "#3e7cb1", "#1b998b", "#7d4f9e", "#c44536", "#2f3e46"]


def megabytes(count):
    return f"{count / 1e6:,.3f}" if count < 1e6 else f"{count / 1e6:,.1f}"


def wasted(line):
    return sum(line[use]["wasted_bytes"] for use in ("scanned", "not_scanned"))


def table(title, columns, programs, value):
    lines = [f"| {title} | " + " | ".join(name for name, _ in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for program in programs:
        lines.append(f"| {program} | " + " | ".join(megabytes(value(column, program)) for _, column in columns) + " |")
    sums = [sum(value(column, program) for program in programs) for _, column in columns]
    lines.append("| sum | " + " | ".join(megabytes(total) for total in sums) + " |")
    return "\n".join(lines) + "\n"


def begin_drawing(width, height, font_size, title):
    """The first lines of an SVG file; the last is `</svg>`."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="{font_size}">',
        f'<rect width="{width}" height="{height}" fill="white"/><text x="10" y="20" font-size="14">{title}</text>',
    ]


def graph(path, title, columns, programs, value):
    """Horizontal bars, a group for each program; each group has its own scale, since programs differ a thousandfold."""
    bar, gap, left, width = 16, 26, 90, 760
    height = 60 + len(programs) * (len(columns) * bar + gap)
    out = begin_drawing(width, height, 12, title)
    y = 40
    for program in programs:
        most = max(value(column, program) for _, column in columns) or 1
        out.append(f'<text x="10" y="{y + 12}" font-weight="bold">{program}</text>')
        for index, (name, column) in enumerate(columns):
            amount = value(column, program)
            length = max(1, (width - left - 300) * amount / most)
            out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 3}" fill="{COLOURS[index % len(COLOURS)]}"/>')
            out.append(f'<text x="{left + length + 6:.1f}" y="{y + 11}">{megabytes(amount)} MB, {name}</text>')
            y += bar
        y += gap
    out.append("</svg>")
    path.write_text("\n".join(out) + "\n")


def graph_by_bin(path, title, columns, bins):
    """A row of bars for each bin of each program; each program has its own scale. `columns` are names and functions of a program and a bin."""
    bar, gap, left, width = 9, 7, 90, 760
    rows = [(program, name) for program, names in bins.items() for name in names]
    height = 60 + len(rows) * (len(columns) * bar + gap) + len(bins) * 30
    legend = " · ".join(f'<tspan fill="{COLOURS[index]}">■</tspan> {name}' for index, (name, _) in enumerate(columns))
    out = begin_drawing(width, height, 11, title)
    out.append(f'<text x="10" y="38">{legend}</text>')
    y = 50
    for program, names in bins.items():
        most = max(value(program, name) for name in names for _, value in columns) or 1
        y += 24
        out.append(f'<text x="10" y="{y}" font-weight="bold">{program}</text>')
        y += 6
        for name in names:
            label = name if name == "pages" else f"≤ {name}"
            out.append(f'<text x="{left - 8}" y="{y + 9}" text-anchor="end">{label}</text>')
            for index, (_, value) in enumerate(columns):
                amount = value(program, name)
                length = max(0.5, (width - left - 110) * amount / most)
                out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 1}" fill="{COLOURS[index]}"/>')
                out.append(f'<text x="{left + length + 5:.1f}" y="{y + 8}" font-size="9">{megabytes(amount)} MB</text>')
                y += bar
            y += gap
    out.append("</svg>")
    path.write_text("\n".join(out) + "\n")


def draw_bins(patterns, reports):
    """What was requested in each bin, and what that wasted then and wastes now."""
    then = {program: {row["bin"]: row for row in pattern["requested"]["bins"]}
            for program, pattern in patterns.items()}
    now = {}
    for program, pattern in patterns.items():
        rows = json.load(open(reports / f"{program}.json"))["requested"]["bins"]
        now[program] = {row["bin"]: row for row in rows}
        for name, row in then[program].items():
            # replay has one array of its own, of whole pages.
            if name != "pages" and now[program][name]["bytes"] != row["bytes"]:
                sys.exit(f"{program}: the recording does not have the pattern's requests of up to {name} bytes")
    bins = {program: list(rows) for program, rows in then.items()}
    small = lambda rows: sum(name * row["objects"] - row["bytes"] for name, row in rows.items() if name != "pages")
    wasted_then = lambda program, name: (
        patterns[program]["conservative"]["wasted"] - small(then[program]) if name == "pages"
        else name * then[program][name]["objects"] - then[program][name]["bytes"])
    graph_by_bin(DOCS / "allocation-patterns-requested-by-bin.svg", "Bytes requested, by bin",
                 [("requested", lambda program, name: then[program][name]["bytes"])], bins)
    graph_by_bin(DOCS / "allocation-patterns-wasted-by-bin.svg", "Bytes wasted, by bin",
                 [("2010, conservative", wasted_then), ("neap.h", lambda program, name: now[program][name]["wasted"])], bins)


def main():
    patterns = json.load(open(sys.argv[1]))["programs"]
    draw_bins(patterns, pathlib.Path(sys.argv[2]))
    replayed = []
    for argument in sys.argv[3:]:
        label, file = argument.split("=", 1)
        lines = [json.loads(line) for line in open(file)]
        replayed.append((label, {line["pattern"]: line for line in lines if line["pattern"] in patterns}))
        lines = replayed[-1][1]
        if set(lines) != set(patterns) or not all(line["ok"] for line in lines.values()):
            sys.exit(f"{file}: not every pattern was replayed, or one did not come out")
    programs = list(patterns)
    then = [(f"2010, {mode}", {name: patterns[name][mode]["wasted"] for name in programs}) for mode in ("conservative", "precise")]
    now = [(label, {name: wasted(line) for name, line in lines.items()})
           for label, lines in replayed]
    columns = then + now
    value = lambda column, program: column[program]
    requested = [("requested", {name: patterns[name]["requested"]["bytes"] for name in programs})]
    text = table("wasted, MB (10⁶ bytes)", columns, programs, value)
    allocated = lambda column, program: column[program] + (
        0 if column is requested[0][1] else requested[0][1][program])
    text += "\n" + table("allocated, MB (10⁶ bytes)", requested + columns, programs, allocated)
    sums = {label: sum(column.values()) for label, column in columns}
    text += "\nParts of 2010's waste: " + "; ".join(
        f"{label} {sums[label] / sums['2010, precise' if 'typed' in label else '2010, conservative']:.3f}" for label, _ in now) + ".\n"
    graph(DOCS / "allocation-patterns-wasted.svg", "Bytes wasted over the life of each program", columns, programs, value)
    graph(DOCS / "allocation-patterns-allocated.svg", "Bytes requested, and allocated for them", requested + columns, programs, allocated)
    page = DOCS / "allocation-patterns.md"
    whole = page.read_text()
    before, rest = whole.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(before + BEGIN + text + END + after)


main()
