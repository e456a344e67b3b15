"""Which changes an ordinary table keeps: `CHANGE_TRACKING` and `LOG_RETENTION`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.results import ResultRows
from tests.fixtures.clock import Clock

_HOUR = 3600


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[Lakehouse]:
    place: Path = tmp_path_factory.mktemp("warehouse") / "w"
    with Lakehouse.open(str(place), clock=clock) as opened:
        opened.create_namespace("n")
        yield opened


def made(lake: Lakehouse, name: str, options: str) -> None:
    lake.sql(f"CREATE USER TABLE n.{name} (id INT PRIMARY KEY, v INT) {options}")


def written(lake: Lakehouse, name: str, key: int) -> int:
    """Writes and flushes a row; returns the `_seq` before it."""
    table = lake.table(f"n.{name}")
    before = table.changes(user="u").upto if table.table.tracks_changes else -1
    table.write([{"id": key, "v": key}], user="u")
    lake.flush(f"n.{name}")
    return before


def history(lake: Lakehouse, name: str) -> int:
    """The rows that the log has of it."""
    trail = lake.warehouse.log(lake.table(f"n.{name}").table).trail(-1)
    return sum(each.rows for each in trail.every_range(-1))


def test_without_tracking_nothing_is_kept_behind_a_flush_and_changes_are_refused(lake: Lakehouse) -> None:
    made(lake, "off", "WITH (CHANGE_TRACKING = 'off')")
    written(lake, "off", 1)
    assert history(lake, "off") == 0
    with pytest.raises(Unsupported, match="change tracking is disabled"):
        lake.table("n.off").changes(user="u")
    assert lake.table("n.off").read(user="u").num_rows == 1


def test_changes_go_after_the_tables_own_retention(lake: Lakehouse, clock: Clock) -> None:
    made(lake, "short", "WITH (LOG_RETENTION = '1 h')")
    made(lake, "long", "WITH (LOG_RETENTION = '30 d')")
    starts = {name: written(lake, name, 1) for name in ("short", "long")}
    clock.forward(5 * 24 * _HOUR)
    lake.flush("n.short")
    lake.flush("n.long")
    with pytest.raises(InvalidArgument, match="too old"):
        lake.table("n.short").changes(user="u", after=starts["short"])
    assert lake.table("n.long").changes(user="u", after=starts["long"]).rows.num_rows == 1


def test_an_alteration_holds_for_the_next_flush_of_a_log_that_is_open(lake: Lakehouse) -> None:
    made(lake, "altered", "")
    start = written(lake, "altered", 1)
    lake.sql("ALTER TABLE n.altered SET TBLPROPERTIES (CHANGE_TRACKING = 'off')")
    written(lake, "altered", 2)
    assert history(lake, "altered") == 0
    lake.sql("ALTER TABLE n.altered SET TBLPROPERTIES (CHANGE_TRACKING = 'on', LOG_RETENTION = '2 h')")
    after = written(lake, "altered", 3)
    assert [row["id"] for row in lake.table("n.altered").changes(user="u", after=after).rows.to_pylist()] == [3]
    with pytest.raises(InvalidArgument, match="too old"):
        lake.table("n.altered").changes(user="u", after=start)
    found = lake.sql("SELECT options FROM system.tables WHERE table_name = 'altered'")[0]
    assert isinstance(found, ResultRows)
    assert json.loads(found.table["options"][0].as_py())["LOG_RETENTION"] == "7200 s"


@pytest.mark.parametrize(
    ("option", "own"), [("CHANGE_TRACKING = 'off'", "change-tracking"), ("LOG_RETENTION = '1 h'", "log.retention")]
)
def test_a_dynamic_table_has_its_own_names_and_they_are_frozen(lake: Lakehouse, option: str, own: str) -> None:
    with pytest.raises(InvalidArgument, match=f"called '{own}'"):
        lake.sql(f"CREATE DYNAMIC TABLE n.refused (id INT PRIMARY KEY) WITH ({option})")
    lake.sql("CREATE DYNAMIC TABLE IF NOT EXISTS n.frozen (id INT PRIMARY KEY)")
    with pytest.raises(InvalidArgument, match="frozen"):
        lake.sql(f"ALTER TABLE n.frozen SET TBLPROPERTIES ({option})")
