"""Restores of real tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from lakewarden.base.clock import random_id
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, InvalidArgument, NotFound
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, PEOPLE, flush, paths, people, rows_of, schema, table_of, target
from tests.maintenance.steps import (
    Died,
    batches,
    compact,
    data_files,
    dies,
    later,
    manifest_paths,
    operations,
    restore,
    set_time,
    then,
    vacuum,
)

pytestmark = pytest.mark.both_stores("disk")

_NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.both_stores
def test_rows_come_back_and_go_again(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    flush(scope, people(1, name="new"), first_seq=10, deletes=people(0))
    newest = rows_of(scope)
    report = restore(scope, 1)
    assert rows_of(scope) == people(*range(4))
    assert paths(scope) == paths(scope, 1) == manifest_paths(scope)
    assert (report.outcome, report.version) == ("done", 3)
    assert report.metrics["rows_added"] == 2
    assert report.metrics["rows_removed"] == 1
    assert report.parameters == {"version": "1"}
    assert operations(scope)[0] == "RESTORE"
    restore(scope, 2)
    assert rows_of(scope) == newest


def test_the_watermark_stays(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    report = restore(scope, 0)
    assert table_of(scope).watermark(APP) == 5
    assert report.state is not None
    assert report.state.last_seq == 5
    batches(scope, 1, first=3)
    assert rows_of(scope) == people(0, 1, 6, 7)
    assert {path.split("-")[1] for path in paths(scope)} == {"0", "3"}


def test_the_plan_says_what_would_come_and_go(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 1)
    flush(scope, people(0, 1, 2, name="new"), first_seq=5)
    plan = plan_restore(scope, RestoreOptions(version=0), now=later()())
    assert str(plan) == (
        "restore chat.people[u_1] at version 1: back to version 0: adds 1 files with 2 rows, removes 1 files with 3 rows"
    )
    report = plan.report()
    assert report.outcome == "planned"
    assert set(report.files) == {f"+{path}" for path in paths(scope, 0)} | {f"-{path}" for path in paths(scope)}
    assert (report.metrics["rows_added"], report.metrics["rows_removed"]) == (2, 3)
    assert table_of(scope).version == 1


def test_at_that_state_already(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    assert (restore(scope, 1).outcome, restore(scope, 1).reason) == ("skipped", "it is already in the state of version 1")
    restore(scope, 0)
    assert restore(scope, 0).outcome == "skipped"
    assert table_of(scope).version == 2


def test_to_an_empty_version(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, deletes=people(1))
    batches(scope, 1, first=1)
    restore(scope, 0)
    assert rows_of(scope) == []
    restore(scope, 1)
    assert rows_of(scope) == people(2, 3)


def test_statistics_come_back_as_they_were(tmp_path: Path) -> None:
    columns = schema(
        "id BIGINT NOT NULL", "d DECIMAL(10,2)", "f DOUBLE", "t TEXT", "day DATE", "at TIMESTAMP", "b BOOLEAN", "raw BYTES"
    )
    scope = target(tmp_path / "t", columns)
    row = {
        "id": 1,
        "d": Decimal("-12.30"),
        "f": -0.5,
        "t": 'quote " and ünï' + "x" * 80,
        "day": _NOON.date(),
        "at": _NOON + timedelta(microseconds=7),
        "b": True,
        "raw": b"\x00",
    }
    flush(scope, [row])
    before = table_of(scope).stats
    flush(scope, deletes=[row], first_seq=1)
    restore(scope, 0)
    assert table_of(scope).stats == before
    assert rows_of(scope) == [row]


def test_rows_of_an_older_schema_come_under_the_newest(tmp_path: Path) -> None:
    first = target(tmp_path / "t", PEOPLE)
    batches(first, 1)
    wider = target(tmp_path / "t", PEOPLE, schema("id BIGINT NOT NULL", "name TEXT", "age INT", version=2))
    flush(wider, [{"id": 9, "name": "x", "age": 3}], first_seq=9)
    restore(wider, 0)
    assert rows_of(wider) == [row | {"age": None} for row in people(0, 1)]
    assert "age" in {column.name for column in table_of(wider).columns}
    flush(wider, [{"id": 1, "name": "y", "age": 4}], first_seq=20)
    assert rows_of(wider)[1] == {"id": 1, "name": "y", "age": 4}


def test_the_way_out_of_another_writers_columns(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    DeltaTable(scope.uri).alter.add_columns(Field("extra", PrimitiveType("long")))
    restore(scope, 1)
    assert rows_of(scope) == people(*range(4))
    assert manifest_paths(scope) == paths(scope)
    batches(scope, 1, first=2)
    assert rows_of(scope) == people(*range(6))


@pytest.mark.both_stores
def test_by_timestamp(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    for version in range(3):
        set_time(scope, version, _NOON + timedelta(hours=version))
    plan = plan_restore(scope, RestoreOptions(timestamp=_NOON + timedelta(hours=1)), now=later()())
    assert plan.to == 1
    assert plan.parameters == {"version": "1", "timestamp": "2026-05-01T13:00:00.000+00:00"}
    assert plan_restore(scope, RestoreOptions(timestamp=_NOON.replace(tzinfo=None)), now=later()()).to == 0
    assert restore(scope, timestamp=_NOON + timedelta(days=300)).reason == "it is already in the state of version 2"
    with pytest.raises(NotFound, match=r"no version from 2026-05-01T11:00:00.*versions 0 to 2 still work"):
        restore(scope, timestamp=_NOON - timedelta(hours=1))


def test_by_timestamp_under_clock_skew_the_order_is_by_version(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 4)
    for version, hour in enumerate([0, 5, 1, 6]):
        set_time(scope, version, _NOON + timedelta(hours=hour))
    found = [plan_restore(scope, RestoreOptions(timestamp=_NOON + timedelta(hours=hour)), now=later()()).to for hour in range(7)]
    assert found == [0, 0, 0, 0, 0, 2, 3]


@pytest.mark.parametrize("options", [RestoreOptions(), RestoreOptions(1, _NOON)])
def test_exactly_one_of_version_and_timestamp(tmp_path: Path, options: RestoreOptions) -> None:
    with pytest.raises(InvalidArgument, match="name either a version to go back to"):
        plan_restore(target(tmp_path / "t"), options, now=later()())


@pytest.mark.parametrize("version", [-1, 2, 99])
def test_a_missing_version(tmp_path: Path, version: int) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    with pytest.raises(NotFound, match=rf"there is no version {version}; versions 0 to 1 still work"):
        restore(scope, version)


def test_a_scope_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing was ever flushed"):
        restore(target(tmp_path / "t"), 0)


@pytest.mark.both_stores
def test_vacuumed_versions_are_refused(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    compact(scope)
    batches(scope, 1, first=2)
    vacuum(scope, 8)
    for version in (0, 1, 2):
        with pytest.raises(NotFound, match=rf"version {version} was removed by a vacuum.*versions 3 to 5 still work"):
            restore(scope, version)
    restore(scope, 4)
    assert rows_of(scope) == people(*range(6))


def test_a_file_that_somebody_deleted(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    compact(scope)
    (tmp_path / "t" / min(paths(scope, 0))).unlink()
    with pytest.raises(NotFound, match="1 of the files of version 1 are missing; versions 2 to 2 still work"):
        restore(scope, 1)
    assert table_of(scope).version == 2


@pytest.mark.both_stores
def test_a_file_that_vanishes_after_the_plan(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 2)
    compact(scope)
    plan = plan_restore(scope, RestoreOptions(version=0), now=later()())
    (tmp_path / "t" / min(paths(scope, 0))).unlink()
    with pytest.raises(NotFound, match="vanished"):
        alone(plan.run(job_id="RS-1", clock=later(), new_id=random_id))


def test_it_is_strict(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    with pytest.raises(Conflict):
        restore(scope, 0, reach=then("after-read", lambda: batches(scope, 1, first=3)))
    assert rows_of(scope) == people(*range(8))
    plan = plan_restore(scope, RestoreOptions(version=0), now=later()())
    batches(scope, 1, first=4)
    with pytest.raises(Conflict, match="planned at version 3, and there is version 4 now"):
        alone(plan.run(job_id="RS-1", clock=later(), new_id=random_id))


@pytest.mark.both_stores
@pytest.mark.parametrize("step", ["after-read", "after-commit", "after-manifest"])
def test_killed_at_any_step_and_run_again(tmp_path: Path, step: str) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    with pytest.raises(Died):
        restore(scope, 0, reach=dies(step))
    restore(scope, 0)
    assert rows_of(scope) == people(0, 1)
    assert operations(scope).count("RESTORE") == 1


def test_old_versions_are_there_after_it(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    restore(scope, 0)
    assert [len(ScopeTable.open(scope.location, version).files()) for version in range(4)] == [1, 2, 3, 1]  # type: ignore[union-attr]
    assert len(data_files(scope)) == 3
