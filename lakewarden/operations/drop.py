"""Dropping a table: out of the catalog for everybody, its log sealed, its scopes fenced, and only then its name free.

The table stays in the catalog as `dropping` until all is gone, so that a crash in between leaves a name that can't be
taken, and dropping it again goes on where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.clock import system_clock
from lakewarden.delta.fence import fence
from lakewarden.operations.fanout import Advance, FanOut, Sized, guarded
from lakewarden.report import ScopeReport, ScopeTarget

_SCOPE_COST = 32 << 10


@dataclass(frozen=True)
class DropTask:
    """The fence of one scope."""

    target: ScopeTarget
    job_id: str


def drop_scope(task: DropTask) -> ScopeReport:
    """Empties the scope under a fence: late writers of the dropped table find a newer version than theirs."""

    def run() -> ScopeReport:
        version = fence(task.target, job_id=task.job_id, clock=system_clock)
        return ScopeReport(task.target.scope, "drop", "done" if version is not None else "skipped", task.target.uri, version=version)

    return guarded(task.target, "drop", run)


def drop_scopes(targets: list[ScopeTarget], job_id: str, fan_out: FanOut, advance: Advance) -> list[ScopeReport]:
    return fan_out(drop_scope, [Sized(DropTask(target, job_id), _SCOPE_COST) for target in targets], advance)
