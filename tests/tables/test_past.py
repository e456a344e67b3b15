"""Reads a scope as of versions of its past: rows, columns, and what is said where a version is not there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.fence import fence_settled
from lakewarden.delta.past import AsOf
from lakewarden.delta.reading.bounds import Bound
from lakewarden.errors import Corrupt, InvalidArgument, LakewardenError, NotFound
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from lakewarden.tables.strong_read import EVERYTHING, PastScope, ReadSelection, past_of
from tests.delta.scopes import Row, by, column, flush, hot, opened, people, rows_of, schema, table_of, target
from tests.fixtures.bucket import path_of
from tests.maintenance.steps import batches, compact, data_files, restore, set_time, vacuum

_NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
_NOW = _NOON + timedelta(hours=1)


def _past(scope: ScopeTarget, version: int | None = None, timestamp: datetime | str | None = None) -> PastScope:
    as_of = AsOf.of(version, timestamp)
    assert as_of is not None
    return past_of(lambda: scope, as_of, _NOW)


def _rows(scope: ScopeTarget, version: int | None = None, timestamp: datetime | str | None = None) -> list[Row]:
    rows = _past(scope, version, timestamp).rows(EVERYTHING).drop_columns(["_seq"]).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def _timed(scope: ScopeTarget, *minutes: int) -> None:
    """Commits so many minutes after noon."""
    for version, minute in enumerate(minutes):
        batches(scope, 1, first=version)
        set_time(scope, version, _NOON + timedelta(minutes=minute))


@pytest.mark.both_stores
def test_each_version_has_the_rows_that_it_had(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    flush(scope, people(1, name="new"), first_seq=10, deletes=people(0))
    compact(scope)
    assert [_rows(scope, version) for version in range(4)] == [
        people(0, 1),
        people(0, 1, 2, 3),
        (newest := [*people(1, name="new"), *people(2, 3)]),
        newest,
    ]
    restore(scope, 0)
    assert _rows(scope, 4) == people(0, 1)
    assert _rows(scope, 3) == newest


@pytest.mark.both_stores
def test_a_moment_means_the_version_that_was_the_newest_then(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    _timed(scope, 0, 10, 20)
    assert _rows(scope, timestamp=_NOON) == people(0, 1)
    assert _rows(scope, timestamp="2026-05-01 12:09:59.999999") == people(0, 1)
    assert _rows(scope, timestamp="2026-05-01T14:10:00+02:00") == people(0, 1, 2, 3)
    assert _rows(scope, timestamp=datetime(2026, 5, 1, 12, 15)) == people(0, 1, 2, 3)  # noqa: DTZ001  # without a zone it is UTC
    assert _rows(scope, timestamp=_NOW) == rows_of(scope)  # a quiet scope: its newest version is older
    with pytest.raises(NotFound, match=r"no version from 2026-05-01T11:59:59.*; versions 0 to 2 still work"):
        _past(scope, timestamp=_NOON - timedelta(seconds=1))
    with pytest.raises(NotFound, match=r"still to come.*newest version 2 is of 2026-05-01T12:20:00"):
        _past(scope, timestamp=_NOW + timedelta(seconds=1))


def test_versions_are_in_order_whatever_the_clocks_of_their_writers_said(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    _timed(scope, 30, 10, 20, 90)
    with pytest.raises(NotFound):
        _past(scope, timestamp=_NOON + timedelta(minutes=29))
    assert _past(scope, timestamp=_NOON + timedelta(minutes=30)).table.version == 2
    assert _past(scope, timestamp=_NOON + timedelta(minutes=90)).table.version == 3  # its writer's clock is ahead of ours


@pytest.mark.parametrize(
    ("version", "timestamp", "message"),
    [
        (-1, None, "versions count from 0"),
        (2**63, None, "64 bits"),
        (True, None, "True is not a version"),
        ("1", None, "'1' is not a version"),
        (None, "2026-13-01", "'2026-13-01' is not a timestamp"),
        (None, 5, "5 is not a timestamp"),
        (1, "2026-05-01", "one of the two"),
    ],
)
def test_what_is_no_version_is_refused(version: object, timestamp: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        AsOf.of(version, timestamp)


def test_a_version_has_the_columns_that_it_had(tmp_path: Path) -> None:
    before = schema("id BIGINT NOT NULL", "name TEXT", "age INT")
    scope = target(tmp_path / "t", before)
    flush(scope, [{"id": 1, "name": "Ada", "age": 36}])
    columns = (before.columns[0], column(2, "called TEXT"), column(4, "name TEXT"))  # renamed, dropped, its name taken
    after = type(before)(2, columns, ("id",))
    later = target(tmp_path / "t", before, after)
    cold = opened(later)
    alone(cold.commit(hot(after, [{"id": 2, "called": "Bob", "name": "new"}], first_seq=5), 5))
    assert _rows(later, 0) == [{"id": 1, "name": "Ada", "age": 36}]
    assert _past(later, 0).schema == before
    assert _rows(later, 1) == [{"id": 1, "called": "Ada", "name": None}, {"id": 2, "called": "Bob", "name": "new"}]
    wanted = ReadSelection(("age", "name"), (Bound("name", "Ada", "Ada"),))
    assert _past(later, 0).rows(wanted).to_pylist() == [{"age": 36, "name": "Ada"}]


def test_only_the_files_of_the_version_that_may_have_a_row_are_read(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    past = _past(scope, 2)
    outside, within, newest = (file.path for file in table_of(scope, 2).files())
    for path in (outside, newest):
        (path_of(scope.uri) / path).unlink()
    assert past.rows(ReadSelection(("id",), (Bound("id", 2, 3),))).num_rows == 2
    (path_of(scope.uri) / within).unlink()
    with pytest.raises(Corrupt):  # the newest version has lost its files
        past.rows(ReadSelection(("id",), (Bound("id", 2, 3),)))


@pytest.mark.both_stores
def test_vacuumed_versions_are_not_found(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    compact(scope)
    opened_before = _past(scope, 1)
    vacuum(scope, days=30)
    assert len(data_files(scope)) == 1
    for version in (0, 2):
        with pytest.raises(NotFound, match=f"version {version} .*; versions 3 to 5 still work"):
            _past(scope, version).rows(EVERYTHING)
    with pytest.raises(NotFound, match="of the files of version 1 are missing; versions 3 to 5 still work"):
        opened_before.rows(EVERYTHING)
    assert _rows(scope, 3) == rows_of(scope)
    with pytest.raises(NotFound, match="there is no version 6; versions 3 to 5 still work"):
        _past(scope, 6)


@pytest.mark.both_stores
def test_nothing_below_a_fence_can_be_read(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    fence = alone(fence_settled(scope, 10, by("ER-1"), lambda: None))
    for version in range(fence):
        with pytest.raises(NotFound, match=f"versions {fence} to {fence} still work"):
            _rows(scope, version)
    assert _rows(scope, fence) == []
    flush(scope, people(7), first_seq=20)
    assert _rows(scope, fence + 1) == people(7)
    with pytest.raises(NotFound, match=f"versions {fence} to {fence + 1} still work"):
        _rows(scope, 0)


def test_a_scope_without_a_table_has_no_version(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for given in ((0, None), (None, _NOON)):
        with pytest.raises(NotFound, match="no version: nothing was ever flushed there"):
            _past(scope, *given)


def test_damage_is_not_taken_for_a_version_that_expired(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    (path_of(scope.uri) / "_delta_log" / f"{1:020d}.json").write_text("{")
    with pytest.raises(LakewardenError) as failed:
        _past(scope, 1)
    assert failed.value.code == "CORRUPT"


def test_a_scope_that_moves_is_read_at_its_new_place(tmp_path: Path) -> None:
    scope = target(tmp_path / "old")
    batches(scope, 2)
    old, new = open_store(scope.location), target(tmp_path / "new")
    places = [scope, scope]
    past = past_of(lambda: places.pop() if places else new, AsOf(version=0), _NOW)
    for key in [found.key for found in old.list("")]:
        open_store(new.location).put(key, old.get(key))
        old.delete([key])
    assert past.rows(EVERYTHING).num_rows == 2
