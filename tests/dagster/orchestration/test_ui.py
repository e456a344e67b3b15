"""`lakewarden ui` in front of a real browser: what an operator sees and does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.catalog.model import Column
from lakewarden.dagster.assets.links import launchpad, restore_form
from lakewarden.dagster.mount import Mount
from lakewarden.lakehouse import Lakehouse
from lakewarden.scope import Scope, TableName
from tests.fixtures.chat import MESSAGES, contents, make_chat, write
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [*DAGSTER, pytest.mark.slow, pytest.mark.timeout(3600)]

_LAKEWARDEN = str(Path(sys.executable).with_name("lakewarden"))
TEN_RUNS = 10
"""So many are on a screen."""
_CHAT = "/locations/lakewarden/asset-groups/chat/lineage"
"""The graph of one group: the page of all assets shows only groups where there are several."""


@dataclass(frozen=True)
class Pages:
    """Dagster's pages over one warehouse, in a browser."""

    browser: Chrome
    url: str
    warehouse: str
    shots: Path

    def open(self, path: str) -> None:
        self.browser.get(f"{self.url}{path}")

    def until(self, seen: Callable[[str], bool], what: str, *, again: str | None = None) -> None:
        """Waits until the page's text is as `seen` wants it; `again` is opened anew meanwhile. Keeps a picture, named `what`."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        def look(browser: Chrome) -> bool:
            if again is not None:
                self.open(again)
                with_text = WebDriverWait(browser, 5, ignored_exceptions=[])
                try:
                    with_text.until(lambda page: seen(_text(page)))
                except TimeoutException:
                    return False
            return seen(_text(browser))

        try:
            WebDriverWait(self.browser, PATIENCE, poll_frequency=1).until(look)
        except TimeoutException:
            pytest.fail(f"waited in vain for {what}; the page says:\n{_text(self.browser)[:3_000]}", pytrace=False)
        finally:
            self.browser.save_screenshot(str(self.shots / f"{what}.png"))

    def click(self, button: str) -> None:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait

        by_text = (By.XPATH, f"//button[contains(., '{button}') and not(@disabled)]")
        WebDriverWait(self.browser, PATIENCE).until(lambda page: page.find_element(*by_text)).click()

    def launch(self, form: str, ends: str, what: str) -> None:
        """Launches a form that a link fills, and waits for the end of its run."""
        self.open(form)
        self.until(lambda text: "Launch Run" in text, f"{what}-form")
        self.click("Launch Run")
        self.until(lambda text: ends in text, what)

    def link(self, beginning: str) -> str:
        """The URL of a link on the page, by the beginning of what it shows."""
        from selenium.webdriver.common.by import By

        return str(self.browser.find_element(By.XPATH, f"//a[starts-with(., '{beginning}')]").get_attribute("href"))


def _text(browser: Chrome) -> str:
    return str(browser.execute_script("return document.body.innerText"))


@pytest.fixture(scope="module")
def pages(browser: Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    root = tmp_path_factory.mktemp("ui")
    warehouse, url, shots = str(root / "warehouse"), f"http://127.0.0.1:{(port := free_port())}", root / "shots"
    shots.mkdir()
    make_chat(warehouse)
    command = [_LAKEWARDEN, "ui", "--warehouse", warehouse, "--port", str(port), "--dagster-home", str(root / "home")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "vacuum_weekly only lists, until maintenance.scheduled_deletes is set" in process.stdout.readline()
            assert f"Dagster is at {url}, for {warehouse}" in process.stdout.readline()
            yield Pages(browser, url, warehouse, shots)
        finally:
            process.terminate()


def partition(user: str) -> str:
    return f"/assets/chat/messages?view=partitions&partition={user}"


def test_the_asset_graph_shows_the_tables(pages: Pages) -> None:
    pages.open(_CHAT)
    pages.until(lambda text: "messages" in text and "rooms" in text and "3 partitions" in text, "graph", again=_CHAT)


def test_a_partition_shows_its_history_though_nothing_ran_here(pages: Pages) -> None:
    shown = ("dagster/partition_row_count", "delta/version", "history", "timestamp", f"{pages.warehouse}/data/chat/messages/ada")
    pages.until(lambda text: all(word in text for word in shown), "history", again=partition("ada"))


def test_a_restore_is_launched_from_the_launchpad(pages: Pages) -> None:
    assert set(contents(pages.warehouse, "ada")) == {0, 1}
    pages.open("/locations/lakewarden/jobs/restore_job/playground")
    pages.until(lambda text: "Launch Run" in text and "dry_run" in text, "launchpad")
    form = {"table": MESSAGES, "user": "ada", "target": {"version": {"version": 0}}, "dry_run": False}
    editor = "document.querySelector('.CodeMirror').CodeMirror"
    pages.browser.execute_script(f"{editor}.setValue(JSON.stringify({{ops: {{restore: {{config: arguments[0]}}}}}}))", form)
    pages.click("Launch Run")
    pages.until(lambda text: "RUN_SUCCESS" in text, "restored-run")
    pages.until(lambda text: "restore" in text and "restore_job" in text, "restored", again=partition("ada"))
    assert set(contents(pages.warehouse, "ada")) == {0}


def form_of(user: str, to: int) -> str:
    """The form behind the link of a partition's page, with a version typed into it."""
    return restore_form(Mount(""), Scope(TableName.parse(MESSAGES), user)).replace("to:+%27%27", f"to:+{to}")


