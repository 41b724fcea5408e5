# Has Debian's Prometheus scrape `neap metrics --listen`, and asks it every question of the
# dashboard: each is to have an answer for the program.
#
# Usage: prometheus.py URL PROGRAM FOLDER. FOLDER is for what Prometheus keeps. Called by run.sh.

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

address = urllib.parse.urlparse(sys.argv[1])
program, folder = sys.argv[2], Path(sys.argv[3])
DASHBOARD = json.loads(Path("tools/grafana-dashboard.json").read_text())
PATIENCE_SECONDS = 60


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def answer(server, question):
    """How many series there are, whose values are numbers."""
    query = urllib.parse.urlencode({"query": question})
    with urllib.request.urlopen(f"{server}/api/v1/query?{query}", timeout=10) as said:
        series = json.load(said)["data"]["result"]
    for one in series:
        assert one["metric"]["program"] == program, one
    return sum(one["value"][1] != "NaN" for one in series)


def questions():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            question = target["expr"].replace("$__rate_interval", "10s")
            yield re.sub(r"\$(program|pid)", ".+", question)


settings = folder / "prometheus.yml"
settings.write_text(
    "scrape_configs:\n- job_name: neap\n  scrape_interval: 1s\n"
    f"  metrics_path: {address.path}\n  static_configs:\n  - targets: ['{address.netloc}']\n"
)
server = f"http://127.0.0.1:{free_port()}"
prometheus = subprocess.Popen([
    "prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder / 'prometheus'}",
    f"--web.listen-address={server.removeprefix('http://')}", "--log.level=warn",
])
try:
    waiting = list(questions())
    assert len(waiting) > 8, waiting
    deadline = time.monotonic() + PATIENCE_SECONDS
    while waiting and time.monotonic() < deadline:
        time.sleep(1)
        try:
            waiting = [question for question in waiting if answer(server, question) == 0]
        except urllib.error.URLError:
            assert prometheus.poll() is None, "Prometheus ended"
    assert not waiting, f"without an answer: {waiting}"
finally:
    prometheus.terminate()
    prometheus.wait(30)
