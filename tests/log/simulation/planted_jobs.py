"""Whole jobs with one of their rules taken away (as `planted` does it for the log)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from greenlet import getcurrent

from lakewarden.base.faults import Reach
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.flush import run as flush
from lakewarden.maintenance.flush.run import FlushJob, flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.maintain import MaintenanceRun, maintain_targets
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore import procedure as restore
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.floors import UnwrittenFloors
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse
from tests.log.simulation.planted import Fault
from tests.log.simulation.premises import Premises
from tests.log.simulation.schedule import Roles

_JOBS = Roles(jobs=1.0)
_settle, _noted, _tasks = flush._settle, flush._noted, flush._tasks

Views = dict[str, LogView]
Reports = Sequence[ScopeReport]


def _sound(reports: Reports) -> list[ScopeReport]:
    return [replace(report, fault=None) for report in reports]


# --- flushing


def _settles_failures(house: Warehouse, views: Views, tasks: Sequence[FlushTask], reports: Reports, reach: Reach) -> None:
    _settle(house, views, tasks, _sound(reports), reach)


_held: dict[object, list[tuple[str, str]]] = {}
"""By process, the logs and users of the last job that were held."""


def _remembers_held(house: Warehouse, catalog: Any, due: Any, job: FlushJob) -> tuple[list[FlushTask], list[ScopeReport]]:
    tasks, held = _tasks(house, catalog, due, job)
    scopes = {report.scope for report in held}
    _held[getcurrent()] = [(one.table.log_id, one.rows.user) for one in due if one.scope in scopes]
    return tasks, held


def _settles_held(house: Warehouse, views: Views, tasks: Sequence[FlushTask], reports: Reports, reach: Reach) -> None:
    _settle(house, views, tasks, reports, reach)
    for log_id, user in _held.pop(getcurrent(), []):
        flush.settle_log(house, views[log_id], {user: views[log_id].end})


def _later(*_: object) -> None:
    return None


def _settles_then_syncs(house: Any, *rest: Any) -> None:
    _settle(house, *rest)
    house.catalog.premises.house.sync()


def _as_reported(_: Sequence[FlushTask], reports: list[ScopeReport], __: datetime) -> list[ScopeReport]:
    return reports


def _settles_then_notes(house: Warehouse, views: Views, tasks: Sequence[FlushTask], reports: Reports, reach: Reach) -> None:
    _settle(house, views, tasks, reports, reach)
    _noted(tasks, reports, house.clock())


def _registers_later(_: Warehouse, catalog: Catalog, __: Mapping[str, LogView], due: list[Any]) -> tuple[list[Any], Catalog]:
    return due, catalog


def _registers_then_settles(house: Warehouse, views: Views, tasks: Sequence[FlushTask], reports: Reports, reach: Reach) -> None:
    new = {task.pending.user for task in tasks} - house.registry.users("T")
    if new:
        house.registry.add("T", new)
    _settle(house, views, tasks, reports, reach)


def _does_not_look(present: Presence) -> Presence:
    return present


def _whatever_is_noted(_: UnwrittenFloors, __: ScopeTarget, report: ScopeReport, ___: datetime) -> ScopeReport:
    return report


# --- restoring


def _leaves_the_watermark(
    at: Workplace, catalog: Catalog, run: MaintenanceRun[RestoreOptions], targets: Sequence[ScopeTarget]
) -> list[ScopeReport]:
    return maintain_targets(at, catalog, replace(run, options=replace(run.options, discard_to=None)), targets)


def _discards_though_it_failed(
    at: Workplace, catalog: Catalog, run: MaintenanceRun[RestoreOptions], targets: Sequence[ScopeTarget]
) -> list[ScopeReport]:
    reports = maintain_targets(at, catalog, run, targets)
    return reports if run.options.discard_to is None else _sound(reports)


def _flushes_anyhow(*args: Any, **rest: Any) -> list[ScopeReport]:
    return _sound(flush_scopes(*args, **rest))


def _discards_less(
    at: Workplace, catalog: Catalog, run: MaintenanceRun[RestoreOptions], targets: Sequence[ScopeTarget]
) -> list[ScopeReport]:
    upto = None if run.options.discard_to is None else max(NOTHING, run.options.discard_to - (1 << 28))
    return maintain_targets(at, catalog, replace(run, options=replace(run.options, discard_to=upto)), targets)


JOB_FAULTS = (
    Fault("a job settles scopes that failed", ((flush, "_settle", _settles_failures),), _JOBS),
    Fault("settles scopes that are held", ((flush, "_tasks", _remembers_held), (flush, "_settle", _settles_held)), _JOBS),
    Fault("a job settles before the sync", ((Premises, "_sync", _later), (flush, "_settle", _settles_then_syncs)), _JOBS),
    Fault("settles before the floors know", ((flush, "_noted", _as_reported), (flush, "_settle", _settles_then_notes)), _JOBS),
    Fault("settles what no floor could be told", ((UnwrittenFloors, "judged", _whatever_is_noted),), _JOBS),
    Fault(
        "registers behind the commits",
        ((flush, "registered", _registers_later), (flush, "_settle", _registers_then_settles)),
        _JOBS,
    ),
    Fault("settles what went into an empty mount point", ((Presence, "again", _does_not_look),), _JOBS),
    Fault("drops pending rows and leaves the watermark", ((restore, "maintain_targets", _leaves_the_watermark),), _JOBS),
    Fault("drops pending rows one position short", ((restore, "maintain_targets", _discards_less),), _JOBS),
    Fault("drops pending rows though nothing was restored", ((restore, "maintain_targets", _discards_though_it_failed),), _JOBS),
    Fault("restores though the flush failed", ((restore, "flush_scopes", _flushes_anyhow),), _JOBS),
)