def test_a_restore_takes_two_runs(pages: Pages) -> None:
    pages.launch(form_of("eve", 0), "RUN_SUCCESS", "preview")
    apply = "/guess/restore_chat__messages/playground/setup?config=ops:"
    pages.until(lambda text: "goes" in text and "eve 1" in text and apply in text, "preview-rows")
    assert set(contents(pages.warehouse, "eve")) == {0, 1}
    pages.launch(pages.link(apply).removeprefix(pages.url), "RUN_SUCCESS", "applied")
    assert set(contents(pages.warehouse, "eve")) == {0}
    shown = ("2|", "restore", "flush", "timestamp")
    pages.until(lambda text: all(word.strip("|") in text for word in shown), "history-restored", again=partition("eve"))


def test_red_is_broken_and_ends_with_what_heals(pages: Pages) -> None:
    pages.launch(form_of("eve", 999), "RUN_FAILURE", "impossible")
    pages.until(lambda text: "delta/version" in text, "not-red", again=partition("eve"))
    assert "failed" not in _text(pages.browser)
    log = Path(pages.warehouse, "data/chat/messages/eve/_delta_log")
    torn = {path: path.read_bytes() for path in log.glob("*.json")}
    for path in torn:
        path.write_text("{")
    write(pages.warehouse, "eve", 7)  # one row is not due: no sensor comes in between
    flush = launchpad("flush_job", {"scopes": {MESSAGES: ["eve"]}})
    pages.launch(flush, "RUN_FAILURE", "broken")
    pages.until(lambda text: "failed" in text, "red", again=partition("eve"))
    for path, content in torn.items():
        path.write_bytes(content)
    pages.launch(flush, "RUN_SUCCESS", "mended")
    pages.until(lambda text: "flush_job" in text and "failed" not in text, "healed", again=partition("eve"))


def test_lineage_and_runs_are_free_of_noise(pages: Pages) -> None:
    health = _CHAT.replace("/chat/", "/lakewarden_health/")
    boxes = ("chat.messages-health", "chat.rooms-health")
    pages.until(lambda text: all(box in text for box in boxes), "lineage-health", again=health)
    pages.until(lambda text: "lakewarden/table" in text, "runs", again="/runs")
    assert all(f"lakewarden{sign}{tag}" not in _text(pages.browser) for sign in "/_" for tag in ("slot", "operation"))
    heights = pages.browser.execute_script(
        "return [...document.querySelectorAll('a[href^=\"/runs/\"]')].filter(a => /^[0-9a-f]{8}$/.test(a.innerText.trim()))"
        ".map(a => a.getBoundingClientRect().top)"
    )
    assert len(heights) < TEN_RUNS or sorted(heights)[TEN_RUNS - 1] < pages.browser.execute_script("return window.innerHeight")


def test_the_sensor_flushes_what_another_process_wrote(pages: Pages) -> None:
    program = "from tests.fixtures.chat import write; import sys; write(sys.argv[1], 'bob', 50, 51)"  # two rows are the policy's
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program, pages.warehouse], check=True, env={**os.environ, "PYTHONPATH": str(root)})
    pages.until(lambda text: "flush_job" in text, "flushed", again=partition("bob"))
    with Lakehouse.open(pages.warehouse) as lake:
        assert lake.table(MESSAGES).read(user="bob", freshness="eventual").num_rows == 4
        assert lake.pending() == []


def test_numbers_are_plotted(pages: Pages) -> None:
    pages.open("/assets/chat/messages?view=overview")
    pages.until(lambda text: "Plots" in text, "overview")
    pages.click("Plots")
    pages.until(lambda text: "delta/version" in text, "plots")


def test_a_new_table_becomes_an_asset_by_itself(pages: Pages) -> None:
    with Lakehouse.open(pages.warehouse) as lake:
        lake.create_table("chat.topics", type="SHARED", columns=[Column("id", "BIGINT")], primary_key=["id"])
    pages.until(lambda text: "topics" in text, "reloaded", again=_CHAT)


def test_the_port_is_taken_is_one_clear_line(pages: Pages, tmp_path: Path) -> None:
    port = pages.url.rpartition(":")[2]
    command = [_LAKEWARDEN, "ui", "--warehouse", str(tmp_path / "w"), "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"INVALID_ARGUMENT: cannot serve on 127.0.0.1:{port}")
    assert done.stderr.count("\n") == 1
