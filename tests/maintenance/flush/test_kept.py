"""What is kept of scopes, through whole operations: they rely on it where it is right, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.kept_versions import KEPT_VERSIONS, NAME, kept_snapshot
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.sql.results import ResultRows
from lakewarden.storage.open import open_store
from lakewarden.tables.fanout import in_process
from tests.delta.scopes import remember
from tests.fixtures.lakes import NOTES, check_manifest, cold_seqs, eventual, make_notes, notes, strong
from tests.maintenance.steps import Died, dies

_WHO = "ann"
_SETTINGS = Settings(compaction=CompactionSettings(min_eligible_segments=2))


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """A scope with two versions, of a file each."""
    with Lakehouse.open(warehouse_uri, settings=_SETTINGS) as opened:
        make_notes(opened)
        _flush(opened, {1: "a"})
        _flush(opened, {11: "b"})
        yield opened


def _flush(lake: Lakehouse, rows: dict[int, str]) -> None:
    lake.table(NOTES).write(notes(rows), user=_WHO)
    assert [(report.outcome, report.reason) for report in lake.flush(NOTES)] == [("done", "")]


def _target(lake: Lakehouse) -> ScopeTarget:
    warehouse = lake.warehouse
    return warehouse.target(warehouse.catalog.read(), Scope(TableName.parse(NOTES), _WHO))


def _opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(location: Location, version: int | None = None) -> None:
        raise AssertionError(f"{location} was opened, at version {version}")

    monkeypatch.setattr("lakewarden.delta.table.replay", opened)


@pytest.mark.both_stores
def test_what_knows_the_scope_opens_nothing(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    _opens_nothing(monkeypatch)
    table = lake.table(NOTES)
    _flush(lake, {1: "c", 21: "d"})
    expected = {1: "c", 11: "b", 21: "d"}
    assert strong(table, _WHO) == eventual(table, _WHO) == expected
    assert [report.outcome for report in lake.compact(NOTES)] == ["done"]
    assert [report.outcome for report in lake.compact(NOTES)] == ["skipped"]
    assert [report.outcome for report in lake.optimize(NOTES, zorder=["text"])] == ["done"]
    assert [entry.version for entry in table.history(user=_WHO)] == [4, 3, 2, 1, 0]
    table.write(notes({31: "e"}), user=_WHO)
    assert [status.version for status in lake.status()] == [4]
    assert [report.outcome for report in lake.flush(NOTES)] == ["done"]
    monkeypatch.undo()
    assert set(cold_seqs(lake, _WHO)) == {*expected, 31}
    check_manifest(lake, _WHO)


@pytest.mark.both_stores
def test_a_manifest_that_stayed_behind_costs_a_try(lake: Lakehouse) -> None:
    """The process that committed died before it wrote the manifest: a job that relies on the older one is refused and looks."""
    target = _target(lake)
    old = open_store(target.location).get(NAME)
    _flush(lake, {1: "c"})
    KEPT_VERSIONS.forget(target.manifest_key)
    open_store(target.location).replace(NAME, old)
    _flush(lake, {1: "d"})
    assert eventual(lake.table(NOTES), _WHO) == {1: "d", 11: "b"}
    check_manifest(lake, _WHO)


@pytest.mark.both_stores
def test_a_commit_that_nothing_knows_of_is_found_by_the_second_try(lake: Lakehouse) -> None:
    """A process died behind its commit: neither the manifest nor a floor says that there is a newer version."""
    lake.table(NOTES).write(notes({1: "c"}), user=_WHO)
    old = open_store(_target(lake).location).get(NAME)
    with pytest.raises(Died):
        flush_scopes(
            lake.warehouse,
            lambda work, items: in_process(work, items, lambda done: None),
            _never_large,
            lambda scope: True,
            reach=dies("after-commit"),
        )
    assert open_store(_target(lake).location).get(NAME) == old
    assert [(report.outcome, report.reason) for report in lake.flush(NOTES)] == [("skipped", "the rows were flushed meanwhile")]
    assert lake.pending() == []
    assert eventual(lake.table(NOTES), _WHO) == {1: "c", 11: "b"}
    check_manifest(lake, _WHO)


def _never_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


@pytest.mark.slow
@pytest.mark.both_stores
def test_what_was_kept_before_an_erasure_brings_nothing_back(lake: Lakehouse) -> None:
    target = _target(lake)
    old = open_store(target.location).get(NAME)
    lake.erase(_WHO, tables=[NOTES])
    assert not open_store(target.location).has(NAME)
    for where in ("memory", "store"):
        if where == "store":
            open_store(target.location).replace(NAME, old)
        remember(target, old)
        assert strong(lake.table(NOTES), _WHO) == {}
        _flush(lake, {5: where})
        assert eventual(lake.table(NOTES), _WHO) == {5: where}
        lake.erase(_WHO, tables=[NOTES])


@pytest.mark.disk
def test_a_copy_of_the_warehouse_knows_nothing(lake: Lakehouse, warehouse_uri: str) -> None:
    """The location is under the MAC."""
    assert kept_snapshot(_target(lake), newest=True) is not None
    shutil.copytree(warehouse_uri, f"{warehouse_uri}-copy")
    with Lakehouse.open(f"{warehouse_uri}-copy") as copy:
        assert kept_snapshot(_target(copy), newest=True) is None
        _flush(copy, {1: "copied"})
        assert kept_snapshot(_target(copy), newest=True) is not None
        assert eventual(copy.table(NOTES), _WHO) == {1: "copied", 11: "b"}
    assert eventual(lake.table(NOTES), _WHO) == {1: "a", 11: "b"}


@pytest.mark.disk
def test_users_and_logs_have_keys_of_their_own(lake: Lakehouse) -> None:
    warehouse = lake.warehouse
    catalog = warehouse.catalog.read()
    keys = {warehouse.target(catalog, Scope(TableName.parse(NOTES), user)).manifest_key for user in ("ann", "bob")}
    assert len(keys) == 2
    assert "" not in keys
    assert all(key not in repr(_target(lake)) for key in keys)


@pytest.mark.disk
def test_no_values_of_columns_are_shown(lake: Lakehouse) -> None:
    text = Path(_target(lake).uri, NAME).read_text()
    assert {"snapshot", "mac"} <= json.loads(text).keys()
    (found,) = lake.sql("SELECT manifest_json FROM system.manifest")
    assert isinstance(found, ResultRows)
    shown = json.loads(str(found.values()[0][0]))
    assert not {"snapshot", "mac"} & shown.keys()
    assert all("stats" not in segment for segment in shown["segments"])
    assert shown["delta_version"] == 1
