"""What stays behind of dropped tables and erased users goes after a week, and brings nothing back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import CarriedClock, random_id
from lakewarden.base.connection import Connection, Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.changes.leases import give_back, grant
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import TooLate
from lakewarden.delta.parquet.files import batch_folder
from lakewarden.errors import Conflict, NotFound
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.compact.procedure import plan_compact
from lakewarden.maintenance.drop import DropTask, drop_scope
from lakewarden.maintenance.erase.run import EraseTask, erase_scope
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.procedure import plan_optimize
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.scope import plan_vacuum
from lakewarden.maintenance.vacuum.sweep import SweepResult, sweep, sweep_fence
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.scopes import by
from tests.fixtures.bucket import AnyPath, path_of
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, scope_path, strong
from tests.fixtures.minio import MinioServer
from tests.fixtures.sleepers import Sleeper, sleeping_flush
from tests.maintenance.steps import ruled

pytestmark = pytest.mark.slow

_RETENTION = timedelta(hours=168)


class Clock:
    """The machine's, moved by the test. What a store says of its objects is not moved."""

    ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Died(BaseException):
    """The process was killed here."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(warehouse_uri: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lakehouse]:
    monkeypatch.setattr("lakewarden.base.clock.system_clock", clock)  # of tasks, which run anywhere
    with Lakehouse.open(warehouse_uri, clock=clock) as opened:
        table = make_notes(opened, options={"COMPRESSION": "none"})
        for user in ("ann", "bob"):
            table.write(notes({1: f"token-of-{user}"}), user=user)
        opened.flush()
        yield opened


def _vacuum(lake: Lakehouse) -> None:
    lake.vacuum(dry_run=False)


def _below(place: AnyPath) -> list[str]:
    return sorted(str(path) for path in place.rglob("*"))


def _token(lake: Lakehouse, token: str) -> list[str]:
    paths: list[AnyPath] = [*path_of(lake.warehouse.uri).rglob("*")]
    return [str(path) for path in paths if not (isinstance(path, Path) and path.is_dir()) and token.encode() in path.read_bytes()]


def _target(lake: Lakehouse) -> ScopeTarget:
    """Ann's scope, as it is looked up now."""
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "ann"))


def _compacting(target: ScopeTarget, clock: Clock) -> Callable[[Reach], object]:
    plan = plan_compact(ruled(target), CompactOptions(), now=clock())
    return lambda reach: alone(plan.run(job_id="CO-1", clock=clock, new_id=random_id, reach=reach))


def _optimizing(target: ScopeTarget, clock: Clock) -> Callable[[Reach], object]:
    plan = plan_optimize(target, OptimizeOptions(zorder=("id",)), now=clock())
    return lambda reach: alone(plan.run(job_id="OP-1", clock=clock, new_id=random_id, reach=reach))


def _restoring(target: ScopeTarget, clock: Clock) -> Callable[[Reach], object]:
    plan = plan_restore(target, RestoreOptions(version=1), now=clock())
    return lambda reach: alone(plan.run(job_id="RS-1", clock=clock, new_id=random_id, reach=reach))


def _vacuuming(target: ScopeTarget, clock: Clock) -> Callable[[Reach], object]:
    """Of a first commit, too, as of a table that is a month old: the new start has one of the same name."""
    _compacting(target, clock)(no_faults)
    clock.ahead = timedelta(hours=1)
    plan = plan_vacuum(target, VacuumOptions(retain_hours=0, force=True), now=clock())
    assert plan.data_files
    plan = replace(plan, log_files=(f"_delta_log/{0:020d}.json",))
    return lambda reach: alone(plan.run(job_id="VA-1", clock=clock, new_id=random_id, reach=reach))


@pytest.mark.both_stores
def test_the_fence_of_an_erased_user_goes_after_a_week(lake: Lakehouse, clock: Clock) -> None:
    lake.erase("ann")
    (scope_path(lake, "ann") / "late.parquet").write_bytes(b"by a writer that died")
    clock.ahead = _RETENTION - timedelta(hours=1)
    _vacuum(lake)
    assert _below(scope_path(lake, "ann")) != []
    clock.ahead = _RETENTION + timedelta(hours=1)
    _vacuum(lake)
    assert not scope_path(lake, "ann").exists()
    assert [job.message for job in lake.jobs() if job.parameters == {"of": "fences"}] == [
        "removed 1 fences and 0 seals of erased users and dropped tables"
    ]
    assert sweep(lake.warehouse, "VC-2") == SweepResult()
    assert lake.warehouse.state.list("graves") == []
    table = lake.table(NOTES)
    assert (strong(table, "ann"), strong(table, "bob")) == ({}, {1: "token-of-bob"})
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}


