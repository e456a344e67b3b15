"""What the pages of a table with 15,000 users cost Dagster's servers: in a real browser, on this commit and on an earlier one.

    python -m benchmarks.deployment.pages ../before [USERS]

For each page: its requests of GraphQL, the bytes of their answers, and the processor time of the webserver and its code server
within twelve seconds. The commits take turns, medians count. Prints JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.error import URLError

import psutil

from benchmarks.deployment import booked
from tests.fixtures.chromium import start_browser
from tests.fixtures.dagster import on_postgres
from tests.fixtures.postgres import serve_postgres
from tests.fixtures.servers import free_port

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_ASSET = "/assets/" + booked.TABLE.replace(".", "/")
PAGES = {
    "asset": f"{_ASSET}?view=overview",
    "its partitions": f"{_ASSET}?view=partitions",
    "one partition": f"{_ASSET}?view=partitions&partition=u000007",
    "its events": f"{_ASSET}?view=events",
    "catalog": "/assets",
    "lineage": "/asset-groups",
}
ROUNDS = 3
_WATCHED = 12.0
"""Seconds: a page never comes to rest, it asks again and again whether there is something new."""
_REQUESTS = """
return performance.getEntriesByType('resource').filter(one => one.name.includes('/graphql')).map(one => one.encodedBodySize)
"""

Load = tuple[float, float, float]
"""Requests, bytes of their answers, and seconds of the servers' processor time."""


@dataclass(frozen=True)
class Side:
    """The servers of one commit."""

    url: str
    webserver: psutil.Process

    def spent(self) -> float:
        """Seconds of processor time of the webserver and of what it started."""
        taken = 0.0
        for process in (self.webserver, *self.webserver.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                taken += times.user + times.system
        return taken

    def load(self, browser: "Chrome", path: str) -> Load:
        spent = self.spent()
        browser.get(self.url + path)
        time.sleep(_WATCHED)
        sizes = browser.execute_script(_REQUESTS)
        return len(sizes), sum(sizes), self.spent() - spent


def main(before: str, users: int) -> None:
    checkouts = {"before": Path(before).resolve(), "now": Path(__file__).parents[2]}
    found: dict[str, dict[str, list[Load]]] = {page: {name: [] for name in checkouts} for page in PAGES}
    with tempfile.TemporaryDirectory(prefix="lakewarden-pages-") as root, ExitStack() as stack:
        sides = {name: stack.enter_context(_served(checkout, Path(root) / name, users)) for name, checkout in checkouts.items()}
        browser = start_browser()
        stack.callback(browser.quit)
        for number in range(1 + ROUNDS):
            for page, path in PAGES.items():
                for name, side in sides.items():
                    load = side.load(browser, path)
                    if number:  # the first fills caches
                        found[page][name].append(load)
    pages = {page: {name: _medians(loads) for name, loads in of.items()} for page, of in found.items()}
    sys.stdout.write(json.dumps(pages, indent=1) + "\n")


def _medians(loads: list[Load]) -> list[float]:
    return [median(one) for one in zip(*loads, strict=True)]


@contextmanager
def _served(checkout: Path, place: Path, users: int) -> Iterator[Side]:
    """A webserver over `users` partitions, each of which has been flushed and booked once, on Postgres."""
    place.mkdir()
    lake, home, python = str(place / "lake"), str(place / "home"), str(checkout / ".venv" / "bin" / "python")
    environment = {
        **os.environ,
        "PYTHONPATH": ".",
        "PYTHONWARNINGS": "ignore",
        "DAGSTER_HOME": home,
        "LAKEWARDEN_WAREHOUSE": lake,
    }
    with serve_postgres() as server, on_postgres(place / "home", server), (place / "log").open("wb") as log:
        filling = [python, booked.__file__, str(users), "--into", lake, home]
        subprocess.run(filling, check=True, cwd=checkout, env=environment, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{(port := free_port())}"
        serving = [python, "-m", "dagster_webserver", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
        with subprocess.Popen(serving, cwd=checkout, env=environment, stdout=log, stderr=log) as process:
            try:
                while not _answers(url):
                    assert process.poll() is None, (place / "log").read_text()[-2_000:]
                    time.sleep(0.5)
                yield Side(url, psutil.Process(process.pid))
            finally:
                process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info") as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15_000)
