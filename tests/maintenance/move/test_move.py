"""Moving a table: every row, version, tag and file comes along, whatever is written, read, flushed or killed meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import CarriedClock
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import LockSettings
from lakewarden.base.settings import Settings
from lakewarden.base.threads import at_once
from lakewarden.catalog.access import OPERATOR
from lakewarden.catalog.changes.users import UserChange
from lakewarden.catalog.evolution import SetOptions
from lakewarden.catalog.model import User
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.session_gate import Door
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.catalog.state.erasures import Erasure
from lakewarden.catalog.state.job_log import AlreadyActive
from lakewarden.catalog.state.scope_registry import RegisteredUsers, ScopeRegistry
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle import copying
from lakewarden.delta.lifecycle.states import freeze, is_frozen
from lakewarden.delta.reading import rows
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, InUse, InvalidArgument, LakewardenError, NotFound, Transient, Unsupported
from lakewarden.maintenance.admin.users import change_user, create_user
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.move.run import Mover, MoveTask, copy_scope, move_scope
from lakewarden.maintenance.runner import JobStopped
from lakewarden.storage.location import local_path
from lakewarden.storage.steps import Steps, alone
from lakewarden.tables import files as filing
from lakewarden.tables import strong_read as read
from lakewarden.tables.client import TableClient
from lakewarden.tables.fanout import Run, SizedWork, in_process
from lakewarden.tables.strong_read import read_cold, read_strong
from tests.delta.scopes import by
from tests.fixtures.bucket import path_of
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.fixtures.lakes import NOTES, Rows, eventual, hot_ids, make_notes, notes, strong
from tests.fixtures.patience import PATIENCE
from tests.fixtures.sleepers import Sleeper
from tests.maintenance.erase.test_erase import Died, run_erase

pytestmark = pytest.mark.slow

T = TypeVar("T")
R = TypeVar("R")

_NAME = TableName.parse(NOTES)
_USERS = ("ann", "bob")
_COLD: Rows = {key: f"text {key}" for key in range(4)}
_HOT: Rows = {3: "newer", 9: "hot"}
_ALL = _COLD | _HOT
_STEPS = ("move:begun", "move:copied", "move:closed", "move:frozen", "move:switched", "move:left")
_BEFORE_SWITCH = _STEPS[:4]


def _cold(uri: str) -> str:
    """Where the storage that is moved to has its base, beside a warehouse."""
    return f"{uri}-cold"


def _open(uri: str) -> Lakehouse:
    return Lakehouse.open(uri, settings=Settings(locks=LockSettings(lease_seconds=0.5)))


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """Two scopes with four versions each, and hot rows on top."""
    with _open(warehouse_uri) as opened:
        kind = "filesystem" if local_path(warehouse_uri) else "s3"
        opened.create_storage("cold", type=kind, base=_cold(warehouse_uri), user_template="t/{namespace}/{tableName}/{userId}")
        table = make_notes(opened)
        for key, text in _COLD.items():
            for user in _USERS:
                table.write(notes({key: text}), user=user)
            opened.flush(NOTES)
        for user in _USERS:
            table.write(notes(_HOT), user=user)
        yield opened


def _here(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
    return in_process(work, items, lambda done: None)


def _move(lake: Lakehouse, *, run: Run = _here, reach: Reach = no_faults) -> list[ScopeReport]:
    """As the operator does, with fault points."""
    with lake.warehouse.locks.create().hold(_NAME.namespace, _NAME.name) as lease:
        return Mover(lake.warehouse, run, lease, _NAME, "MV-1", reach).move("cold")


def _dies(step: str) -> Reach:
    def reach(name: str) -> None:
        if name == step:
            raise Died(name)

    return reach


def _flush(lake: Lakehouse, run: Run = _here) -> list[ScopeReport]:
    return flush_scopes(lake.warehouse, run, _too_large, lambda scope: True)


def _too_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


def _table(lake: Lakehouse) -> TableClient:
    return lake.table(NOTES)


def _target(lake: Lakehouse, user: str) -> ScopeTarget:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(_NAME, user))


def _lies(lake: Lakehouse) -> str:
    return lake.table(NOTES).table.options.storage_id


def _data_left(base: str) -> list[str]:
    """Data files below a base, whoever names them."""
    root = path_of(base)
    return [str(found) for found in root.rglob("*.parquet") if "_delta_log" not in str(found)]


def _check_whole(lake: Lakehouse, rows: Rows = _ALL) -> None:
    """All is at the new place, once, and goes on there."""
    table = _table(lake)
    assert _lies(lake) == "cold"
    assert table.table.move is None
    assert [strong(table, user) for user in _USERS] == [rows] * 2
    table.write(notes({77: "later"}), user="ann")
    assert all(report.fault is None for report in lake.flush(NOTES))
    assert [strong(table, user) for user in _USERS] == [eventual(table, user) for user in _USERS] == [rows | {77: "later"}, rows]
    assert not any(hot_ids(table, user) for user in _USERS)
    assert all(finding.passed for finding in lake.check())
    assert _data_left(f"{lake.warehouse.uri}/data") == []


@pytest.mark.both_stores
def test_everything_comes_along(lake: Lakehouse, warehouse_uri: str) -> None:
    table = _table(lake)
    lake.tag(NOTES, "early", user="ann", version=1)
    before = table.history(user="ann")
    reports = lake.move(NOTES, "cold")
    assert [(report.scope.user, report.outcome, report.version) for report in reports] == [("ann", "done", 3), ("bob", "done", 3)]
    assert table.history(user="ann") == before
    assert str(_target(lake, "ann").uri) == f"{_cold(warehouse_uri)}/t/chat/notes/ann"
    assert {row["id"] for row in DeltaTable(str(path_of(_target(lake, "ann").uri))).to_pyarrow_table().to_pylist()} == {*_COLD}
    assert [strong(table, user) for user in _USERS] == [_ALL] * 2, "through a client that was made before"
    assert lake.move(NOTES, "cold") == []
    _check_whole(lake)
    assert lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False)[0].fault is None
    lake.restore(NOTES, user="ann", version=1, dry_run=False)
    assert eventual(table, "ann") == {key: _COLD[key] for key in (0, 1)}
    assert lake.jobs()[-1].job_id[:2] == "FL"
    assert [job.status for job in lake.jobs() if job.job_type == "move"] == ["completed"]


@pytest.mark.disk  # it goes to the bucket by itself
def test_from_a_disk_into_a_bucket_and_out_of_it(lake: Lakehouse, s3_warehouse_uri: str) -> None:
    lake.create_storage("bucket", type="s3", base=s3_warehouse_uri)
    lake.move(NOTES, "bucket")
    table = _table(lake)
    assert [strong(table, user) for user in _USERS] == [_ALL] * 2
    lake.flush(NOTES)
    assert [eventual(table, user) for user in _USERS] == [_ALL] * 2
    assert _target(lake, "ann").uri == f"{s3_warehouse_uri}/chat/notes/ann"
    lake.move(NOTES, "cold")
    _check_whole(lake)
    assert _data_left(s3_warehouse_uri) == []


@pytest.mark.disk
def test_a_link_that_leads_out_is_not_followed(lake: Lakehouse, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("another tenant's")
    (Path(_target(lake, "ann").uri) / "x.parquet").symlink_to(tmp_path / "secret")
    with suppress(LakewardenError):
        assert any("outside-path" in report.reason for report in _move(lake))
    (base,) = [storage.base for storage in lake.warehouse.catalog.read().storages.values() if storage.id == "cold"]
    assert not [found for found in path_of(base).rglob("*") if found.is_file() and b"tenant" in found.read_bytes()]


def test_a_shared_table_and_one_that_was_never_flushed(lake: Lakehouse) -> None:
    columns = [Column("id", "BIGINT")]
    shared = lake.create_table("chat.rooms", type="SHARED", columns=columns, primary_key=["id"])
    lake.create_table("chat.empty", type="USER", columns=columns, primary_key=["id"])
    shared.write([{"id": 1}])
    assert [report.outcome for report in lake.move("chat.rooms", "cold")] == ["done"]
    assert [(report.outcome, report.scope.user) for report in lake.move("chat.empty", "cold")] == [("done", None)]
    lake.flush()
    assert shared.read(freshness="eventual").to_pylist() == [{"id": 1}]
    assert {str(table.name): table.options.storage_id for table in lake.tables()} == {
        NOTES: "local",
        "chat.rooms": "cold",
        "chat.empty": "cold",
    }
    lake.drop_table("chat.rooms")
    again = lake.create_table("chat.rooms", type="SHARED", columns=columns, primary_key=["id"])
    again.write([{"id": 2}])
    assert [report.fault for report in lake.flush("chat.rooms")] == [None], "on the fence that the move left"
    assert again.read(freshness="eventual").to_pylist() == [{"id": 2}]


def test_a_table_that_was_made_anew_on_a_fence_and_never_flushed(lake: Lakehouse) -> None:
    """The fence comes along, and is none that others have put there."""
    columns = [Column("id", "BIGINT")]
    for number in range(2):
        shared = lake.create_table("chat.rooms", type="SHARED", columns=columns, primary_key=["id"])
        shared.write([{"id": number}])
        if number == 0:
            lake.flush("chat.rooms")
            lake.drop_table("chat.rooms")
    assert [(report.outcome, report.fault) for report in lake.move("chat.rooms", "cold")] == [("done", None)]
    assert [report.fault for report in lake.flush("chat.rooms")] == [None]
    assert shared.read(freshness="eventual").to_pylist() == [{"id": 1}]


@pytest.mark.slow
@pytest.mark.parametrize("step", _STEPS)
def test_interrupted_anywhere_it_goes_on(lake: Lakehouse, step: str) -> None:
    with pytest.raises(Died):
        _move(lake, reach=_dies(step))
    table = _table(lake)
    assert [strong(table, user) for user in _USERS] == [_ALL] * 2
    assert [eventual(table, user) for user in _USERS] == [_COLD] * 2
    for user in (*_USERS, "new"):
        table.write(notes({50: "meanwhile"}), user=user)
    closed = step in ("move:closed", "move:frozen")
    assert [report.fault.transient if report.fault else None for report in lake.flush(NOTES)] == [True if closed else None] * 3
    assert all(report.fault is None for report in lake.move(NOTES, "cold"))
    assert strong(table, "new") == {50: "meanwhile"}
    _check_whole(lake, _ALL | {50: "meanwhile"})
    assert eventual(table, "new") == {50: "meanwhile"}


@pytest.mark.slow
@pytest.mark.parametrize("step", _BEFORE_SWITCH)
def test_cancelled_it_stays_and_may_be_moved_again(lake: Lakehouse, step: str) -> None:
    with pytest.raises(Died):
        _move(lake, reach=_dies(step))
    assert all(report.fault is None for report in lake.cancel_move(NOTES))
    assert _lies(lake) == "local"
    assert _data_left(_cold(lake.warehouse.uri)) == []
    table = _table(lake)
    assert all(report.fault is None for report in lake.flush(NOTES))
    assert [eventual(table, user) for user in _USERS] == [_ALL] * 2
    lake.move(NOTES, "cold")
    _check_whole(lake)


@pytest.mark.parametrize("step", ["move:switched", "move:left"])
def test_a_move_that_has_switched_can_only_be_ended(lake: Lakehouse, step: str) -> None:
    with pytest.raises(Died):
        _move(lake, reach=_dies(step))
    with pytest.raises(InUse, match="complete the move"):
        lake.cancel_move(NOTES)
    lake.move(NOTES, "cold")
    _check_whole(lake)


def _move_until(uri: str, step: str, scopes: int) -> None:
    """Moves in a process that dies at a step, or after this many scopes of all steps together."""
    left = scopes

    def one_by_one(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        nonlocal left
        done = []
        for item in items:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            done.append(alone(work(item.work)))
        return done

    with _open(uri) as lake:
        _move(lake, run=one_by_one, reach=killed_at(step))


@pytest.mark.slow
@pytest.mark.parametrize(("step", "scopes"), [("move:frozen", -1), ("", 1), ("", 3), ("", 5)])
def test_killed_anywhere_it_goes_on(lake: Lakehouse, step: str, scopes: int) -> None:
    assert exit_status(_move_until, lake.warehouse.uri, step, scopes) == KILLED
    table = _table(lake)
    assert [strong(table, user) for user in _USERS] == [_ALL] * 2
    assert all(report.fault is None for report in lake.move(NOTES, "cold"))
    _check_whole(lake)


def test_a_flush_that_slept_through_the_move_settles_nothing(lake: Lakehouse) -> None:
    def moved_first(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        lake.move(NOTES, "cold")
        return _here(work, items)

    reports = _flush(lake, moved_first)
    assert [report.fault.transient if report.fault else None for report in reports] == [True, True]
    assert sorted(set(hot_ids(_table(lake), "ann"))) == sorted(_HOT)
    _check_whole(lake)


@pytest.mark.parametrize("place", ["drain:opened", "after-data-file"])
def test_a_flush_that_slept_before_its_commit_is_refused(lake: Lakehouse, place: str) -> None:
    slept: list[str] = []

    def reach(name: str) -> None:
        if name == place and not slept:
            slept.append(name)
            lake.move(NOTES, "cold")

    reports = flush_scopes(lake.warehouse, _in_turn, _too_large, lambda scope: True, reach=reach)
    assert slept
    assert all(report.fault and report.fault.transient for report in reports)
    assert strong(_table(lake), "ann") == _ALL
    _check_whole(lake)


def _in_turn(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
    return [alone(work(item.work)) for item in items]


def test_what_a_flush_committed_before_the_freeze_comes_along_once(lake: Lakehouse) -> None:
    """It commits, the table moves, and only then it settles."""

    def reach(name: str) -> None:
        if name == "after-sync":
            lake.move(NOTES, "cold")

    reports = flush_scopes(lake.warehouse, _here, _too_large, lambda scope: True, reach=reach)
    assert [report.fault for report in reports] == [None, None]
    assert [eventual(_table(lake), user) for user in _USERS] == [_ALL] * 2
    _check_whole(lake)


class _Slow(ScopeRegistry):
    """Somebody else's whole move lies between a flush's look at the catalog and its registration of a new scope."""

    meanwhile: Callable[[], object]

    def add(self, table_id: str, users: Iterable[str]) -> str:
        self.meanwhile()
        return super().add(table_id, users)


def test_the_first_flush_of_a_scope_cannot_miss_the_move(lake: Lakehouse) -> None:
    _table(lake).write(notes({1: "first"}), user="new")
    slow = _Slow(lake.warehouse.state, lake.warehouse.new_id)
    slow.meanwhile = lambda: lake.move(NOTES, "cold")
    warehouse = replace(lake.warehouse, registry=slow)
    reports = flush_scopes(warehouse, _here, _too_large, lambda scope: True)
    assert {report.uri for report in reports} == {_target(lake, user).uri for user in (*_USERS, "new")}
    assert eventual(_table(lake), "new") == {1: "first"}
    _check_whole(lake)


def _slept(lake: Lakehouse, meanwhile: Callable[[], object]) -> list[ScopeReport]:
    """Flushes as a process that has looked at nobody yet, and sleeps once it has read the catalog and the log."""

    def reach(name: str) -> None:
        if name == "planned":
            meanwhile()

    return flush_scopes(replace(lake.warehouse, registered=RegisteredUsers()), _here, _too_large, lambda scope: True, reach=reach)


@pytest.mark.parametrize("known", ["new", "ann"], ids=["nothing", "that it was erased"])
def test_a_scope_of_which_the_floors_know_no_table_is_looked_up_behind_the_registry(lake: Lakehouse, known: str) -> None:
    """Somebody registers it behind the move, and dies before a commit. The log's rows go to the new place."""
    lake.flush(NOTES)
    lake.erase("ann")
    _table(lake).write(notes({1: "first"}), user=known)

    def meanwhile() -> None:
        _move(lake)
        with pytest.raises(Died):
            flush_scopes(lake.warehouse, _here, _too_large, lambda scope: True, reach=_dies("after-data-file"))

    assert [report.outcome for report in _slept(lake, meanwhile)] == ["done"]
    assert eventual(_table(lake), known) == {1: "first"}
    assert _data_left(f"{lake.warehouse.uri}/data") == []


