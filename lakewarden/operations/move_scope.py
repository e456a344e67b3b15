"""One scope's part of a move, as it runs in a task: copied ahead, frozen and moved, let go again, or left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.clock import CarriedClock, system_clock
from lakewarden.delta.committing import Committer
from lakewarden.delta.fence import fence
from lakewarden.delta.freezing import freeze, frozen_version, is_frozen, is_left, thaw
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.moving import Copied, copy_data, copy_frozen
from lakewarden.delta.scope import open_scope
from lakewarden.faults import Reach, no_faults
from lakewarden.operations.fanout import guarded
from lakewarden.report import ScopeReport, ScopeState, ScopeTarget


@dataclass(frozen=True)
class MoveTask:
    """One scope's way. `token` is that of the mover's lease; `copied`: files that lie at the target and were compared already."""

    source: ScopeTarget
    target: ScopeTarget
    job_id: str
    token: int
    clock: CarriedClock
    copied: tuple[str, ...] = ()

    @property
    def by(self) -> Committer:
        return Committer(self.job_id, self.clock.moment, self.clock)


def copy_scope(task: MoveTask, reach: Reach = no_faults) -> ScopeReport:
    """Copies the data files ahead, while everybody goes on."""

    def run() -> ScopeReport:
        copied = copy_data(task.source.location, task.target.location, task.by, reach)
        return _report(task, task.target, copied=copied)

    return _guarded(task, run)


def move_scope(task: MoveTask, reach: Reach = no_faults) -> ScopeReport:
    """Freezes the scope, copies what is not there yet, and looks at it there."""

    def run() -> ScopeReport:
        version = freeze(task.source, task.token, task.by)
        copied = copy_frozen(task.source, task.target.location, version, frozenset(task.copied), task.by, reach)
        arrived = open_scope(task.target)
        assert arrived is not None  # copy_frozen has looked
        refresh_manifest(task.target, arrived, system_clock())
        return _report(task, task.target, state=arrived.state(task.target.app_id), copied=copied)

    return _guarded(task, run)


def thaw_scope(task: MoveTask) -> ScopeReport:
    """Lets the scope go on where it is."""

    def run() -> ScopeReport:
        return _report(task, task.source, done=thaw(task.source, task.token, task.by))

    return _guarded(task, run)


def leave_scope(task: MoveTask) -> ScopeReport:
    """Empties the old place under a fence, which stays frozen: late flushes find it, whenever they wake."""

    def run() -> ScopeReport:
        table = open_scope(task.source)
        if table is None or not is_frozen(table, task.source):  # a scope that is younger than the move
            return _report(task, task.target, done=False)
        if not is_left(table):
            frozen_version(table, task.source)
        fence(task.source, task.by)
        return _report(task, task.target)

    return _guarded(task, run)


def _guarded(task: MoveTask, run: Callable[[], ScopeReport]) -> ScopeReport:
    return guarded(task.source, "move", run)


def _report(
    task: MoveTask, where: ScopeTarget, *, state: ScopeState | None = None, copied: Copied = Copied(), done: bool = True
) -> ScopeReport:
    return ScopeReport(
        where.scope,
        "move",
        "done" if done else "skipped",
        where.location,
        reason="" if done else "nothing of it is there",
        version=state.version if state else None,
        parameters={"job_id": task.job_id, "from": task.source.uri, "to": task.target.uri},
        metrics={"files_copied": len(copied.files), "bytes_copied": copied.bytes},
        state=state,
        files=copied.files,
        finished_at=system_clock(),
    )
