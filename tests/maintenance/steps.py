"""One scope and what the tests of the maintenance operations do to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakewarden.base.clock import Clock, random_id
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.kept_settings import TailRule
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.history import history
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.compact.procedure import plan_compact
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.procedure import plan_optimize
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.scope import plan_vacuum
from lakewarden.storage.steps import alone
from tests.delta.scopes import flush, people
from tests.fixtures.bucket import path_of

SMALL_RUNS = TailRule(min_files=2, max_files=8)


class Died(BaseException):
    """The process was killed here."""


def later(days: float = 0) -> Clock:
    """The real time, so many days on."""
    return lambda: datetime.now(UTC) + timedelta(days=days)


def dies(step: str) -> Reach:
    def reach(name: str) -> None:
        if name == step:
            raise Died(name)

    return reach


def then(step: str, act: Callable[[], object]) -> Reach:
    """Something that happens when the operation has come that far."""

    def reach(name: str) -> None:
        if name == step:
            act()

    return reach


def batches(scope: ScopeTarget, count: int, size: int = 2, first: int = 0) -> None:
    """So many flushes of new keys, a file each."""
    for number in range(first, first + count):
        ids = range(number * size, (number + 1) * size)
        flush(scope, people(*ids), first_seq=number * size)


def ruled(scope: ScopeTarget, tail: TailRule = SMALL_RUNS) -> ScopeTarget:
    """The scope under another rule."""
    return replace(scope, rules=replace(scope.rules, tail=tail))


def compact(scope: ScopeTarget, tail: TailRule = SMALL_RUNS, reach: Reach = no_faults) -> ScopeReport:
    plan = plan_compact(ruled(scope, tail), CompactOptions(), now=later()())
    return alone(plan.run(job_id="CO-1", clock=later(), new_id=random_id, reach=reach))


def optimize(scope: ScopeTarget, *zorder: str, reach: Reach = no_faults) -> ScopeReport:
    plan = plan_optimize(scope, OptimizeOptions(zorder=zorder), now=later()())
    return alone(plan.run(job_id="OP-1", clock=later(), new_id=random_id, reach=reach))


def vacuum(
    scope: ScopeTarget,
    days: float = 0,
    *,
    hours: float | None = None,
    keep: tuple[int, ...] = (),
    reach: Reach = no_faults,
    job_id: str = "VA-1",
) -> ScopeReport:
    """A vacuum that is run so many days from now."""
    options = VacuumOptions(hours, force=hours is not None, keep_versions=keep)
    plan = plan_vacuum(scope, options, now=later(days)())
    return alone(plan.run(job_id=job_id, clock=later(days), new_id=random_id, reach=reach))


def restore(
    scope: ScopeTarget, version: int | None = None, timestamp: datetime | None = None, reach: Reach = no_faults
) -> ScopeReport:
    plan = plan_restore(scope, RestoreOptions(version, timestamp), now=later()())
    return alone(plan.run(job_id="RS-1", clock=later(), new_id=random_id, reach=reach))


def data_files(scope: ScopeTarget) -> set[str]:
    """The Parquet files that lie there, live or not."""
    return {path.name for path in path_of(scope.uri).glob("*.parquet")}


def manifest_paths(scope: ScopeTarget) -> set[str]:
    manifest = json.loads((path_of(scope.uri) / "manifest.json").read_text())
    return {segment["path"] for segment in manifest["segments"]}


def operations(scope: ScopeTarget) -> list[str]:
    """Newest first."""
    return [entry.operation for entry in history(scope)]


def set_time(scope: ScopeTarget, version: int, moment: datetime) -> None:
    """Writes another time into a commit, as a writer with that clock would have."""
    path = path_of(scope.uri) / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines() if line]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = int(moment.timestamp() * 1000)
    path.write_text("\n".join(json.dumps(action) for action in actions))
