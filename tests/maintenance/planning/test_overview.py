"""Each table in numbers, and the worst scopes with the reason, without opening those that are quiet."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import CompactionSettings, MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.floor import floor_at
from lakewarden.maintenance.planning.health import health
from lakewarden.maintenance.planning.overview import Overview, TableStatus
from lakewarden.maintenance.plans import census
from tests.fixtures.lakes import NOTES, make_notes, notes

SETTINGS = Settings(
    compaction=CompactionSettings(min_eligible_segments=2),
    maintenance=MaintenanceSettings(min_gain=1.0),  # so that compact alone has something to do
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    """Of a table with a quiet scope, one that may be compacted, and one with as many files and a pending row."""
    with Lakehouse.open(str(tmp_path), settings=SETTINGS) as lake:
        table = make_notes(lake)
        for turn in range(3):
            for user in ("bob", "cyd") if turn else ("ann", "bob", "cyd"):
                table.write(notes({turn: "text"}), user=user)
            lake.flush()
        table.write(notes({9: "hot"}), user="cyd")
        yield lake


def _of_notes(found: Overview) -> TableStatus:
    (table,) = found.tables
    return table


@pytest.mark.disk
def test_tables_are_counted_and_the_worst_scopes_named_without_opening_one(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewarden.maintenance.planning.status.OPENED", 0)
    monkeypatch.setattr("lakewarden.delta.scope.open_place", None)
    found = lake.overview()
    table = _of_notes(found)
    assert (table.table, table.scopes, table.rows, table.files, table.error) == (NOTES, 3, 7, 7, None)
    assert (table.scopes_pending, table.pending_rows, table.scopes_unknown) == (1, 1, 0)
    assert (table.scopes_to_compact, table.scopes_to_optimize, table.scopes_to_vacuum) == (2, 0, 0)
    assert table.last_commit is not None
    cyd, bob = found.scopes
    assert (cyd.user, cyd.pending_rows, cyd.files, cyd.last_operation) == ("cyd", 1, 3, "WRITE")
    assert "by hand" in cyd.reason
    assert (bob.user, bob.pending_rows, bob.files, bob.reason) == ("bob", 0, 3, "may need compact")
    assert cyd.bytes is not None
    assert bob.bytes is not None
    assert 0 < bob.bytes + cyd.bytes < table.bytes


@pytest.mark.slow
@pytest.mark.disk
def test_the_list_is_bounded_and_the_numbers_are_not(lake: Lakehouse) -> None:
    assert [one.user for one in lake.overview(1).scopes] == ["cyd"]
    assert lake.overview(0).scopes == ()
    assert _of_notes(lake.overview(0)).scopes_to_compact == 2
    assert lake.status(0) == []
    for user in ("dan", "eve"):
        for turn in range(3):
            lake.table(NOTES).write(notes({turn: "text"}), user=user)
            lake.flush(NOTES, user=user)
    (table,) = health(lake.warehouse, files_of=2)
    assert table.status.scopes_to_compact == 4
    assert [(one.count, len(one.examples)) for one in table.worst if one.severity == "many files"] == [(4, 1)]
    assert lake.overview().reasons == {NOTES: {"may need compact": 4}}


@pytest.mark.slow
@pytest.mark.disk
def test_the_sums_are_kept_as_long_as_the_floor_is_the_same(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "_WORTH_KEEPING", 0)
    before = _of_notes(lake.overview())
    with monkeypatch.context() as unread:
        unread.setattr("lakewarden.catalog.state.floor_summaries.Totals.of", None)
        assert _of_notes(lake.overview()).files == before.files
    lake.compact()
    after = _of_notes(lake.overview())
    assert (after.rows, after.files, after.scopes_to_compact) == (before.rows, 3, 0)
    assert len(lake.warehouse.state.list("totals")) == 1
    lake.sql(f"DROP TABLE {NOTES}")
    assert not lake.warehouse.state.list("totals")


@pytest.mark.disk
def test_what_a_lost_state_does_not_know_is_counted_until_it_is_looked_at(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(Path(lake.warehouse.state.uri) / "known")
    floor_at.cache_clear()
    monkeypatch.setattr("lakewarden.maintenance.planning.status.OPENED", 0)
    lost = lake.overview()
    assert (_of_notes(lost).scopes, _of_notes(lost).scopes_unknown) == (3, 3)
    assert next((one.user, one.version, one.files) for one in lost.scopes) == ("cyd", 2, None)
    lake.compact()
    found = _of_notes(lake.overview())
    assert (found.scopes_unknown, found.rows, found.files) == (0, 7, 3)


@pytest.mark.disk
def test_a_floor_that_cannot_be_read_hides_no_log(lake: Lakehouse) -> None:
    for path in (Path(lake.warehouse.state.uri) / "known").glob("*/*"):
        path.write_bytes(b"torn")
    floor_at.cache_clear()
    table = _of_notes(lake.overview())
    assert (table.pending_rows, table.rows) == (1, 0)
    assert "lakewarden repair" in str(table.error)
