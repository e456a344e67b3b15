"""The demo on a few aircraft, seen by readers that know nothing of Lakewarden."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

import examples.verify_demo as independent

AIRCRAFT = 80
"""Enough scopes for Spark: fewer are flushed in process."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "warehouse"


@pytest.fixture(scope="module")
def told(warehouse: Path) -> list[dict[str, object]]:
    """What a first run said."""
    return run_demo(warehouse)


def run_demo(warehouse: Path) -> list[dict[str, object]]:
    lakewarden = str(Path(sys.executable).with_name("lakewarden"))
    command = [lakewarden, "--warehouse", str(warehouse), "--format", "json"]
    done = subprocess.run([*command, "demo", "--aircraft", str(AIRCRAFT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects: list[dict[str, object]] = json.loads(done.stdout)
    return objects


def sampled(warehouse: Path) -> pl.DataFrame:
    """The rows that the source file implies for the aircraft whose directories are there."""
    tails = [log.parent.name for log in (warehouse / "data/nyc/flights").glob("*/_delta_log")]
    assert AIRCRAFT <= len(tails) <= AIRCRAFT + 1
    return independent.implied().filter(pl.col("tailnum").is_in(tails))


def test_the_rows_are_those_of_the_source_file(warehouse: Path, told: list[dict[str, object]]) -> None:
    scopes, rows = independent.found(warehouse)
    assert independent.same(sampled(warehouse), rows, independent.KEY) == rows.height
    [flights] = [one for one in told if one.get("table") == "nyc.flights"]
    assert (flights["scopes"], flights["rows"]) == (scopes, rows.height)


@pytest.mark.usefixtures("told")
def test_the_shared_tables_are_whole(warehouse: Path) -> None:
    for name, key in (("airlines", "carrier"), ("airports", "faa"), ("planes", "tailnum")):
        table = pl.DataFrame(DeltaTable(str(warehouse / "data" / "nyc" / name)).to_pyarrow_table())
        assert independent.same(independent.source(name), table.drop("_seq"), [key]) > 0


@pytest.mark.usefixtures("told")
def test_the_year_is_one_table_with_a_directory_for_each_day(warehouse: Path) -> None:
    tails = [log.parent.name for log in (warehouse / "data/nyc/flights").glob("*/_delta_log")]
    wanted = independent.source("flights").filter(pl.col("tailnum").is_in(tails))
    days, rows = independent.by_day(warehouse)
    assert independent.same(wanted, rows, independent.KEY) == rows.height
    assert days == wanted.select("month", "day").n_unique()


def test_uploaded_files_are_rows_once(warehouse: Path, told: list[dict[str, object]]) -> None:
    weather, objects = independent.uploaded(warehouse)
    assert independent.same(independent.source("weather"), weather, independent.HOURLY) == weather.height
    [ingested] = [one for one in told if one.get("title") == "ingest uploaded files"]
    assert (ingested["objects"], ingested["rows"], ingested["rejected"]) == (objects, weather.height, 1)


def test_it_says_where_to_look(warehouse: Path, told: list[dict[str, object]]) -> None:
    summary = told[-1]
    assert summary["ui_command"] == f"lakewarden --warehouse {warehouse} ui"
    assert summary["without_tail_number"] == 2_512


@pytest.mark.night
@pytest.mark.usefixtures("told")
def test_run_again_it_replaces_its_own_tables_only(warehouse: Path) -> None:
    bystander = warehouse / "data" / "notes.txt"
    bystander.write_text("mine", encoding="utf-8")
    again = run_demo(warehouse)
    assert next(one["replaced"] for one in again if one.get("title") == "create") == 5
    _, rows = independent.found(warehouse)
    assert independent.same(sampled(warehouse), rows, independent.KEY) == rows.height
    assert bystander.read_text(encoding="utf-8") == "mine"
