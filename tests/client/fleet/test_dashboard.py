"""The dashboard: each of its queries, evaluated by a real Prometheus over the figures that `lakewarden metrics` prints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.client.fleet_metrics import metrics_text
from tests.fixtures.lakes import make_notes, notes
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port, unavailable

_DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana.json"


def _queries() -> list[str]:
    found: list[dict[str, Any]] = json.loads(_DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in found for target in panel["targets"]]


@pytest.fixture
def text(tmp_path: Path) -> str:
    with Lakehouse.open(str(tmp_path / "warehouse")) as lake:
        table = make_notes(lake)
        table.write(notes({1: "a"}), user="ann")
        lake.flush()
        return metrics_text(lake.fleet())


@pytest.mark.disk
def test_each_query_reads_families_that_are_printed(text: str) -> None:
    printed = set(re.findall(r"^(lakewarden_\w+)\{", text, re.MULTILINE))
    read = {name for query in _queries() for name in re.findall(r"lakewarden_\w+", query)}
    assert len(read) > 10
    assert read <= printed


class _Figures(BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # http.server calls it so
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.server.text.encode())  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def prometheus(text: str, tmp_path: Path) -> Iterator[httpx.Client]:
    program = shutil.which("prometheus")
    if program is None:
        unavailable("prometheus", "there is no Prometheus: install the package prometheus")
    figures, port = ThreadingHTTPServer(("127.0.0.1", 0), _Figures), free_port()
    figures.text = text  # type: ignore[attr-defined]
    Thread(target=figures.serve_forever, daemon=True).start()
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: lakewarden, static_configs:"
        f" [{{targets: ['127.0.0.1:{figures.server_port}']}}]}}]\n"
    )
    places = [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    command = [program, f"--config.file={config}", *places]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
                _await_scrapes(client)
                yield client
        finally:
            process.terminate()
            figures.shutdown()
            figures.server_close()


def _await_scrapes(client: httpx.Client) -> None:
    """Two of them: a rate needs that."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            found = client.get("/api/v1/query", params={"query": "count_over_time(lakewarden_files[1m])"}).json()["data"][
                "result"
            ]
        except (httpx.HTTPError, KeyError, ValueError):
            found = []
        if found and int(found[0]["value"][1]) > 1:
            return
        time.sleep(0.2)
    raise AssertionError("Prometheus scraped nothing")


@pytest.mark.slow
@pytest.mark.disk
def test_a_real_prometheus_answers_each_query(prometheus: httpx.Client) -> None:
    for query in _queries():
        answer = prometheus.get("/api/v1/query", params={"query": query}).json()
        assert (answer["status"], bool(answer["data"]["result"])) == ("success", True), (query, answer)