def test_a_flush_that_slept_through_the_move_and_a_scopes_first_flush_behind_it_does_nothing(lake: Lakehouse) -> None:
    _table(lake).write(notes({1: "first"}), user="new")

    def meanwhile() -> None:
        _move(lake)
        with pytest.raises(Died):
            flush_scopes(lake.warehouse, _here, _too_large, lambda scope: True, reach=_dies("after-floors"))

    assert "done" not in {report.outcome for report in _slept(lake, meanwhile)}
    assert _data_left(f"{lake.warehouse.uri}/data") == []
    assert eventual(_table(lake), "new") == {1: "first"}
    _check_whole(lake)


def test_a_scope_whose_entry_was_lost_is_not_flushed_behind_a_move_that_missed_it(lake: Lakehouse) -> None:
    """The floors know it, and whoever registers it again looks at the catalog all the same: its rows stay in the log."""
    lake.warehouse.registry.remove(_table(lake).table.id)
    lake.warehouse.registry.add(_table(lake).table.id, {"bob"})
    reports = _slept(lake, lambda: _move(lake))
    assert {report.scope.user: report.outcome for report in reports}["ann"] == "failed"
    assert set(hot_ids(_table(lake), "ann")) == set(_HOT)


def test_a_reader_that_slept_finds_the_rows_where_they_lie(lake: Lakehouse) -> None:
    table = _table(lake)
    old = _target(lake, "ann")
    found: list[ScopeTarget] = []

    def slept() -> ScopeTarget:
        """Says the old place when first asked, and meanwhile the table moves and is flushed."""
        found.append(old if not found else _target(lake, "ann"))
        if len(found) == 1 and _lies(lake) == "local":
            lake.move(NOTES, "cold")
            lake.flush(NOTES)
        return found[-1]

    rows = read_strong(slept, table.log)
    assert {row["id"]: row["text"] for row in rows.to_pylist()} == _ALL
    found.clear()
    assert {row["id"]: row["text"] for row in read_cold(slept).to_pylist()} == _ALL
    assert len(found) == 2
    assert strong(table, "ann") == _ALL