def test_who_started_anew_keeps_all(lake: Lakehouse, clock: Clock) -> None:
    lake.erase("ann")
    table = lake.table(NOTES)
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    clock.ahead = _RETENTION + timedelta(hours=1)
    assert sweep(lake.warehouse, "VC-1") == SweepResult()
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}
    assert lake.warehouse.state.list("graves") == []


@pytest.mark.both_stores
def test_what_stays_of_a_dropped_table_goes_after_a_week(lake: Lakehouse, clock: Clock) -> None:
    idle = lake.table(NOTES)
    lake.drop_table(NOTES)
    log = f"log/{idle.table.log_id}"
    assert lake.warehouse.state.list(log) != []
    clock.ahead = _RETENTION + timedelta(hours=1)
    _vacuum(lake)
    assert lake.warehouse.state.list(log) == []
    assert _below(scope_path(lake, "ann").parent) == []
    with pytest.raises(NotFound):  # the seal is gone; who was idle for so long asks the catalog
        idle.write(notes({9: "late"}), user="ann")
    assert lake.warehouse.state.list(log) == []
    make_notes(lake)
    with pytest.raises(NotFound, match="another table now has its name"):
        idle.write(notes({9: "late"}), user="ann")


def test_a_table_made_anew_on_a_fence_keeps_all(lake: Lakehouse, clock: Clock) -> None:
    lake.drop_table(NOTES)
    table = make_notes(lake)
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    clock.ahead = _RETENTION + timedelta(hours=1)
    assert sweep(lake.warehouse, "VC-1") == SweepResult(fences=1, seals=1)
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}
    assert not scope_path(lake, "bob").exists()


@pytest.mark.disk
def test_what_a_move_left_goes_after_a_week(lake: Lakehouse, clock: Clock) -> None:
    lake.create_storage("cold", type="filesystem", base=f"{lake.warehouse.uri}-cold")
    lake.move(NOTES, "cold")
    assert _below(scope_path(lake, "ann")) != []
    clock.ahead = _RETENTION + timedelta(hours=1)
    assert sweep(lake.warehouse, "VC-1") == SweepResult(fences=2)
    assert not scope_path(lake, "ann").exists()
    assert eventual(lake.table(NOTES), "ann") == {1: "token-of-ann"}


@pytest.mark.covering
@pytest.mark.parametrize("drop", [False, True], ids=["erased", "dropped"])
@pytest.mark.parametrize("place", ["planned", "drain:opened", "drain:read", "after-read", "after-data-file"])
def test_a_flush_that_sleeps_through_the_sweep_brings_nothing_back(lake: Lakehouse, clock: Clock, place: str, drop: bool) -> None:
    lake.table(NOTES).write(notes({2: "token-of-ann"}), user="ann")
    flush = sleeping_flush(lake, place)
    if drop:
        lake.drop_table(NOTES)
    else:
        lake.erase("ann")
    clock.ahead = _RETENTION + timedelta(hours=1)
    if place == "after-data-file":
        for name in ("unnoticed.parquet", f"{batch_folder(0, random_id)}/part-0.parquet"):
            open_store(Location(str(scope_path(lake, "ann")))).put(name, b"as if it were the flush's")
    assert sweep(lake.warehouse, "VC-1").failed == ()
    flush.wake()
    assert _token(lake, "token-of-ann") == []
    table = make_notes(lake)
    assert strong(table, "ann") == eventual(table, "ann") == {}
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}


@pytest.mark.parametrize("step", ["sweep:marked", "sweep:emptied"])
def test_a_sweep_that_dies_is_done_by_the_next(lake: Lakehouse, clock: Clock, step: str) -> None:
    lake.erase("ann")
    clock.ahead = _RETENTION + timedelta(hours=1)

    def dies(name: str) -> None:
        if name == step:
            raise Died

    with pytest.raises(Died):
        sweep(lake.warehouse, "VC-1", reach=dies)
    table = lake.table(NOTES)
    table.write(notes({5: "anew"}), user="ann")
    (report,) = lake.flush()
    assert report.fault is not None
    assert report.fault.transient
    assert strong(table, "ann") == {5: "anew"}
    assert sweep(lake.warehouse, "VC-2") == SweepResult(fences=1)
    lake.flush()
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}


def test_a_sweep_that_slept_through_anothers_deletes_nothing_of_who_began_anew(lake: Lakehouse, clock: Clock) -> None:
    lake.erase("ann")
    clock.ahead = _RETENTION + timedelta(hours=1)
    catalog = lake.warehouse.catalog
    sleeper = Sleeper(lambda reach: sweep(lake.warehouse, "VC-1", reach=reach), "sweep:checkpointed")
    (lease,) = catalog.read().leases.values()
    taken = catalog.change(grant(lease.name, "another", 20.0, lease)).leases[lease.name]  # as if it had not been renewed
    catalog.change(give_back(taken))
    assert sweep(lake.warehouse, "VC-2") == SweepResult(fences=1)
    table = lake.table(NOTES)
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    sleeper.wake()
    assert isinstance(sleeper.error, Conflict)
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}


