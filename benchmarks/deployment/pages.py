"""How long the pages of a table with 15,000 users take to load: in a real browser, on this commit and on an earlier one.

    python -m benchmarks.deployment.pages ../before [USERS]

For each page: the seconds from its opening until it shows what it is for; then its requests of GraphQL, and the processor time
of the webserver and its code server, both within six seconds. The commits take turns. Rewrites docs/performance.md if it is
15,000 users; prints its table in any case.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.error import URLError

import psutil

from benchmarks.__main__ import PAGE
from benchmarks.deployment import booked
from benchmarks.measuring.page import Section, Table, rewrite
from benchmarks.measuring.timing import spread
from tests.fixtures.chromium import start_browser
from tests.fixtures.dagster import on_postgres
from tests.fixtures.postgres import serve_postgres
from tests.fixtures.servers import free_port

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_ASSET = "/assets/" + booked.TABLE.replace(".", "/")
_FULL = 15_000


@dataclass(frozen=True)
class Page:
    """A page, and a text that stands on it when its last part has come; `{users}` is their number."""

    path: str
    shows: str


PAGES = {
    "overview": Page("/overview", "compact_job"),
    "asset": Page(f"{_ASSET}?view=overview", "dagster/partition_row_count"),
    "its partitions": Page(f"{_ASSET}?view=partitions", "u000007"),
    "one partition": Page(f"{_ASSET}?view=partitions&partition=u000007", "/u000007"),
    "its events": Page(f"{_ASSET}?view=events", "flush: done"),
    "its checks": Page(f"{_ASSET}?view=checks", "log_and_table_agree"),
    "catalog": Page("/assets", "{users} partitions"),
    "lineage": Page("/locations/lakewarden/asset-groups/bench/lineage", "{users} partitions"),
}
_ROUNDS = 5
_WATCHED = 6.0
"""Seconds: a page never comes to rest, it asks again and again whether there is something new."""
_LOADS_WITHIN = 300.0

_WATCH = """
const shows = %s, seen = setInterval(() => {
  if (document.body && document.body.innerText.includes(shows)) { window.shownAt = performance.now(); clearInterval(seen) }
}, 10)
"""
"""Runs in each page before its own scripts."""
_SHOWN_AT = "return window.shownAt || null"
_REQUESTS = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/graphql')).length"


@dataclass(frozen=True)
class Load:
    """Seconds until the page showed its text, requests, and seconds of the servers' processor time."""

    shown: float
    requests: int
    spent: float


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

    def load(self, browser: "Chrome", page: Page, users: int) -> Load:
        watch = {"source": _WATCH % json.dumps(page.shows.format(users=f"{users:,}"))}
        script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", watch)["identifier"]
        spent, began = self.spent(), time.monotonic()
        browser.get(self.url + page.path)
        time.sleep(max(0.0, _WATCHED - (time.monotonic() - began)))
        load = Load(_shown_at(browser), browser.execute_script(_REQUESTS), self.spent() - spent)
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})
        return load


def _shown_at(browser: "Chrome") -> float:
    """Seconds from the page's opening until its text was there."""
    deadline = time.monotonic() + _LOADS_WITHIN
    while (shown := browser.execute_script(_SHOWN_AT)) is None:
        assert time.monotonic() < deadline, browser.execute_script("return document.body.innerText")
        time.sleep(0.1)
    return float(shown) / 1_000


def main(before: str, users: int) -> None:
    section = Section("pages", "full" if users == _FULL else f"of {users:,} users")
    checkouts = {"before": Path(before).resolve(), "now": Path(__file__).parents[2]}
    found: dict[str, dict[str, list[Load]]] = {page: {name: [] for name in checkouts} for page in PAGES}
    with tempfile.TemporaryDirectory(prefix="lakewarden-pages-") as root, ExitStack() as stack:
        sides = {name: stack.enter_context(_served(checkout, Path(root) / name, users)) for name, checkout in checkouts.items()}
        browser = start_browser()
        stack.callback(browser.quit)
        for number in range(1 + _ROUNDS):
            for name, page in PAGES.items():
                for commit, side in sides.items():
                    load = side.load(browser, page, users)
                    if number:  # the first fills caches
                        found[name][commit].append(load)
    section.tables.append(
        Table(
            f"Pages of a table with {users:,} users on Postgres in Chromium, before (2cf77bf) and now: from the opening until the"
            f" page shows what it is for, the median of {_ROUNDS} loads in alternation, with the extremes; then requests of"
            f" GraphQL and processor time of the webserver and its code server, in {_WATCHED:.0f} seconds, medians. Target: not"
            " slower.",
            ("page", "before", "now", "requests before", "now", "processor time before", "now"),
            [(name, *_compared(of["before"], of["now"])) for name, of in found.items()],
        )
    )
    now = datetime.now(UTC)
    print(section.text(now))
    if users == _FULL:
        rewrite(PAGE, section, now)


def _compared(before: Sequence[Load], now: Sequence[Load]) -> Iterator[str]:
    sides = (before, now)
    yield from (spread([load.shown for load in side]) for side in sides)
    yield from (f"{median(load.requests for load in side):.0f}" for side in sides)
    yield from (f"{median(load.spent for load in side):.2f} s" for side in sides)


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
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else _FULL)
