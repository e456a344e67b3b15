"""Takes pictures of docs/images again: a backfill of a thousand partitions, the vacuum that a failed check blocks, what is worst
in a table, the lineage of what is known about tables, and the page of runs.

    lakewarden --warehouse WAREHOUSE demo
    python -m tests.dagster.pictures WAREHOUSE [backfill] [blocked-vacuum] [worst-scopes] [health-lineage] [runs]

Without names it takes all. It writes to the demo's warehouse, damages scopes and deletes what could be restored: give it a copy.
Its place stands in the pictures.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from dagster_graphql import DagsterGraphQLClient
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION
from deltalake import DeltaTable, write_deltalake

from lakewarden.catalog.evolution import SetOptions
from lakewarden.client import Lakehouse
from tests.dagster.orchestration.test_restarts import status, wait_for
from tests.fixtures.chromium import start_browser
from tests.fixtures.dagster import as_shipped
from tests.fixtures.servers import free_port
from tests.fixtures.ui import ui

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGES = Path(__file__).parents[2] / "docs" / "images"
FLIGHTS, KEY = "nyc.flights", dg.AssetKey(["nyc", "flights"])
BACKFILLED = 1_000
DAMAGED = "N13913"
FLUSHED = 8
"""Scopes that are flushed one by one: a page of runs shows as many, and what else there was."""
RUNS_ON_A_SCREEN = 10
_RUNS_BEGUN = r"""
  const links = [...document.querySelectorAll('a[href^="/runs/"]')];
  const begun = links.filter(one => /^.runs.[0-9a-f-]{36}$/.test(one.getAttribute("href")));
  return new Set(begun.filter(one => one.getBoundingClientRect().top < innerHeight).map(one => one.href)).size;
