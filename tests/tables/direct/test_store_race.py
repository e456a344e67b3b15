"""Everything against everything in one partition of one table, from several processes, a stranger among them; on both stores.

`LAKEWARDEN_RACE` says how often each process commits, as in tests/maintenance/test_store_race.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.errors import Conflict
from lakewarden.log.once import WriterBatch
from lakewarden.storage.options import delta_options
from lakewarden.tables.client import TableClient
from tests.fixtures.children import exit_statuses
from tests.tables.direct.boards import setting
from tests.tables.direct.crossings import COLUMNS, rows

pytestmark = [pytest.mark.both_stores("minio"), pytest.mark.slow]

_COMMITS = int(os.environ.get("LAKEWARDEN_RACE", "4"))
_NAME = "app.t"
_KEPT, _UPDATED, _WRITTEN, _APPENDED, _STRANGE, _OVER = 1, 2, 100, 200, 300, 400
"""The ids of a row that nobody changes, of one that is updated, and the first ones of those that processes add."""


def _until_done(act: Callable[[], object]) -> None:
    """Whoever lost four times is to try again."""
    while True:
        with suppress(Conflict):
            act()
            return


def _update(uri: str) -> None:
    with Lakehouse.open(uri) as lake:
        table = lake.table(_NAME)
        for number in range(_COMMITS):
            change = setting(f"direct {number}", _UPDATED)
            _until_done(lambda change=change: table.direct.edit(change, operation="UPDATE", predicate="id = 2", within="day = 1"))  # type: ignore[misc]


def _overwrite(uri: str) -> None:
    """Another partition, again and again."""
    with Lakehouse.open(uri) as lake:
        table = lake.table(_NAME)
        for number in range(_COMMITS):
            given = [rows({(_OVER, 2): f"over {number}"})]
            _until_done(lambda given=given: table.direct.overwrite(given, within="day = 2"))  # type: ignore[misc]


def _write_and_flush(uri: str) -> None:
    with Lakehouse.open(uri) as lake:
        table = lake.table(_NAME)
        for number in range(_COMMITS):
            table.write(rows({(_WRITTEN + number, 1): "written"}))
            for report in lake.flush(_NAME):
                assert report.fault is None or report.fault.transient, report


def _append_once(uri: str) -> None:
    """Two such processes make the same writes."""
    with Lakehouse.open(uri) as lake:
        table = lake.table(_NAME)
        for number in range(_COMMITS):
            given = [rows({(_APPENDED + number, 1): "once"})]
            _until_done(lambda given=given, number=number: table.direct.append(given, once=WriterBatch("race", number)))  # type: ignore[misc]


def _optimize(uri: str) -> None:
    with Lakehouse.open(uri) as lake:
        for _ in range(_COMMITS):
            for report in lake.optimize(_NAME):
                assert report.fault is None or report.fault.transient, report


def _append_as_a_stranger(uri: str) -> None:
    """Plain delta-rs."""
    with Lakehouse.open(uri) as lake:
        place = lake.table(_NAME).reader.target(None).uri
    for number in range(_COMMITS):
        row = rows({(_STRANGE + number, 1): "stranger"}).append_column("_seq", pa.array([None], pa.int64()))
        done = False
        while not done:
            with suppress(CommitFailedError):  # a rewrite came between, so it is not there
                write_deltalake(place, row, mode="append", storage_options=delta_options(Location(place), os.environ) or None)
                done = True


def _made(lake: Lakehouse, *, keyed: bool) -> TableClient:
    lake.create_namespace("app")
    key = ["id", "day"] if keyed else []
    table = lake.create_table(_NAME, type="SHARED", columns=COLUMNS, primary_key=key, partition_by=["day"])
    table.direct.overwrite([rows({(_KEPT, 1): "kept", (_UPDATED, 1): "old", (_OVER, 2): "old"})])
    return table


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "keyless"])
def test_nothing_is_lost_and_nothing_doubled(warehouse_uri: str, keyed: bool) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        _made(lake, keyed=keyed)
        adds = [_write_and_flush] if keyed else [_append_once, _append_once]
        works = [*adds, _update, _overwrite, _optimize, _append_as_a_stranger]
        assert exit_statuses([(work, warehouse_uri) for work in works], seconds=1800) == [0] * len(works)
        lake.flush(_NAME)
        left = sorted((row["id"], row["text"]) for row in lake.table(_NAME).read().to_pylist())
        added = [(_WRITTEN, "written")] if keyed else [(_APPENDED, "once")]
        many = [(first + number, text) for first, text in (*added, (_STRANGE, "stranger")) for number in range(_COMMITS)]
        last = _COMMITS - 1
        assert left == sorted([(_KEPT, "kept"), (_UPDATED, f"direct {last}"), (_OVER, f"over {last}"), *many])
        assert not [finding for finding in lake.check() if not finding.passed]