def test_a_flush_between_the_look_and_the_mark_wins(lake: Lakehouse) -> None:
    """Or it comes later, and waits: never does a delete hit what was committed."""
    lake.erase("ann")
    table = lake.table(NOTES)
    table.write(notes({5: "anew"}), user="ann")
    flush = sleeping_flush(lake, "after-read")
    target = scope_path(lake, "ann")
    fate = alone(
        sweep_fence(
            lake.warehouse.location(lake.warehouse.catalog.read().storages["local"]).below("chat/notes/ann"),
            datetime.now(UTC) + timedelta(hours=1),
            by("VC-1"),
            lambda: None,
        )
    )
    flush.wake()
    lake.flush()
    assert fate == "gone"
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}
    assert target.exists()


_UPKEEP: dict[str, tuple[str, Callable[[ScopeTarget, Clock], Callable[[Reach], object]]]] = {
    "compact:read": ("after-read", _compacting),
    "compact:written": ("after-data-file", _compacting),
    "optimize": ("after-data-file", _optimizing),
    "restore": ("after-read", _restoring),
    "vacuum": ("after-start", _vacuuming),
}


@pytest.mark.parametrize("upkeep", _UPKEEP)
def test_upkeep_that_sleeps_through_the_sweep_brings_nothing_back(lake: Lakehouse, clock: Clock, upkeep: str) -> None:
    table = lake.table(NOTES)
    for key in (2, 3):
        table.write(notes({key: "token-of-ann"}), user="ann")
        lake.flush()
    place, prepared = _UPKEEP[upkeep]
    sleeper = Sleeper(prepared(_target(lake), clock), place)
    lake.erase("ann")
    clock.ahead = _RETENTION + timedelta(hours=1)
    assert sweep(lake.warehouse, "VC-1") == SweepResult(fences=1)
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    sleeper.wake()
    assert isinstance(sleeper.error, TooLate)
    assert _token(lake, "token-of-ann") == []
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}
    assert all(finding.passed and not (finding.check == "orphans" and finding.message) for finding in lake.check())


def test_a_drop_that_sleeps_until_the_table_is_made_anew_leaves_that_alone(lake: Lakehouse, clock: Clock) -> None:
    task = DropTask(_target(lake), "CL-1", CarriedClock.of(clock))
    lake.drop_table(NOTES)
    table = make_notes(lake)
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    report = alone(drop_scope(task))
    assert report.fault is not None
    assert "rows of another table by now" in report.fault.message
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}


def test_an_erasure_that_sleeps_until_the_user_is_open_again_leaves_the_new_start_alone(lake: Lakehouse, clock: Clock) -> None:
    table, warehouse = lake.table(NOTES), lake.warehouse
    where = (warehouse.state.uri, warehouse.erasures.mark("ann"))
    task = EraseTask(_target(lake), 0, "UC-1", CarriedClock.of(clock), *where)
    lake.erase("ann")
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    report = alone(erase_scope(task))
    assert report.fault is not None
    assert "was ended by another process meanwhile" in report.fault.message
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}


@pytest.mark.disk  # only the table lies in a bucket
def test_a_place_that_cannot_be_reached_any_more_waits_and_hinders_no_vacuum(
    lake: Lakehouse, clock: Clock, minio: MinioServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    keys = minio.credentials("SWEPT")
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    base = minio.prefix_for(request.node.name)
    lake.create_storage("away", type="s3", base=base, connection=Connection(minio.endpoint, credentials="env:SWEPT"))
    columns = [Column("id", "BIGINT")]
    lake.create_table("chat.away", type="USER", columns=columns, primary_key=["id"], options={"STORAGE_ID": "away"})
    lake.table("chat.away").write([{"id": 1}], user="ann")
    lake.flush()
    lake.drop_table("chat.away")
    lake.drop_storage("away")
    clock.ahead = _RETENTION + timedelta(hours=1)
    with monkeypatch.context() as without:
        without.delenv("SWEPT_SECRET_ACCESS_KEY")
        _vacuum(lake)
        (told,) = [job for job in lake.jobs() if job.parameters == {"of": "fences"}]
        assert (told.status, "SWEPT_SECRET_ACCESS_KEY" in told.message) == ("failed", True)
    assert sweep(lake.warehouse, "VC-1").fences == 1
    assert lake.warehouse.state.list("graves") == []