"""
_DRAWN_AFTER = 2.0
"""Seconds: what slides open has come to rest."""


@dataclass(frozen=True)
class Pages:
    """Dagster's pages over the warehouse, what is behind them, and a browser in front."""

    warehouse: str
    instance: dg.DagsterInstance
    client: DagsterGraphQLClient
    browser: Chrome
    url: str

    def backfill(self) -> str:
        """Flushes a thousand neighbours of whom each has a row to flush; the id of the backfill."""
        wait_for(lambda: len(self._users()) >= BACKFILLED)
        users = sorted(self._users())[:BACKFILLED]
        with Lakehouse.open(self.warehouse) as lake:
            lake.alter_table(FLIGHTS, SetOptions({"FLUSH_POLICY": "rows:1000,interval:3600"}))  # the sensor leaves them
            flights = lake.table(FLIGHTS)
            for user in users:
                flights.write(flights.read(user=user).slice(0, 1), user=user)
        wanted = {
            "selector": None,
            "assetSelection": [{"path": KEY.path}],
            "partitionNames": users,
            "title": "A thousand aircraft",
        }
        launched = self.client._execute(LAUNCH_PARTITION_BACKFILL_MUTATION, {"backfillParams": wanted})
        backfill = str(launched["launchPartitionBackfill"]["backfillId"])
        wait_for(lambda: self.instance.get_backfill(backfill).status.value == "COMPLETED_SUCCESS")  # type: ignore[union-attr]
        return backfill

    def damage(self) -> None:
        """Repeats keys of one scope, and has it checked."""
        scope = str(Path(self.warehouse) / "data" / "nyc" / "flights" / DAMAGED)
        write_deltalake(scope, DeltaTable(scope).to_pyarrow_table().slice(0, 2), mode="append")  # as another writer may
        checked = self.run("check_job", {"check_nyc__flights": {"config": {"users": [DAMAGED]}}})
        wait_for(lambda: status(self.instance, checked) is dg.DagsterRunStatus.SUCCESS)

    def blocked_vacuum(self) -> str:
        """Vacuums the table with a damaged scope; the id of the run."""
        now = {"tables": [FLIGHTS], "retain_hours": 0.0, "force": True, "dry_run": False}
        vacuumed = self.run("vacuum_job", {"vacuum": {"config": now}})
        wait_for(lambda: status(self.instance, vacuumed) is dg.DagsterRunStatus.FAILURE)
        return vacuumed

    def worst(self) -> None:
        """Tears the log of one scope, and flushes it and others, which books the table's health each time."""
        torn, *others = sorted(self._users() - {DAMAGED})[: FLUSHED + 1]
        with Lakehouse.open(self.warehouse) as lake:
            flights = lake.table(FLIGHTS)
            for user in (torn, *others):
                flights.write(flights.read(user=user).slice(0, 1), user=user)
        for path in (Path(self.warehouse) / "data" / "nyc" / "flights" / torn / "_delta_log").glob("*.json"):
            path.write_text("{")
        for user in (torn, *others):
            flushed = self.run("flush_job", {"flush": {"config": {"scopes": {FLIGHTS: [user]}}}})
            ended = dg.DagsterRunStatus.FAILURE if user == torn else dg.DagsterRunStatus.SUCCESS
            wait_for(partial(self._is, flushed, ended))

    def run(self, job: str, ops: dict[str, object]) -> str:
        return self.client.submit_job_execution(job, repository_location_name="lakewarden", run_config={"ops": ops})

    def picture(self, name: str, path: str, shown: str, height: int, width: int = 1400, press: str = "") -> None:
        """Of a page on which this text stands, and nothing is still loading; behind a press of this button."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.browser.get(self.url + path)
        self._wait_for(shown)
        if press:
            self.browser.find_element("xpath", f"//button[contains(., '{press}')]").click()
            time.sleep(_DRAWN_AFTER)
            self._wait_for("delta/")
        time.sleep(_DRAWN_AFTER)
        assert self.browser.save_screenshot(str(IMAGES / name))

    def runs_shown(self) -> int:
        """The runs that are wholly on the screen: behind each of them the next one begins."""
        return int(str(self.browser.execute_script(_RUNS_BEGUN))) - 1

    def _wait_for(self, shown: str) -> None:
        wait_for(lambda: shown in self._text() and "Loading" not in self._text())

    def _text(self) -> str:
        return str(self.browser.execute_script("return document.body.innerText"))

    def _is(self, run: str, ended: dg.DagsterRunStatus) -> bool:
        return status(self.instance, run) is ended

    def _users(self) -> set[str]:
        return set(self.instance.get_dynamic_partitions(FLIGHTS))


def _backfill(pages: Pages) -> None:
    path = f"/runs/b/{pages.backfill()}?tab=runs"
    pages.picture("dagster-backfill.png", path, "flush", 640)


def _blocked_vacuum(pages: Pages) -> None:
    # Of this event alone: the run's own has a stack trace, with the directories of this machine.
    path = f"/runs/{pages.blocked_vacuum()}?logs=type%3ASTEP_FAILURE"
    pages.picture("dagster-blocked-vacuum.png", path, "CONFLICT", 660)


def _worst_scopes(pages: Pages) -> None:
    pages.worst()
    pages.picture("dagster-worst-scopes.png", "/assets/nyc/flights/nyc.flights-health?view=overview", "CORRUPT", 1000, 1600)


def _one_partition(pages: Pages) -> None:
    flushed = sorted(pages._users() - {DAMAGED})[FLUSHED]
    pages.picture(
        "dagster-one-partition.png", f"/assets/nyc/flights?view=partitions&partition={flushed}", "list all versions", 940
    )


def _health_plots(pages: Pages) -> None:
    path = "/assets/nyc/flights/nyc.flights-health?view=overview"
    pages.picture("dagster-health-plots.png", path, "tenants", 1700, press="Plots")


def _health_lineage(pages: Pages) -> None:
    path = "/locations/lakewarden/asset-groups/lakewarden_health/lineage"
    pages.picture("dagster-health-lineage.png", path, "nyc.flights-health", 1057, 1600)


def _runs(pages: Pages) -> None:
    pages.picture("dagster-runs.png", "/runs", "lakewarden/table", 1200, 1600)
    assert pages.runs_shown() >= RUNS_ON_A_SCREEN


PICTURES = {
    "backfill": _backfill,
    "blocked-vacuum": _blocked_vacuum,
    "worst-scopes": _worst_scopes,
    "one-partition": _one_partition,
    "health-plots": _health_plots,
    "health-lineage": _health_lineage,
    "runs": _runs,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.dagster.pictures")
    parser.add_argument("warehouse")
    parser.add_argument("pictures", nargs="*", metavar="picture", default=[*PICTURES], help=", ".join(PICTURES))
    asked = parser.parse_args()
    warehouse = str(Path(asked.warehouse).resolve())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would `ui`
    with (
        tempfile.TemporaryDirectory(prefix="lakewarden-pictures-") as root,
        as_shipped(Path(root) / "home") as instance,
        ui(warehouse, Path(root) / "home", port := free_port()),
        start_browser() as browser,
    ):
        client = DagsterGraphQLClient("127.0.0.1", port_number=port)
        pages = Pages(warehouse, instance, client, browser, f"http://127.0.0.1:{port}")
        wait_for(lambda: DAMAGED in pages._users())
        pages.damage()
        for name in asked.pictures:
            PICTURES[name](pages)


if __name__ == "__main__":
    main()
