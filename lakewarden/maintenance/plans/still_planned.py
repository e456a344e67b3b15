"""What of a scope is still as it was planned: the looks that an apply takes before it changes anything."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.catalog.report import ScopePlan
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import LogEntry, walk
from lakewarden.errors import Moved
from lakewarden.maintenance.plans.value import plain_path
from lakewarden.storage.open import open_store

PLAN = "plan_id"
"""Parameter of the commits that an apply makes."""

_FLUSHES = frozenset({"WRITE", "MERGE"})


def planned_table(target: ScopeTarget, planned: ScopePlan) -> ScopeTable:
    """The scope's table as it is now.

    Raises:
        Moved: it is gone, or was started again.
    """
    table = open_scope(target)
    if table is None or planned.version is None or table.version < planned.version:
        now = "there is no table" if table is None else f"it is at version {table.version}"
        raise Moved(f"{planned.scope} was planned at version {planned.version}, and {now} now; plan again")
    return table


def live_inputs(table: ScopeTable, planned: ScopePlan) -> tuple[DataFile, ...]:
    """The planned files, oldest rows first.

    Raises:
        Moved: one is not live any more.
    """
    wanted = frozenset(planned.files)
    inputs = tuple(file for file in table.files() if plain_path(file.path) in wanted)
    if len(inputs) < len(planned.files):
        gone = len(planned.files) - len(inputs)
        raise Moved(
            f"{gone} of the {len(planned.files)} files that were planned for {planned.scope} were replaced since version"
            f" {planned.version}; version {table.version} is there now: plan again"
        )
    return inputs


def check_version(table: ScopeTable, planned: ScopePlan, plan_id: str) -> None:
    """Whether the table is where it was planned, but for the flush with which the plan's apply begins.

    Raises:
        Moved: it is not.
    """
    strangers = [entry for entry in _later(table, planned) if entry.operation not in _FLUSHES or not _is_of(entry, plan_id)]
    if strangers:
        raise Moved(
            f"{planned.scope} was planned at version {planned.version} and is at version {strangers[0].version} now, made by"
            f" {strangers[0].operation}; plan again"
        )
    assert planned.version is not None, "as of `planned_table`"
    at_that = table.version == planned.version
    digest = table.digest if at_that else CommitLog(open_store(table.location)).digest(planned.version)
    if digest != planned.digest:
        raise Moved(f"version {planned.version} of {planned.scope} is not the commit that was planned on; plan again")


def commit_of(target: ScopeTarget, planned: ScopePlan, plan_id: str, operation: str) -> LogEntry | None:
    """The commit of that operation in which the plan was applied to the scope; None where there is none."""
    table = open_scope(target)
    if table is None:
        return None
    return next((entry for entry in _later(table, planned) if entry.operation == operation and _is_of(entry, plan_id)), None)


def _later(table: ScopeTable, planned: ScopePlan) -> Iterator[LogEntry]:
    """The commits above the planned version, newest first; nothing is read where there are none."""
    since = -1 if planned.version is None else planned.version
    return walk(open_store(table.location), table.version, above=since)


def _is_of(entry: LogEntry, plan_id: str) -> bool:
    return entry.stamp is not None and entry.stamp.parameters.get(PLAN) == plan_id
