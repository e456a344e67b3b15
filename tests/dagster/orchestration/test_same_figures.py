"""All doors say the same of a warehouse that is broken in ten ways: page, `status --all`, `metrics`, `/metrics`, Dagster."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import quiet
from lakewarden import Column
from lakewarden.base.quantities import in_units, number_of
from lakewarden.cli.main import main
from lakewarden.cli.observe import table_row
from lakewarden.client import Lakehouse
from lakewarden.client.fleet_metrics import metrics_text
from lakewarden.client.fleet_page import fleet_page
from lakewarden.serve.common import Common
from lakewarden.serve.http.app import application
from lakewarden.serve.tokens import operator_token
from tests.client.fleet.test_page import Page
from tests.dagster.orchestration.conftest import Load
from tests.dagster.orchestration.test_storages_away import look_around
from tests.fixtures import ten_ways
from tests.fixtures.dagster import DAGSTER

pytestmark = [*DAGSTER, pytest.mark.disk, pytest.mark.slow]

_IN_DAGSTER = {
    "scopes": "tenants",
    "pending_scopes": "backlog/scopes",
    "pending_rows": "backlog/rows",
    "pending_bytes": "backlog/bytes",
    "away_scopes": "away/scopes",
    "broken_scopes": "broken/scopes",
    "late_scopes": "late/scopes",
    "failed_scopes": "failed_checks/scopes",
    "scopes_unknown": "unknown/scopes",
    "rows": "delta/rows",
    "files": "delta/num_files",
    "bytes": "delta/bytes",
}
_IN_PROMETHEUS = {
    "pending_scopes": "backlog_scopes",
    "pending_rows": "backlog_rows",
    "pending_bytes": "backlog_bytes",
    "failed_scopes": "failed_check_scopes",
    "scopes_unknown": "unknown_scopes",
}
_ON_THE_PAGE = {
    "scopes": "Scopes",
    "broken_scopes": "Broken",
    "failed_scopes": "Failed checks",
    "late_scopes": "Late",
    "pending_rows": "Waiting rows",
    "files": "Files",
}
_WORKED = (
    ("operations_total", ("done",), "done"),
    ("operations_total", ("failed",), "failed"),
    ("jobs_total", (), "jobs"),
    ("conflicts_total", (), "conflicts"),
    ("retries_total", (), "retries"),
    ("store_requests_total", ("GET",), "GET"),
    ("store_bytes_total", ("out",), "bytes_out"),
    ("dollars_total", (), "dollars"),
)
"""Of Prometheus' counters, by a label beside the operation, and of `week`."""
Figures = Mapping[str, Mapping[str, int]]
"""By table, and by the name that `status --all` has."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Made by another process: this one has read nothing of it before it was broken."""
    making = [sys.executable, "-m", ten_ways.__name__, str(tmp_path_factory.mktemp("ten"))]
    return subprocess.run(making, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True).stdout.strip()


def _printed(capsys: pytest.CaptureFixture[str], warehouse: str, *arguments: str) -> str:
    capsys.readouterr()
    with suppress(SystemExit):
        main(["--warehouse", warehouse, *arguments])
    return capsys.readouterr().out


def _of_status(row: Mapping[str, Any]) -> Mapping[str, int]:
    """Of a table, or of the warehouse."""
    figures = row["figures"] | {"scopes_unknown": row["scopes_unknown"]}
    return {name: figures[name] for name in _IN_DAGSTER}


def _of_prometheus(text: str) -> Figures:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {(sample.name, sample.labels["table"]): int(sample.value) for sample in samples if sample.labels.keys() == {"table"}}
    tables = {table for _, table in found}
    return {
        table: {name: found[f"lakewarden_{_IN_PROMETHEUS.get(name, name)}", table] for name in _IN_DAGSTER} for table in tables
    }


def _worked_of_prometheus(text: str) -> dict[str, float]:
    """The sums over all tables: what is planned, what can be freed, and what jobs did."""
    found: dict[str, float] = {}
    for sample in (sample for family in text_string_to_metric_families(text) for sample in family.samples):
        rest = sorted(value for name, value in sample.labels.items() if name != "table")
        name = " ".join((sample.name.removeprefix("lakewarden_"), *rest))
        found[name] = found.get(name, 0.0) + sample.value
    return found


