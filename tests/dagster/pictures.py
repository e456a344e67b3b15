"""Takes two pictures of docs/images again: a backfill of a thousand partitions, and the vacuum that a failed check blocks.

    lakewarden --warehouse WAREHOUSE demo
    python -m tests.dagster.pictures WAREHOUSE

It writes to the demo's warehouse, damages one of its scopes and deletes what could be restored: give it a copy. Its place stands
in the pictures.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from dagster_graphql import DagsterGraphQLClient
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION
from deltalake import DeltaTable, write_deltalake

from lakewarden.catalog.evolution import SetOptions
from lakewarden.lakehouse import Lakehouse
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

    def blocked_vacuum(self) -> str:
        """Repeats keys of one scope, has it checked, and vacuums the table; the id of the vacuum's run."""
        scope = str(Path(self.warehouse) / "data" / "nyc" / "flights" / DAMAGED)
        write_deltalake(scope, DeltaTable(scope).to_pyarrow_table().slice(0, 2), mode="append")  # as another writer may
        checked = self.run("check_job", {"check_nyc__flights": {"config": {"users": [DAMAGED]}}})
        wait_for(lambda: status(self.instance, checked) is dg.DagsterRunStatus.SUCCESS)
        now = {"tables": [FLIGHTS], "retain_hours": 0.0, "force": True, "dry_run": False}
        vacuumed = self.run("vacuum_job", {"vacuum": {"config": now}})
        wait_for(lambda: status(self.instance, vacuumed) is dg.DagsterRunStatus.FAILURE)
        return vacuumed

    def run(self, job: str, ops: dict[str, object]) -> str:
        return self.client.submit_job_execution(job, repository_location_name="lakewarden", run_config={"ops": ops})

    def picture(self, name: str, path: str, shown: str, height: int) -> None:
        """Of a page on which this text stands."""
        size = {"width": 1400, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.browser.get(self.url + path)
        wait_for(lambda: shown in str(self.browser.execute_script("return document.body.innerText")))
        time.sleep(_DRAWN_AFTER)
        assert self.browser.save_screenshot(str(IMAGES / name))

    def _users(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions(FLIGHTS))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.dagster.pictures")
    parser.add_argument("warehouse")
    warehouse = str(Path(parser.parse_args().warehouse).resolve())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would `ui`
    with (
        tempfile.TemporaryDirectory(prefix="lakewarden-pictures-") as root,
        as_shipped(Path(root) / "home") as instance,
        ui(warehouse, Path(root) / "home", port := free_port()),
        start_browser() as browser,
    ):
        client = DagsterGraphQLClient("127.0.0.1", port_number=port)
        pages = Pages(warehouse, instance, client, browser, f"http://127.0.0.1:{port}")
        backfill, vacuum = pages.backfill(), pages.blocked_vacuum()
        pages.picture("dagster-backfill.png", f"/runs/b/{backfill}?tab=runs", "lakewarden/operation: flush", 640)
        # Of this event alone: the run's own has a stack trace, with the directories of this machine.
        pages.picture("dagster-blocked-vacuum.png", f"/runs/{vacuum}?logs=type%3ASTEP_FAILURE", "CONFLICT", 660)


if __name__ == "__main__":
    main()
