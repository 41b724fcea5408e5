# Shows a recording's page in a frame of some widths, light and dark, and says whether it can be
# read there: nothing scrolls sideways, axes have labels at round numbers, text stands out, who does
# not see it finds names for pictures and controls. Keeps a picture of each.
# Usage: readable.py BROWSER AXE.js PAGE.html FOLDER. Called by run.sh.
import html
import json
import re
import subprocess
import sys
from pathlib import Path

browser, axe, page, folder = sys.argv[1:]
LOOK = """<script>AXE</script><script>
addEventListener("load", async () => {
  const labels = svg => kind => [...svg.querySelectorAll(".tick-" + kind)].map(tick => tick.textContent);
  const plots = [...document.querySelectorAll(".plot svg")];
  const found = await axe.run();
  parent.postMessage(JSON.stringify({
    inner: innerWidth, wide: document.documentElement.scrollWidth,
    ready: document.documentElement.dataset.ready,
    paper: getComputedStyle(document.body).backgroundColor,
    unnamed: plots.filter(svg => !svg.getAttribute("aria-label")).length,
    small: plots.flatMap(svg => [...svg.querySelectorAll("text")])
      .filter(text => text.getBoundingClientRect().height < 9).length,
    axes: plots.filter(svg => svg.querySelector(".tick-x")).map(svg => ["x", "y"].map(labels(svg))),
    wrong: found.violations.filter(one => ["critical", "serious"].includes(one.impact))
      .map(one => one.id + " " + one.nodes[0].html.slice(0, 90)),
  }), "*");
});</script>"""
WRAP = """<!doctype html><body style="margin:0"><script>
addEventListener("message", event => { document.body.dataset.found = event.data; });
</script><iframe style="border:0" width="%d" height="2000" src="look.html"></iframe>"""

with open(page) as file, open(axe) as script:
    text = file.read().replace("</body>", LOOK.replace("AXE", script.read()) + "</body>")
with open(f"{folder}/look.html", "w") as file:
    file.write(text)
for look in [(scheme, width) for scheme in ("light", "dark") for width in (400, 800, 1400)]:
    scheme, width = look
    with open(f"{folder}/wrap.html", "w") as file:
        file.write(WRAP % width)
    picture = Path(folder, f"{scheme}-{width}.png")
    picture.unlink(missing_ok=True)
    dom = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser",
         f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
         "--virtual-time-budget=8000", "--window-size=1500,2100", f"--screenshot={picture}",
         "--dump-dom", f"file://{folder}/wrap.html"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=100).stdout
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', dom)[1]))
    print(scheme, width, found)
    assert found["inner"] == width and found["ready"], "the page did not draw"
    assert found["wide"] <= width, "it scrolls sideways"
    assert found["unnamed"] == 0 and found["small"] == 0 and found["wrong"] == []
    brightness = sum(int(part) for part in re.findall(r"\d+", found["paper"])[:3]) / 3
    assert brightness > 200 if scheme == "light" else brightness < 50, "it has the other colours"
    # A page that draws nothing has a picture of a few kilobytes.
    assert picture.stat().st_size > 50000, picture
    assert len(found["axes"]) >= 6
    for horizontal, vertical in found["axes"]:
        assert len(horizontal) > 1 and len(vertical) != 1, (horizontal, vertical)
        for label in horizontal + vertical:
            assert re.fullmatch(r"\d+(\.\d{1,3})?( [A-Za-zµ]+)?", label), label
