"""The relays of several tables: what fails is one table's own."""

from __future__ import annotations

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import Ended, LakewardenError, StorageUnavailable
from lakewarden.ingest.relays import outcomes_of
from lakewarden.ingest.topic_report import RelayReport


@pytest.mark.parametrize("error", [StorageUnavailable("away"), Ended("restored")])
def test_an_error_of_one_table_is_its_own(warehouse_uri: str, error: LakewardenError) -> None:
    lake = Lakehouse.open(warehouse_uri)
    lake.sql("CREATE NAMESPACE n; CREATE TABLE n.good (id INT PRIMARY KEY); CREATE TABLE n.bad (id INT PRIMARY KEY)")
    bad, good = sorted((table.name for table in lake.tables()), key=str)
    looked: list[str] = []

    def look(table: str) -> RelayReport:
        looked.append(table)
        if table == str(bad):
            raise error
        return RelayReport(good, "topic", 1, 1, 0, "")

    first, second = outcomes_of(lake.tables(), look)
    assert (first.table, first.report, first.error) == (bad, None, error)
    assert (second.table, second.report and second.report.messages, second.error) == (good, 1, None)
    assert looked == ["n.bad", "n.good"]
