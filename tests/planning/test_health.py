"""Which table is late and which scopes are worst, and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.planning.health import TableHealth, health
from lakewarden.scope import Scope, TableName
from lakewarden.state.failed_checks import Checked
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that stands until somebody moves it."""

    now = START

    def __call__(self) -> datetime:
        return self.now


def looked(lake: Lakehouse) -> TableHealth:
    (found,) = health(lake.warehouse)
    return found


def test_late_scopes_come_first_then_those_that_failed_a_check(tmp_path: Path) -> None:
    clock = Clock()
    with Lakehouse.open(str(tmp_path / "warehouse"), clock=clock) as lake:
        table = make_notes(lake, options={"FLUSH_POLICY": "interval:60"})
        for user in ("ann", "bob", "cid"):
            table.write(notes({1: "a"}), user=user)
        lake.flush()
        table.write(notes({2: "b"}), user="bob")
        clock.now += timedelta(minutes=5)
        assert (looked(lake).is_late, looked(lake).status.scopes) == (False, 3)
        clock.now += timedelta(minutes=2)
        table.write(notes({2: "b", 3: "c"}), user="cid")
        lake.warehouse.failed_checks.record(table.table.id, [Checked("ann", "one_row_per_key", 1, passed=False)])
        found = looked(lake)
    assert (found.late_scopes, found.failed_scopes, found.status.pending_rows) == (1, 1, 3)
    name = TableName.parse(NOTES)
    assert [(one.scope, one.reason) for one in found.worst] == [
        (Scope(name, "bob"), "late: rows wait for 420 s of interval:60"),
        (Scope(name, "ann"), "failed check one_row_per_key: it is CORRUPT"),
        (Scope(name, "cid"), "2 rows in the log"),
    ]


def test_rows_of_a_table_without_an_interval_are_never_late(tmp_path: Path) -> None:
    clock = Clock()
    with Lakehouse.open(str(tmp_path / "warehouse"), clock=clock) as lake:
        make_notes(lake, options={"FLUSH_POLICY": "rows:9"}).write(notes({1: "a"}), user="ann")
        clock.now += timedelta(days=3)
        found = looked(lake)
    assert (found.is_late, found.worst[0].reason, found.status.oldest_pending_age) == (False, "1 rows in the log", 259_200)
