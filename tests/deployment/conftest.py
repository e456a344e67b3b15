"""The deployment that the checkout is, over a small warehouse with the demo's flights."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from lakewarden.client import Lakehouse
from lakewarden.client.demo_tables import FLIGHTS
from tests.fixtures.dagster import sqlite_instance

DEFINITIONS = Path(__file__).parents[2] / "orchestration" / "definitions.py"

Load = Callable[[str], dg.Definitions]


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails is tried again at once."""
    monkeypatch.setattr(dg.RetryPolicy, "calculate_delay", lambda *_: 0)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads the code location anew, over a warehouse that the environment names."""

    def load(uri: str) -> dg.Definitions:
        monkeypatch.setenv("LAKEWARDEN_WAREHOUSE", uri)
        defs = runpy.run_path(str(DEFINITIONS))["defs"]
        assert isinstance(defs, dg.Definitions)
        return defs

    return load


@pytest.fixture
def nyc(tmp_path: Path) -> str:
    """Two aircraft that flew twice on New Year's Day and once on the next."""
    uri = str(tmp_path / "warehouse")
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("nyc")
        lake.create_table(str(FLIGHTS.name), type=FLIGHTS.type, columns=FLIGHTS.columns, primary_key=FLIGHTS.primary_key)
    for user in ("N1", "N2"):
        fly(uri, user, (1, 8), (1, 14), (2, 9))
    return uri


def fly(uri: str, user: str, *days_and_hours: tuple[int, int], delay: int = 10, flush: bool = True) -> None:
    """Writes a flight of an hour for each of these days and hours of January, and flushes them."""
    with Lakehouse.open(uri) as lake:
        lake.table("nyc.flights").write([_flight(day, hour, delay) for day, hour in days_and_hours], user=user)
        if flush:
            lake.flush("nyc.flights", user=user)


def _flight(day: int, hour: int, delay: int) -> dict[str, object]:
    known = {
        "year": 2013,
        "month": 1,
        "day": day,
        "hour": hour,
        "minute": 0,
        "flight": 1,
        "distance": 100,
        "sched_dep_time": hour * 100,
        "sched_arr_time": hour * 100 + 100,
        "air_time": 60,
        "dep_delay": delay,
        "carrier": "UA",
        "origin": "EWR",
        "dest": "BOS",
        "time_hour": datetime(2013, 1, day, hour, tzinfo=UTC),
    }
    return {column.name: known.get(column.name) for column in FLIGHTS.columns}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with sqlite_instance(tmp_path / "dagster") as instance:
        yield instance
