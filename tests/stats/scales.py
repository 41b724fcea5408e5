# Draws a recording's page as if the run had been of other sizes: heaps of kilobytes to gibibytes,
# stops of microseconds to seconds, runs of milliseconds to hours. Each axis has labels at round
# numbers that have room. Usage: scales.py BROWSER PAGE.html FOLDER. Called by run.sh.
import html
import json
import re
import subprocess
import sys

browser, page, folder = sys.argv[1:]
with open(page) as file:
    text = file.read()
DATA = re.compile(r'(<script id="data"[^>]*>)(.*?)(</script>)', re.S)
# What is on each axis, and how much room there is for it.
LOOK = """<script>
const axes = [...document.querySelectorAll(".plot svg")].flatMap(svg => ["x", "y"].map(kind => {
  const ticks = [...svg.querySelectorAll(".tick-" + kind)], all = svg.getBoundingClientRect();
  const boxes = ticks.map(tick => tick.getBoundingClientRect());
  return { plot: svg.parentElement.id, kind, labels: ticks.map(tick => tick.textContent),
    cut: boxes.some(box => box.left < all.left - 1),
    over: kind === "x" && boxes.some((box, at) => at > 0 && box.left < boxes[at - 1].right) };
}));
document.body.dataset.found = JSON.stringify(axes);
</script>"""
KIB, MIB, GIB = 1024, 1024 ** 2, 1024 ** 3
MS, SECOND, HOUR = 10 ** 6, 10 ** 9, 3600 * 10 ** 9
ROUND = re.compile(r"0|\d+(\.\d{1,4})?( [KMGT]|( [KMGT]i)?B| ns| µs| ms| s| (min|h|d)( \d+ (s|min|h))?)?")


def sized(data, heap, stop, run):
    """The page's data with this largest heap, this longest stop and this length of the run."""
    over = data["series"]
    sizes = [cycle.get(name, 0) for cycle in over["cycles"]
             for name in ("committed_bytes", "live_bytes")]
    heap_factor = heap / max(sizes)
    stop_factor = stop / max(one[1] for one in over["stops"])
    run_factor = run / max(moment[0] for moment in over["moments"])
    for one in over["stops"]:
        one[0], one[1] = one[0] * run_factor, max(1, round(one[1] * stop_factor))
    for cycle in over["cycles"]:
        for name in cycle:
            if name.endswith("_bytes"):
                cycle[name] = round(cycle[name] * heap_factor)
        cycle["ended_ns"] *= run_factor
    for moment in over["moments"]:
        moment[0], moment[2] = moment[0] * run_factor, round(moment[2] * heap_factor)
    for row in over["census"]:
        for name in ("live_bytes", "block_bytes"):
            row[name] = round(row[name] * heap_factor)
    return data


for heap, stop, run, wanted in (
    (12 * KIB, 4000, 3 * MS, {"memory": "KiB", "stops": "µs", "requests": "ms"}),
    (1.5 * MIB, 40_000, 900 * MS, {"memory": "512 KiB", "stops": "µs", "requests": "ms"}),
    (1.1 * MIB, 3 * MS, 70 * SECOND, {"memory": "1 MiB", "stops": "ms", "requests": "10 s"}),
    (700 * MIB, 200 * MS, HOUR, {"memory": "MiB", "stops": "ms", "requests": "10 min"}),
    (9 * GIB, 7 * SECOND, 30 * HOUR, {"memory": "2 GiB", "stops": " s", "requests": "6 h"}),
):
    data = sized(json.loads(DATA.search(text)[2]), heap, stop, run)
    held = json.dumps(data).replace("<", "\\u003c")
    with open(f"{folder}/scaled.html", "w") as file:
        file.write(DATA.sub(lambda found: found[1] + held + found[3], text).replace(
            "</body>", LOOK + "</body>"))
    dom = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser",
         "--window-size=1300,2200", "--dump-dom", f"file://{folder}/scaled.html"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=50).stdout
    axes = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', dom)[1]))
    axes = [axis for axis in axes if axis["labels"]]
    assert len(axes) >= 9, axes
    for axis in axes:
        assert len(axis["labels"]) > 1 and not axis["cut"] and not axis["over"], axis
        assert len(set(axis["labels"])) == len(axis["labels"]), axis
        assert all(ROUND.fullmatch(label) for label in axis["labels"]), axis
    for plot, part in wanted.items():
        kind = "x" if plot == "requests" else "y"
        labels = next(axis["labels"] for axis in axes if (axis["plot"], axis["kind"]) == (plot, kind))
        print(plot, labels)
        assert any(part in label for label in labels), (plot, part, labels)
