"""A process that is killed at any step of an operation, and then the plain same again: no row lost, none twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.compact.procedure import plan_compact
from lakewarden.maintenance.engine import WorkEngine, silent
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.procedure import plan_optimize
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.scope import plan_vacuum
from lakewarden.storage.steps import alone
from lakewarden.tables.client import TableClient
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.fixtures.lakes import (
    NOTES,
    Rows,
    check_manifest,
    cold_seqs,
    eventual,
    hot_seqs,
    keys,
    log_files,
    make_notes,
    notes,
    scope_path,
    strong,
)
from tests.maintenance.steps import ruled

_USERS = ("ann", "bob")
_WAITS = "cyd"
"""A user whose rows share the segments of the others and are not flushed with them."""

_FLUSH = (
    "planned",
    "drain:opened",
    "drain:read",
    "after-read",
    "after-data-file",
    "before-link",
    "after-commit",
    "after-manifest",
    "drain:committed",
    "after-commits",
    "after-sync",
    "after-floors",
    "settle:carried",
    "settle:cut",
    "settle:confirmed",
    "clean:removed",
)

_BEFORE: Rows = {key: f"old {key}" for key in range(10)}


@dataclass(frozen=True)
class Batch:
    """What is pending when the process dies."""

    before: Rows
    upserts: Rows
    deletes: tuple[int, ...] = ()

    @property
    def after(self) -> Rows:
        return {key: text for key, text in (self.before | self.upserts).items() if key not in self.deletes}


_BATCHES = {
    "first": Batch({}, {1: "a", 2: "b", 3: "c"}, deletes=(3, 99)),
    "merge": Batch(_BEFORE, {3: "new 3", 5: "new 5", 77: "new"}, deletes=(4, 5, 1_000)),
    "append": Batch(_BEFORE, {100: "a", 101: "b"}),
}


def _flush_and_reach(uri: str, reach: Reach) -> list[ScopeReport]:
    with Lakehouse.open(uri) as lake:
        run = WorkEngine(lake.warehouse.settings, silent, None).run
        return flush_scopes(lake.warehouse, run, _too_large, lambda scope: scope.user in _USERS, reach=reach)


def _too_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


def _flush_until(uri: str, place: str) -> None:
    _flush_and_reach(uri, killed_at(place))


def _prepare(lake: Lakehouse, batch: Batch) -> TableClient:
    table = make_notes(lake)
    users = (*_USERS, _WAITS)
    if batch.before:
        table.write([{**row, "user": user} for user in users for row in notes(batch.before)], user_column="user")
        lake.flush()
    table.write([{**row, "user": user} for user in users for row in notes(batch.upserts)], user_column="user")
    if batch.deletes:
        table.delete([{**row, "user": user} for user in users for row in keys(batch.deletes)], user_column="user")
    return table


@pytest.mark.both_stores
@pytest.mark.parametrize("name", _BATCHES)
def test_a_flush_passes_every_place(warehouse_uri: str, name: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        _prepare(lake, _BATCHES[name])
        reached: list[str] = []
        reports = _flush_and_reach(warehouse_uri, reached.append)
        assert set(reached) == set(_FLUSH)
        operation = "MERGE" if name == "merge" else "WRITE"
        assert {report.outcome for report in reports} == {"done"}
        assert {lake.table(NOTES).history(user=user)[0].operation for user in _USERS} == {operation}


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize("place", _FLUSH)
@pytest.mark.parametrize("name", _BATCHES)
def test_a_killed_flush_is_made_good_by_the_next(warehouse_uri: str, name: str, place: str) -> None:
    batch = _BATCHES[name]
    with Lakehouse.open(warehouse_uri) as lake:
        table = _prepare(lake, batch)
        seqs = {user: (cold_seqs(lake, user) if batch.before else {}) | hot_seqs(table, user) for user in _USERS}

        assert exit_status(_flush_until, warehouse_uri, place) == KILLED

        assert all(strong(table, user) == batch.after for user in (*_USERS, _WAITS))
        for user in _USERS:
            lake.flush(NOTES, user=user)
        for user in _USERS:
            assert strong(table, user) == eventual(table, user) == batch.after
            assert cold_seqs(lake, user) == {key: seq for key, seq in seqs[user].items() if key in batch.after}
            check_manifest(lake, user)
        assert [one.user for one in lake.pending()] == [_WAITS]
        assert eventual(table, _WAITS) == batch.before
        _check_that_the_log_empties(lake, table, batch)


def _check_that_the_log_empties(lake: Lakehouse, table: TableClient, batch: Batch) -> None:
    """What a killed cleanup left goes with the next one."""
    assert [report.fault for report in lake.flush()] == [None]
    table.write(notes({1: "last"}), user=_WAITS)
    lake.flush()
    assert strong(table, _WAITS) == eventual(table, _WAITS) == batch.after | {1: "last"}
    assert lake.pending() == []
    assert log_files(lake) == []


# Compact, optimize, vacuum and restore


def _target(lake: Lakehouse) -> ScopeTarget:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "ann"))


def _in_days(days: int) -> Callable[[], datetime]:
    return lambda: datetime.now(UTC) + timedelta(days=days)


def _compact(target: ScopeTarget, reach: Reach) -> ScopeReport:
    plan = plan_compact(ruled(target), CompactOptions(), now=_in_days(0)())
    return alone(plan.run(job_id="CO-1", clock=_in_days(0), new_id=random_id, reach=reach))


def _optimize(target: ScopeTarget, reach: Reach) -> ScopeReport:
    plan = plan_optimize(target, OptimizeOptions(), now=_in_days(0)())
    return alone(plan.run(job_id="OP-1", clock=_in_days(0), new_id=random_id, reach=reach))


def _vacuum(target: ScopeTarget, reach: Reach) -> ScopeReport:
    plan = plan_vacuum(target, VacuumOptions(), now=_in_days(9)())
    return alone(plan.run(job_id="VA-1", clock=_in_days(9), new_id=random_id, reach=reach))


def _restore(target: ScopeTarget, reach: Reach) -> ScopeReport:
    plan = plan_restore(target, RestoreOptions(version=1), now=_in_days(0)())
    return alone(plan.run(job_id="RS-1", clock=_in_days(0), new_id=random_id, reach=reach))


_OPERATIONS: dict[str, tuple[Callable[[ScopeTarget, Reach], ScopeReport], tuple[str, ...]]] = {
    "compact": (_compact, ("after-read", "after-data-file", "before-link", "after-commit", "after-manifest")),
    "optimize": (_optimize, ("after-data-file", "before-link", "after-commit", "after-manifest")),
    "vacuum": (_vacuum, ("after-start", "after-log", "during-deletes", "after-deletes", "after-end")),
    "restore": (_restore, ("after-read", "before-link", "after-commit", "after-manifest")),
}
_PLACES = [(name, place) for name, (_, places) in _OPERATIONS.items() for place in places]


def _run_until(uri: str, name: str, place: str) -> None:
    with Lakehouse.open(uri) as lake:
        _OPERATIONS[name][0](_target(lake), killed_at(place))


def _several_files(lake: Lakehouse) -> TableClient:
    """Three appended files, and two versions' worth of replaced ones."""
    table = make_notes(lake)
    for upserts in ({1: "a", 2: "b"}, {1: "c"}, {11: "d"}, {21: "e"}, {31: "f"}):
        table.write(notes(upserts), user="ann")
        lake.flush()
    return table