def _worked_of_status(whole: Mapping[str, Any]) -> dict[str, float]:
    """The same of the row of the warehouse, whose only week is the last one."""
    planned = {
        f"planned_{name} {operation}": found[name]
        for operation, found in whole["planned"].items()
        for name in ("scopes", "files", "bytes", "dollars", "unknown")
    }
    done = {
        " ".join((metric, *sorted((operation, *result)))): found.get(name, 0)
        for operation, found in whole["week"].items()
        for metric, result, name in _WORKED
    }
    debt = {"free_bytes": whole["debt"]["free_now"], "dead_bytes": whole["debt"]["bytes"]}
    return {**planned, **done, **debt, "unknown_scopes": whole["scopes_unknown"]}


def _worked_on_the_page(whole: Mapping[str, Any]) -> list[str]:
    """What the page says of them, row by row."""
    planned = [
        f"{name} {found['scopes']:,} {found['files']:,} → {found['made']:,} {in_units(found['bytes'])} $0"
        for name, found in whole["planned"].items()
    ]
    week = [
        f"{name} {found['jobs']:,} {found['done']:,} {found['failed']:,} {found.get('conflicts', 0):,}"
        f" 0 → {found['files_added']:,} 0 B {in_units(found['bytes_added'])} {found['requests']:,} $0"
        for name, found in whole["week"].items()
    ]
    sizes = [" ".join(f"{count:,}" for count in whole[name]) for name in ("file_sizes", "file_counts")]
    debt = [
        f"A vacuum would free now {in_units(whole['debt']['free_now'])}",
        f"{whole['scopes_unknown']} scopes, and the figures",
    ]
    return [*planned, *week, *debt, *sizes]


def _served(warehouse: str) -> Callable[[str], str]:
    def get(path: str) -> str:
        async def answer() -> httpx.Response:
            with Lakehouse.open(warehouse) as lake:
                token = operator_token(lake.warehouse, "someone", "dba", timedelta(minutes=5))
                transport = httpx.ASGITransport(application(Common.of(lake)))
                async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                    return await client.get(path, headers={"Authorization": f"Bearer {token}"})

        found = asyncio.run(answer())
        assert found.status_code == 200, found.text
        return found.text

    return get


def _of_the_page(text: str) -> Figures:
    """The cells of each row of the first table."""
    found = {}
    for table, row in re.findall(r'<tr><th scope="row" class="name">((?:shop|bench)\.\w+)<span(.*?)</tr>', text, re.DOTALL):
        shown = dict(re.findall(r'data-of="([^"]+)">(?:<[^>]+>)*([\d,]+)', row))
        found[table] = {name: int(shown[label].replace(",", "")) for name, label in _ON_THE_PAGE.items()}
    return found


def _of_dagster(load: Load, instance: dg.DagsterInstance, warehouse: str) -> Figures:
    defs = load(warehouse)
    look_around(defs, instance)
    found = {}
    for key in defs.resolve_asset_graph().get_all_asset_keys():
        name = key.path[-1].removesuffix("-health")
        event = instance.get_latest_materialization_event(key)
        if event is not None and event.asset_materialization is not None and key.path[-1] != f"{name}-flushed":
            metadata = event.asset_materialization.metadata
            found[name] = {ours: int(metadata[theirs].value) for ours, theirs in _IN_DAGSTER.items() if theirs in metadata}  # type: ignore[arg-type]
    return {name: figures for name, figures in found.items() if figures.keys() == _IN_DAGSTER.keys()}