def test_a_reader_whose_files_vanish_reads_again(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[bool] = []

    def read_rows(*arguments: Any) -> pa.Table:
        if not slept:
            slept.append(True)
            lake.move(NOTES, "cold")
            lake.flush(NOTES)
        return rows.read_rows(*arguments)

    monkeypatch.setattr(read, "read_rows", read_rows)
    assert strong(_table(lake), "ann") == _ALL
    assert slept


def _until(stop: threading.Event, work: Callable[[int], None], faults: list[Exception]) -> None:
    """Does the work again and again; what a move may refuse for the moment is not a fault."""
    for at in count(100):
        if stop.is_set():
            return
        try:
            with suppress(Transient):
                work(at)
        except Exception as error:  # noqa: BLE001  # shown by the test
            faults.append(error)
            return


@pytest.mark.slow
def test_writers_flushers_and_readers_race_with_the_move(lake: Lakehouse) -> None:
    """Every acknowledged row is there once, and no read ever shows less than was acknowledged before it began."""
    stop, table = threading.Event(), _table(lake)
    written: dict[str, Rows] = {user: dict(_ALL) for user in (*_USERS, "cyd", "dan")}
    written["cyd"], written["dan"] = {}, {}
    faults: list[Exception] = []

    def write(at: int) -> None:
        user = list(written)[at % 4]
        table.write(notes({at: f"race {at}"}), user=user)
        written[user][at] = f"race {at}"

    def flush(_: int) -> None:
        lake.flush(NOTES)

    def look(at: int) -> None:
        user = list(written)[at % 4]
        known = dict(written[user])
        shown = strong(table, user)
        assert known.items() <= shown.items(), f"{user} lost {known.items() - shown.items()}"

    threads = [threading.Thread(target=_until, args=(stop, work, faults)) for work in (write, flush, look)]
    for thread in threads:
        thread.start()
    try:
        stop.wait(0.5)
        reports = lake.move(NOTES, "cold")
        stop.wait(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not faults
    assert reports
    assert all(report.fault is None for report in reports)
    assert _lies(lake) == "cold"
    assert {user: strong(table, user) for user in written} == written
    assert all(report.fault is None for report in lake.flush(NOTES))
    assert {user: eventual(table, user) for user in written} == written
    assert _data_left(f"{lake.warehouse.uri}/data") == []


# What is refused


def test_what_cannot_be_moved_is_refused_and_nothing_changes(lake: Lakehouse, warehouse_uri: str) -> None:
    lake.create_table("chat.typing", type="STREAM", columns=[Column("id", "BIGINT")], options={"TTL_SECONDS": "60"})
    kind = "filesystem" if local_path(warehouse_uri) else "s3"
    lake.create_storage("inside", type=kind, base=_cold(warehouse_uri), user_template="t/{namespace}/{tableName}/{userId}/x")
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    lake.create_table("chat.kept", type="USER", columns=columns, primary_key=["id"], options={"STORAGE_ID": "cold"})
    before = lake.warehouse.catalog.read()
    for table, storage, error, said in (
        (NOTES, "nowhere", NotFound, "does not exist"),
        ("chat.none", "cold", NotFound, "no table"),
        ("chat.typing", "cold", Unsupported, "STREAM"),
        ("chat.kept", "inside", InUse, "choose another storage"),
    ):
        with pytest.raises(error, match=said):
            lake.move(table, storage)
    stray = path_of(f"{_cold(warehouse_uri)}/t/chat/notes/somebody")
    stray.mkdir(parents=True)
    (stray / "notes.txt").write_text("mine")
    with pytest.raises(InUse, match="not empty"):
        lake.move(NOTES, "cold")
    assert replace(lake.warehouse.catalog.read(), version=0, leases={}) == replace(before, version=0, leases={})
    assert lake.cancel_move(NOTES)[0].outcome == "skipped"
    with pytest.raises(NotFound):
        lake.cancel_move("chat.none")
    assert strong(_table(lake), "ann") == _ALL


def test_what_would_lose_its_way_waits_for_the_move(lake: Lakehouse, warehouse_uri: str) -> None:
    kind = "filesystem" if local_path(warehouse_uri) else "s3"
    lake.create_storage("other", type=kind, base=f"{warehouse_uri}-other")
    with pytest.raises(Died):
        _move(lake, reach=_dies("move:frozen"))
    refused: list[tuple[str, Callable[[], object]]] = [
        ("moved", lambda: lake.move(NOTES, "other")),
        ("moved", lambda: lake.drop_table(NOTES)),
        ("moved", lambda: lake.erase("ann")),
        ("moved", lambda: lake.alter_table(NOTES, SetOptions({"STORAGE_ID": "other"}))),
        ("moved", lambda: _table(lake).lease(user="ann", seconds=60)),
        ("moved", lambda: lake.tag(NOTES, "now", user="ann")),
        ("using it", lambda: lake.drop_storage("cold")),
        ("old template", lambda: lake.alter_storage("cold", user_template="")),
    ]
    for said, ask in refused:
        with pytest.raises(LakewardenError, match=said) as raised:
            ask()
        assert raised.value.code == "CONFLICT"
    restored = lake.restore(NOTES, user="ann", version=0, discard_pending=True, dry_run=False)
    assert [report.fault and (report.fault.code, report.fault.transient) for report in restored] == [("CONFLICT", True)]
    assert all(report.outcome != "done" for report in lake.compact(NOTES))
    assert [strong(_table(lake), user) for user in _USERS] == [_ALL] * 2
    lake.move(NOTES, "cold")
    _check_whole(lake)
    assert lake.erase("ann", deep=True).result == "complete"
    assert strong(_table(lake), "ann") == {}


def test_a_lease_and_an_erasure_hold_a_move_back(lake: Lakehouse) -> None:
    table, warehouse = _table(lake), lake.warehouse
    lease = table.lease(user="ann", seconds=60)
    with pytest.raises(Conflict, match="pin versions"):
        lake.move(NOTES, "cold")
    table.release(lease)
    mark = warehouse.erasures.mark("bob")
    erasure = warehouse.erasures.begin(Erasure("UC-1", mark, (table.table.id,), "a test", warehouse.clock()), frozenset())
    with pytest.raises(Conflict, match="erased"):
        lake.move(NOTES, "cold")
    assert (_lies(lake), _table(lake).table.move) == ("local", None)
    warehouse.erasures.end(erasure)
    lake.move(NOTES, "cold")
    _check_whole(lake)


@pytest.mark.parametrize("step", ["erase:begun", "erase:closed", "erase:cut"])
def test_an_erasure_that_was_interrupted_outlasts_a_move_that_it_meets(lake: Lakehouse, step: str) -> None:
    """Both died: the move before it saw the erasure."""
    table = _table(lake).table
    with pytest.raises(Died):
        run_erase(lake, "bob", _dies(step))
    with pytest.raises(Died):
        _move(lake, reach=_dies("move:begun"))
    with pytest.raises(Conflict, match="being moved"):
        run_erase(lake, "bob", job_id="UC-2")
    assert lake.warehouse.erasures.over(table.id), "it goes on"
    with pytest.raises(Conflict, match="erased"):
        _move(lake)
    assert (run_erase(lake, "bob", job_id="UC-3").erasure, strong(_table(lake), "bob")) == ("UC-1", {})
    assert [report.scope.user for report in _move(lake)] == ["ann"]


def test_who_was_erased_does_not_come_back(lake: Lakehouse) -> None:
    lake.erase("bob")
    assert [report.scope.user for report in lake.move(NOTES, "cold")] == ["ann"]
    assert strong(_table(lake), "bob") == {}
    _table(lake).write(notes({1: "anew"}), user="bob")
    lake.flush(NOTES)
    assert strong(_table(lake), "bob") == eventual(_table(lake), "bob") == {1: "anew"}


@pytest.mark.disk
def test_a_scope_that_cannot_be_copied_leaves_the_table_where_it_is(lake: Lakehouse) -> None:
    lost = next(path for path in Path(lake.warehouse.uri).glob("data/chat/notes/bob/*.parquet"))
    kept = lost.read_bytes()
    lost.unlink()
    reports = lake.move(NOTES, "cold")
    assert [(report.scope.user, report.fault.code) for report in reports if report.fault] == [("bob", "CORRUPT")]
    assert _lies(lake) == "local"
    lost.write_bytes(kept)
    assert all(report.fault is None for report in lake.flush(NOTES)), "the table is open again"
    assert all(report.fault is None for report in lake.move(NOTES, "cold"))
    _check_whole(lake)


def test_a_move_that_is_stopped_while_it_closes_leaves_the_table_open(lake: Lakehouse) -> None:
    def stopped(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        if getattr(work, "__name__", "") == move_scope.__name__:
            _here(work, items[:1])
            raise JobStopped("MV-1")
        return _here(work, items)

    with pytest.raises(JobStopped):
        _move(lake, run=stopped)
    assert all(report.fault is None for report in lake.flush(NOTES))
    assert [eventual(_table(lake), user) for user in _USERS] == [_ALL] * 2
    lake.move(NOTES, "cold")
    _check_whole(lake)


def test_a_scope_that_a_late_mover_froze_is_found_and_let_go(lake: Lakehouse) -> None:
    alone(freeze(_target(lake, "ann"), 1, by("MV-1")))
    assert [(report.scope.user, bool(report.fault)) for report in lake.flush(NOTES)] == [("ann", True), ("bob", False)]
    assert [(found.subject, found.check) for found in lake.check() if not found.passed] == [(f"{NOTES}[ann]", "not_frozen")]
    assert [report.outcome for report in lake.cancel_move(NOTES)] == ["done", "skipped"]
    assert [eventual(_table(lake), "ann") for _ in lake.flush(NOTES)] == [_ALL]
    assert all(finding.passed for finding in lake.check())


def test_who_lost_the_lock_changes_nothing_any_more(lake: Lakehouse) -> None:
    """A mover sleeps past its lease while it closes, another ends the move, and the first one wakes and wants to give up."""
    warehouse, locks = lake.warehouse, lake.warehouse.locks
    old = _target(lake, "ann")

    def slept(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        done = _here(work, items)
        if getattr(work, "__name__", "") == move_scope.__name__:
            warehouse.catalog.change(lambda catalog: replace(catalog, leases={}))
            with locks.create().hold(_NAME.namespace, _NAME.name) as lease, suppress(Died):
                Mover(warehouse, _here, lease, _NAME, "MV-2", _dies("move:switched")).move("cold")
            raise JobStopped("MV-1")
        return done

    with suppress(JobStopped, Conflict), locks.create().hold(_NAME.namespace, _NAME.name) as lease:
        Mover(warehouse, slept, lease, _NAME, "MV-1").move("cold")
    table = ScopeTable.open(old.location)
    assert table is not None
    assert is_frozen(table, old)
    lake.move(NOTES, "cold")
    _check_whole(lake)


def test_a_queued_move_is_taken_over_and_ends(lake: Lakehouse) -> None:
    with pytest.raises(InvalidArgument, match="one table"):
        lake.enqueue("move", to="cold")
    with pytest.raises(NotFound):
        lake.enqueue("move", NOTES, to="nowhere")
    with pytest.raises(InvalidArgument, match="flush does not take to; its options are: user"):
        lake.enqueue("flush", NOTES, to="cold")
    job = lake.enqueue("move", NOTES, to="cold")
    assert job.job_id.startswith("MV-")
    with pytest.raises(AlreadyActive):
        lake.enqueue("move", NOTES, to="cold")
    with pytest.raises(Died):
        _move(lake, reach=_dies("move:frozen"))
    assert [one.status for one in lake.run_jobs()] == ["completed"]
    _check_whole(lake)


@pytest.mark.disk
@pytest.mark.parametrize("change", [lambda data: data[:-1] + b"!", lambda data: data + b"!"], ids=["other", "longer"])
def test_other_bytes_at_the_target_are_found(lake: Lakehouse, change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Died):
        _move(lake, reach=_dies("move:copied"))
    copied = sorted(Path(_cold(lake.warehouse.uri)).rglob("ann/*.parquet"))[0]
    copied.write_bytes(change(copied.read_bytes()))
    reports = lake.move(NOTES, "cold")
    assert [report.fault and report.fault.code for report in reports] == ["CONFLICT", None]
    assert "checksum" in reports[0].reason
    lake.cancel_move(NOTES)
    lake.move(NOTES, "cold")
    _check_whole(lake)


@pytest.mark.disk
def test_what_another_program_commits_too_late_is_not_thrown_away(lake: Lakehouse) -> None:
    with pytest.raises(Died):
        _move(lake, reach=_dies("move:switched"))
    old = Path(lake.warehouse.uri) / "data" / "chat" / "notes" / "ann"
    rows = DeltaTable(str(old)).to_pyarrow_table().slice(0, 1)
    write_deltalake(str(old), rows, mode="append")
    reports = lake.move(NOTES, "cold")
    assert [report.fault and report.fault.code for report in reports] == ["CONFLICT", None]
    assert "another program" in reports[0].reason
    assert DeltaTable(str(old)).to_pyarrow_table().num_rows == len(_COLD) + 1


def test_users_with_a_storage_of_their_own_stay_there(lake: Lakehouse, warehouse_uri: str) -> None:
    warehouse = lake.warehouse
    door = Door(OPERATOR, AuditLog(warehouse.state, warehouse.clock, warehouse.new_id))
    kind = "filesystem" if local_path(warehouse_uri) else "s3"
    lake.create_storage("own", type=kind, base=f"{warehouse_uri}-own")
    columns = [Column("id", "BIGINT")]
    options = {"USE_USER_STORAGE": "TRUE"}
    table = lake.create_table("chat.likes", type="USER", columns=columns, primary_key=["id"], options=options)
    for user, storage in (("cyd", "own"), ("dan", "cold")):
        now = warehouse.clock()
        create_user(warehouse, door, User(user, "user", "internal", now, now, storage_mode="region", storage_id=storage))
    for user in (*_USERS, "cyd", "dan"):
        table.write([{"id": 1}], user=user)
    lake.flush("chat.likes")
    change_user(warehouse, door, "cyd", UserChange(storage_id="cold"))
    assert [report.scope.user for report in lake.move("chat.likes", "cold")] == list(_USERS)
    for user in (*_USERS, "cyd", "dan"):
        table.write([{"id": 2}], user=user)
    assert {report.scope.user: report.uri.split("/")[-4] for report in lake.flush("chat.likes")} == {
        "ann": "t",
        "bob": "t",
        "cyd": "warehouse-own",
        "dan": "t",
    }
    assert all(eventual_ids(table, user) == {1, 2} for user in (*_USERS, "cyd", "dan"))
    assert all(finding.passed for finding in lake.check())


def eventual_ids(table: TableClient, user: str) -> set[int]:
    return {row["id"] for row in table.read(user=user, freshness="eventual").to_pylist()}


def test_files_come_along_and_none_is_stored_too_late(lake: Lakehouse) -> None:
    columns = [Column("id", "BIGINT"), Column("doc", "FILE")]
    table = lake.create_table("chat.docs", type="USER", columns=columns, primary_key=["id"])
    table.put_file({"id": 1}, "doc", b"one", name="one.txt", user="ann")
    lake.flush("chat.docs")
    table.put_file({"id": 2}, "doc", b"two", name="two.txt", user="ann")

    stored = filing.store_file

    def store_file(*arguments: Any) -> bool:
        """The whole move lies between the look at the place and the file."""
        lake.move("chat.docs", "cold")
        return stored(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filing, "store_file", store_file)
        with pytest.raises(Conflict, match="store them again"):
            table.put_file({"id": 3}, "doc", b"three", name="three.txt", user="ann")
    assert table.read(user="ann").num_rows == 2
    assert [found for found in path_of(lake.warehouse.uri).rglob("_files/*") if found.is_file()] == []
    assert table.get_file({"id": 1}, "doc", user="ann") == b"one"
    assert table.get_file({"id": 2}, "doc", user="ann") == b"two"
    table.put_file({"id": 3}, "doc", b"three", name="three.txt", user="ann")
    lake.flush("chat.docs")
    assert table.get_file({"id": 3}, "doc", user="ann") == b"three"


def _asleep(lake: Lakehouse, work: Callable[[MoveTask, Reach], Steps[ScopeReport]], reports: list[ScopeReport]) -> Sleeper:
    """A mover that has lost its lock, and holds a file of ann's in its hands."""
    with pytest.raises(Died):
        _move(lake, reach=_dies("move:begun" if work is copy_scope else "move:closed"))
    task = _task(lake, "ann")
    return Sleeper(lambda reach: reports.append(alone(work(task, reach))), "move:read")


def _task(lake: Lakehouse, user: str) -> MoveTask:
    """Of a mover whose lease is older than any other's."""
    catalog, warehouse = lake.warehouse.catalog.read(), lake.warehouse
    table = lake.table(NOTES).table
    source, target = (warehouse.target_on(id_, catalog, table, user) for id_ in ("local", "cold"))
    return MoveTask(source, target, "MV-0", 1, CarriedClock.of(warehouse.clock))


@pytest.mark.both_stores
@pytest.mark.parametrize("work", [copy_scope, move_scope])
def test_a_mover_that_slept_through_anothers_whole_move_loses_and_doubles_nothing(
    lake: Lakehouse, work: Callable[[MoveTask, Reach], Steps[ScopeReport]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes when the table was flushed, rewritten and vacuumed at its new place."""
    monkeypatch.setattr(copying, "at_once", partial(at_once, threads=1))
    sleeper = _asleep(lake, work, [])
    assert all(report.fault is None for report in lake.move(NOTES, "cold"))
    lake.flush(NOTES)
    lake.optimize(NOTES, zorder=["id"])
    assert lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False)[0].fault is None
    sleeper.wake()
    _check_whole(lake)


@pytest.mark.both_stores
@pytest.mark.parametrize("work", [copy_scope, move_scope])
def test_a_mover_that_slept_until_the_user_was_erased_leaves_nothing(
    lake: Lakehouse, work: Callable[[MoveTask, Reach], Steps[ScopeReport]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "at_once", partial(at_once, threads=1))
    reports: list[ScopeReport] = []
    sleeper = _asleep(lake, work, reports)
    lake.move(NOTES, "cold")
    lake.erase("ann")
    sleeper.wake()
    assert [report.fault and report.fault.code for report in reports] == ["CONFLICT"]
    assert lake.verify_erased("ann", deep=True).findings == ()
    assert [path for path in _data_left(_cold(lake.warehouse.uri)) if "/ann/" in path] == []
    assert strong(_table(lake), "bob") == _ALL


def test_a_copy_that_slept_for_a_day_writes_nothing(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def slept(_: str) -> None:
        monkeypatch.setattr("lakewarden.base.clock.system_clock", lambda: datetime.now(UTC) + timedelta(hours=25))

    report = alone(copy_scope(_task(lake, "ann"), slept))
    assert report.fault is not None
    assert "was planned 1 day, 1:00:00" in report.fault.message
    assert _data_left(_cold(lake.warehouse.uri)) == []


@pytest.mark.both_stores
def test_an_erasure_clears_what_a_dead_copier_left_where_the_table_never_came(lake: Lakehouse) -> None:
    _table(lake).write(notes({1: "x"}), user="ann")
    for user in _USERS:
        assert alone(copy_scope(_task(lake, user))).fault is None
    assert {finding.what for finding in lake.verify_erased("ann").findings} >= {"a file in the user's scope"}
    assert lake.erase("ann").result == "complete"
    left = _data_left(_cold(lake.warehouse.uri))
    assert left
    assert not any("/ann/" in path for path in left)


class _Crowd:
    """How many are here at once, at most."""

    def __init__(self, barrier: threading.Barrier | None = None) -> None:
        self._barrier, self._lock = barrier, threading.Lock()
        self._here = self.most = 0

    def __call__(self, _: str) -> None:
        with self._lock:
            self._here += 1
            self.most = max(self.most, self._here)
        if self._barrier is not None:
            self._barrier.wait(PATIENCE)
        with self._lock:
            self._here -= 1


def test_files_of_a_scope_are_copied_at_once_as_far_as_memory_goes(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    several, single = _Crowd(threading.Barrier(2)), _Crowd()
    assert alone(copy_scope(_task(lake, "ann"), several)).fault is None
    monkeypatch.setattr(copying, "_IN_HAND", 1)
    monkeypatch.setattr(copying, "_PART", 100)
    report = alone(copy_scope(_task(lake, "bob"), single))
    assert (report.fault, report.metrics["files_copied"], single.most) == (None, 4, 1)