_ALL: Rows = {1: "c", 2: "b", 11: "d", 21: "e", 31: "f"}


@pytest.mark.both_stores
@pytest.mark.parametrize("name", _OPERATIONS)
def test_an_operation_passes_every_place(warehouse_uri: str, name: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        _several_files(lake)
        reached: list[str] = []
        operate, places = _OPERATIONS[name]
        assert operate(_target(lake), reached.append).outcome == "done"
        assert set(reached) == set(places)


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), _PLACES)
def test_a_killed_operation_is_made_good_by_the_next(warehouse_uri: str, name: str, place: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = _several_files(lake)
        table.write(notes({2: "hot"}), user="ann")
        seqs = cold_seqs(lake, "ann")

        assert exit_status(_run_until, warehouse_uri, name, place) == KILLED

        before = eventual(table, "ann")
        assert before in ([_ALL, {1: "c", 2: "b"}] if name == "restore" else [_ALL])
        assert strong(table, "ann") == before | {2: "hot"}

        operate = _OPERATIONS[name][0]
        again = operate(_target(lake), no_faults)
        assert again.fault is None
        rows = {1: "c", 2: "b"} if name == "restore" else _ALL
        assert eventual(table, "ann") == rows
        assert strong(table, "ann") == rows | {2: "hot"}
        assert cold_seqs(lake, "ann") == {key: seqs[key] for key in rows}
        if again.outcome == "done":  # else the next flush renews it, as below
            check_manifest(lake, "ann")

        assert [report.outcome for report in lake.flush()] == ["done"]
        assert strong(table, "ann") == eventual(table, "ann") == rows | {2: "hot"}
        check_manifest(lake, "ann")
        if name == "vacuum":
            lying = list(scope_path(lake, "ann").glob("*.parquet"))
            live = DeltaTable(str(scope_path(lake, "ann"))).file_uris()
            assert len(lying) == len(live) + 1  # the file that the last flush replaced


@pytest.mark.slow
def test_what_a_crash_left_is_told_and_goes_a_day_later(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = _several_files(lake)
        assert _orphans(lake) == ""
        table.write(notes({2: "hot"}), user="ann")
        assert exit_status(_run_until, warehouse_uri, "compact", "after-data-file") == KILLED
        assert _orphans(lake).startswith("1 files of ")
        assert ", the oldest 0.0 hours old; 0 are older than 24 hours" in _orphans(lake)
        lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False)
        assert _orphans(lake).startswith("1 files of "), "its writer might still commit it"
    with Lakehouse.open(warehouse_uri, clock=_in_days(2)) as later:
        assert "the oldest 48.0 hours old; 1 are older than 24 hours" in _orphans(later)
        later.vacuum(NOTES, retain_hours=0, force=True, dry_run=False)
        assert _orphans(later) == ""
        assert strong(table, "ann") == _ALL | {2: "hot"}


def _orphans(lake: Lakehouse) -> str:
    (finding,) = [found for found in lake.check() if found.check == "orphans"]
    assert finding.passed
    return finding.message