def test_all_doors_say_the_same(
    warehouse: str, load: Load, instance: dg.DagsterInstance, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = json.loads(_printed(capsys, warehouse, "--format", "json", "status", "--all"))
    whole = rows[0]["warehouse"]
    status = {row["table"]: _of_status(row) for row in rows if "figures" in row}
    assert (len(status), whole["figures"]["away_scopes"] > 0, whole["figures"]["broken_scopes"] > 4) == (5, True, True)
    assert [status[f"shop.{table}"]["scopes"] for table in ("torn", "visits", "calm")] == [7, 7, 7], "what cannot be read counts"
    assert whole["scopes_unknown"] == 7, "of `torn` the registry alone is known"
    metrics, worked = _printed(capsys, warehouse, "metrics"), _worked_of_status(whole)
    assert _of_prometheus(metrics) == status
    assert {name: _worked_of_prometheus(metrics)[name] for name in worked} == worked
    assert worked["planned_files compact"] > worked["operations_total failed flush"] > 0
    get = _served(warehouse)
    assert _of_prometheus(get("/metrics")) == status
    _printed(capsys, warehouse, "report", "--out", str(tmp_path / "fleet.html"))
    shown = {table: {name: figures[name] for name in _ON_THE_PAGE} for table, figures in status.items()}
    for page in ((tmp_path / "fleet.html").read_text(), get("/fleet")):
        assert _of_the_page(page) == shown
        text = Page(re.sub(r'<th scope="row">[^<]*</th>', "", page)).text  # the names of the bars
        assert [said for said in (whole["verdict"], *_worked_on_the_page(whole)) if said not in text] == []
        assert "script" not in Page(page).tags
        assert all(f"<code>lakewarden repair shop.{table}</code>" in page for table in ("torn", "visits")), "a line for each"
        said = [
            Page(page).text.count(each["reason"]) for row in rows if "figures" in row for each in row["reasons"] if each["code"]
        ]
        assert set(said) == {1}, "a reason once"
    dagster = dict(_of_dagster(load, instance, warehouse))
    assert dagster.pop("health") == _of_status(whole)
    assert dagster == status


@pytest.mark.parametrize("scopes", [1, pytest.param(100_000, marks=pytest.mark.night)])
def test_a_warehouse_of_one_scope_and_a_large_one_say_the_same(
    scopes: int, load: Load, instance: dg.DagsterInstance, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    quiet.make(str(tmp_path / "warehouse"), scopes)
    warehouse = str(tmp_path / "warehouse")
    row, *_ = json.loads(_printed(capsys, warehouse, "--format", "json", "status", "--all"))
    status, whole = {row["table"]: _of_status(row)}, row["warehouse"]
    assert (status[row["table"]]["scopes"], whole["verdict"]) == (scopes, f"{number_of(scopes, 'scope')}: all well")
    metrics = _printed(capsys, warehouse, "metrics")
    assert _of_prometheus(metrics) == status
    worked = _worked_of_status(whole)
    assert {name: _worked_of_prometheus(metrics)[name] for name in worked} == worked
    page = _printed(capsys, warehouse, "report", "--out", "-")
    assert _of_the_page(page) == {table: {name: found[name] for name in _ON_THE_PAGE} for table, found in status.items()}
    assert whole["verdict"] in Page(page).text
    dagster = dict(_of_dagster(load, instance, warehouse))
    assert dagster.pop("health") == _of_status(whole)
    assert dagster == status


def test_odd_users_and_tables_that_are_empty_new_or_dropped_say_the_same(tmp_path: Path) -> None:
    columns = [Column("id", "BIGINT"), Column("item", "TEXT")]
    with Lakehouse.open(str(tmp_path)) as lake:
        for namespace in ("shop", "gone"):
            lake.create_namespace(namespace)
        for name in ("shop.odd", "shop.zero", "shop.never", "gone.orders"):
            lake.create_table(name, type="USER", columns=columns, primary_key=["id"])
        for user in ("שלום", "😀" * 10, "x" * 255, "<script>", "é"):
            lake.table("shop.odd").write([{"id": 1, "item": "tea"}], user=user)
        for name in ("shop.zero", "gone.orders"):
            lake.table(name).write([{"id": 1, "item": "tea"}], user="ann")
        lake.flush()
        lake.sql("DELETE FROM shop.zero WHERE id = 1", user="ann", role="user")
        lake.flush()
        lake.drop_namespace("gone", cascade=True)
        lake.table("shop.never").write([{"id": 1, "item": "tea"}], user="ann")
        fleet = lake.fleet()
    status = {one.name: _of_status(table_row(one)) for one in fleet.tables}
    counts = {table: (found["scopes"], found["rows"], found["pending_rows"]) for table, found in status.items()}
    assert counts == {"shop.odd": (5, 5, 0), "shop.zero": (1, 0, 0), "shop.never": (0, 0, 1)}
    assert _of_prometheus(metrics_text(fleet)) == status
    assert _of_the_page(fleet_page(fleet)) == {
        table: {name: found[name] for name in _ON_THE_PAGE} for table, found in status.items()
    }
