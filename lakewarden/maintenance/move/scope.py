"""One scope's part of a move, as it runs in a task: copied ahead, frozen and moved, released, or emptied."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.clock import CarriedClock
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.lifecycle.freezing import freeze, frozen_version, is_frozen, is_left, thaw
from lakewarden.delta.lifecycle.moving import CopiedFiles, copy_data, copy_frozen
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.scope import open_scope
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import guarded


@dataclass(frozen=True)
class MoveTask:
    """The move of one scope. `token` is the mover's lease's; `copied`: files that are at the target and were already compared."""

    source: ScopeTarget
    target: ScopeTarget
    job_id: str
    token: int
    clock: CarriedClock
    copied: tuple[str, ...] = ()

    @property
    def by(self) -> Committer:
        return Committer(self.job_id, self.clock.moment, self.clock)


def copy_scope(task: MoveTask, reach: Reach = no_faults) -> Steps[ScopeReport]:
    """Copies the data files ahead, while writers continue."""

    def steps() -> Steps[ScopeReport]:
        yield from ()
        copied = copy_data(task.source.location, task.target.location, task.by, reach)
        return _report(task, task.target, copied=copied)

    return _guarded(task, steps())


def move_scope(task: MoveTask, reach: Reach = no_faults) -> Steps[ScopeReport]:
    """Freezes the scope, copies what is missing at the target, and checks it there."""

    def steps() -> Steps[ScopeReport]:
        # A commit of its own: each flush came before it and is copied, or is refused and finds the table frozen
        # (docs/decisions/0014-moving-by-freezing.md).
        version = yield from freeze(task.source, task.token, task.by)
        # Up to the version below the freeze, so that the new place is not frozen.
        copied = copy_frozen(task.source, task.target.location, version, frozenset(task.copied), task.by, reach)
        arrived = open_scope(task.target)
        assert arrived is not None  # copy_frozen has checked
        refresh_manifest(task.target, arrived, task.clock())
        return _report(task, task.target, state=arrived.state(task.target.app_id), copied=copied)

    return _guarded(task, steps())


def thaw_scope(task: MoveTask) -> Steps[ScopeReport]:
    """Releases the scope at its old place."""

    def steps() -> Steps[ScopeReport]:
        return _report(task, task.source, done=(yield from thaw(task.source, task.token, task.by)))

    return _guarded(task, steps())


def leave_scope(task: MoveTask) -> Steps[ScopeReport]:
    """Empties the old place under a fence, which stays frozen: flushes that resume later find it."""

    def steps() -> Steps[ScopeReport]:
        table = open_scope(task.source)
        if table is None or not is_frozen(table, task.source):  # a scope that is newer than the move
            return _report(task, task.target, done=False)
        if not is_left(table):
            # Raises where another program has committed since the freeze: what it wrote would go with the old place.
            frozen_version(table, task.source)
        # The old place is not simply deleted: versions that start again would take commits of those who sleep
        # (docs/decisions/0006-fences.md).
        yield from fence(task.source, task.by)
        return _report(task, task.target)

    return _guarded(task, steps())


def _guarded(task: MoveTask, steps: Steps[ScopeReport]) -> Steps[ScopeReport]:
    return guarded(task.source, "move", task.clock, steps)


def _report(
    task: MoveTask, where: ScopeTarget, *, state: ScopeState | None = None, copied: CopiedFiles = CopiedFiles(), done: bool = True
) -> ScopeReport:
    return ScopeReport(
        where.scope,
        "move",
        "done" if done else "skipped",
        where.location,
        reason="" if done else "it has nothing there",
        version=state.version if state else None,
        parameters={"job_id": task.job_id, "from": task.source.uri, "to": task.target.uri},
        metrics={"files_copied": len(copied.files), "bytes_copied": copied.bytes},
        state=state,
        files=copied.files,
        finished_at=task.clock(),
    )
