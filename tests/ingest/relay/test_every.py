"""The relays of several tables: what fails is one table's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.model import Table
from lakewarden.errors import Ended, LakewardenError, StorageUnavailable
from lakewarden.ingest.relays import Relays
from lakewarden.ingest.topic_report import RelayReport


class Scripted:
    """Raises what it is given, look by look."""

    def __init__(self, table: Table, script: Iterator[LakewardenError | None]) -> None:
        self._table = table
        self._script = script

    def look(self) -> RelayReport:
        error = next(self._script)
        if error is not None:
            raise error
        return RelayReport(self._table.name, "topic", 1, 1, 0, "")


@pytest.mark.parametrize(("error", "opened"), [(StorageUnavailable("away"), 2), (Ended("restored"), 1)])
def test_an_error_that_may_go_away_opens_the_relay_again_and_another_ends_it(
    warehouse_uri: str, error: LakewardenError, opened: int
) -> None:
    lake = Lakehouse.open(warehouse_uri)
    lake.sql("CREATE NAMESPACE n; CREATE TABLE n.bad (id INT PRIMARY KEY); CREATE TABLE n.good (id INT PRIMARY KEY)")
    scripts = {"bad": iter([error, None, None]), "good": iter([None] * 3)}
    events: list[str] = []

    @contextmanager
    def open_(table: Table) -> Iterator[Scripted]:
        events.append(f"open {table.name.name}")
        yield Scripted(table, scripts[table.name.name])
        events.append(f"close {table.name.name}")

    with closing(Relays(lake.tables, open_)) as relays:
        first, second = relays.look()
        assert (first.error, second.error) == (error, None)
        assert [str(each.table) for each in relays.look()] == ["n.bad", "n.good"][2 - opened :]
    assert events.count("open bad") == opened
    assert events.count("close bad") == opened
    assert events.count("open good") == events.count("close good") == 1
