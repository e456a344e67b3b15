"""Whole jobs: the real `flush_scopes` and `TableRewind`, with the world's tables below them instead of Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar, cast

from lakewarden.base.clock import random_id, system_clock
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import Outcome, ScopeReport, ScopeState
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Conflict, Corrupt, LakewardenError, NotFound, StorageUnavailable
from lakewarden.log.drain import drain
from lakewarden.maintenance.engine import WorkEngine
from lakewarden.maintenance.flush.run import FlushJob, flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.maintain import MaintenanceRun
from lakewarden.maintenance.operator import Operator
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.procedure import PROCEDURE, TableRewind
from lakewarden.storage.steps import Steps, together
from lakewarden.tables.fanout import SizedWork, failed_report
from lakewarden.tables.warehouse import find_table
from tests.log.simulation.actors import Flusher, Warehouse, expect
from tests.log.simulation.light import SimScope
from tests.log.simulation.premises import TABLE, Premises
from tests.log.simulation.stores import SimObjects, Snapshot
from tests.log.simulation.world import Broken, Unanswered

T = TypeVar("T")
R = TypeVar("R")

RestoreTask = tuple[ScopeTarget, MaintenanceRun[RestoreOptions]]


class Job(Flusher):
    """A process that flushes as a job does."""

    began = 0
    """When the restore under way was asked for."""

    def __init__(self, house: Warehouse, premises: Premises) -> None:
        super().__init__(house)
        self.premises = premises
        self.warehouse = premises.warehouse()

    def _flush(self, share: float) -> None:
        world = self.house.world
        world.say("flushes, as a job")
        try:
            reports = flush_scopes(
                self.warehouse, self.run, self.flush_large, lambda _: world.rng.random() < share, job=FlushJob("J")
            )
        except (Conflict, StorageUnavailable, Corrupt) as error:
            expect(self.house, error)
            return
        self.judge(reports)

    def judge(self, reports: Sequence[ScopeReport]) -> None:
        """A scope fails only where something is wrong with it."""
        for report in reports:
            self.house.world.say(f"  {report.scope.user} {report.operation} {report.outcome} {report.reason}")
            fault = report.fault
            if fault is None or self.house.was_away or self.house.world.odds.fail:
                continue
            excused = fault.code == "CONFLICT" or (fault.code == "CORRUPT" and self.house.tables[str(report.scope.user)].broken)
            if not excused and fault.code != "NOT_FOUND":
                raise Broken(f"the {report.operation} of {report.scope.user} fails: {fault.message}")

    def run(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        """A `Run` that does something else than the work: to the world's tables what that does to Delta tables."""
        del work
        return cast("list[R]", together(self._done(cast("FlushTask | RestoreTask", item.work)) for item in items))

    def flush_large(self, task: FlushTask) -> ScopeReport:
        raise AssertionError(f"{task.target.scope} is small")

    def _done(self, task: FlushTask | RestoreTask) -> Steps[ScopeReport]:
        operation: Operation = "flush" if isinstance(task, FlushTask) else "restore"
        try:
            return (yield from self._flushed(task) if isinstance(task, FlushTask) else self._restored(task))
        except LakewardenError as error:
            return failed_report(task.target if isinstance(task, FlushTask) else task[0], operation, error, system_clock())

    def _flushed(self, task: FlushTask) -> Steps[ScopeReport]:
        opened: list[Snapshot] = []

        def open_again() -> Snapshot:
            opened.append(self.premises.open(task.target))
            return opened[-1]

        hot = SimScope(
            cast("SimObjects", self.warehouse.state),
            task.target.log_id,
            task.pending.user,
            task.end,
            task.pending,
            for_flush=True,
        )
        drained = yield from drain(hot, open_again, attempts=task.attempts)
        before = opened[-1].opened
        if drained.committed:
            return _report(task.target, "flush", before.version + 1, task.end)
        return _report(task.target, "flush", before.version, before.upto, "skipped")

    def _restored(self, task: RestoreTask) -> Steps[ScopeReport]:
        target, run = task
        user, options = str(target.scope.user), run.options
        assert options.version is not None
        snapshot = self.premises.open(target)
        before = snapshot.opened
        if not 0 <= options.version <= before.version:
            raise NotFound(f"there is no version {options.version}")
        if run.dry_run:
            return ScopeReport(target.scope, "restore", "planned", target.location)
        yield "memory://tables"
        restored = partial(self.house.set_back, user, self.began)
        snapshot.restore(options.version, options.discard_to, restored)
        upto = before.upto if options.discard_to is None else max(options.discard_to, before.upto)
        return _report(target, "restore", before.version + 1, upto)


class Restorer(Job):
    """A process that sets one user's rows back."""

    def restore(self, times: int) -> None:
        waits(self.house, [self._restore] * times)

    def _restore(self) -> None:
        house, rng = self.house, self.house.world.rng
        flushed = [user for user in house.users if house.tables[user].version >= 0]
        user = rng.choice(flushed or house.users)
        table = house.tables[user]
        options = RestoreOptions(version=rng.randrange(max(1, table.version + 1)), discard_pending=rng.random() < 0.5, user=user)
        house.world.say(f"restores {user} to {options.version}{', discarding' if options.discard_pending else ''}")
        self.began = house.world.now
        try:
            at = Operator(self.warehouse, cast("WorkEngine", self), JobLog(self.warehouse.state, system_clock, random_id))
            catalog = self.warehouse.catalog.read()
            run = MaintenanceRun(PROCEDURE, options, "R")
            reports = TableRewind.of(at, catalog, run, find_table(catalog, TABLE)).restored()
        except (Conflict, StorageUnavailable, Corrupt) as error:
            expect(house, error)
            return
        self.judge(reports)


def waits(house: Warehouse, then: Sequence[Callable[[], None]]) -> None:
    """Each of them in its turn, at some moment."""
    for what in then:
        for _ in range(house.world.rng.choice((1, 5, 20, 40))):
            with suppress(Unanswered):
                house.world.turn("waits")
        what()


def _report(target: ScopeTarget, operation: Operation, version: int, upto: int, outcome: Outcome = "done") -> ScopeReport:
    state = ScopeState(version, 0, 0, 0, upto)
    return ScopeReport(target.scope, operation, outcome, target.location, version=version, state=state)
