"""What of a plan is still as it was planned: tables and places, then what an apply looks at in a scope before it changes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.catalog.access import can
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.changes.objects import table_place
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import LogEntry, walk
from lakewarden.errors import LakewardenError, Moved, NotFound
from lakewarden.maintenance.plans.value import Plan, plain_path
from lakewarden.storage.open import open_store
from lakewarden.tables.warehouse import Warehouse, find_table

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


@dataclass(frozen=True)
class StandingPlan:
    """The lines that stand, with their targets (none where an operation needs the log alone), and reports on the others."""

    lines: tuple[ScopePlan, ...]
    targets: tuple[ScopeTarget, ...]
    refused: list[ScopeReport]


def standing(warehouse: Warehouse, catalog: Catalog, plan: Plan, *, in_log: bool = False) -> StandingPlan:
    """Looks each scope up. `in_log`: the operation only needs the log, and has no targets."""
    now, lines, targets, refused = warehouse.clock(), [], [], []
    for line in {line.scope: line for line in plan.scopes}.values():
        try:
            target = _resolved(warehouse, catalog, line, in_log=in_log)
        except LakewardenError as error:
            refused.append(line.failed(plan.operation, error, now))
            continue
        lines.append(line)
        if target is not None:
            targets.append(target)
    return StandingPlan(tuple(lines), tuple(targets), refused)


def _resolved(warehouse: Warehouse, catalog: Catalog, line: ScopePlan, *, in_log: bool) -> ScopeTarget | None:
    """The scope as the catalog has it now.

    Raises:
        Moved: it is another table, or is at another place; or the table no longer exists.
        FailedPrecondition: the engine of its namespace is disabled.
    """
    try:
        table = find_table(catalog, line.scope.table)
    except NotFound as error:
        raise Moved(f"{error.message}; plan again") from error
    require_active(catalog, table.name.namespace)
    if in_log:
        line.check_place(table.log_id, Location(warehouse.state.uri).below(warehouse.log(table).home).uri)
        return None
    target = warehouse.target(catalog, line.scope)
    line.check_place(table.log_id, target.uri)
    return target


def check_standing(warehouse: Warehouse, plan: Plan) -> None:
    """Whether each table of the plan is the one that was planned for, at its place: it is done as a whole, or not at all.

    Raises:
        Moved: one is not.
    """
    catalog = warehouse.catalog.read()
    for line in plan.scopes:
        table = catalog.tables.get(line.scope.table)  # one whose drop was interrupted too
        if table is None:
            raise Moved(f"there is no table {line.scope.table} any more; plan again")
        line.check_place(table.log_id, place_of(warehouse, catalog, table, line.user).uri)


def place_of(warehouse: Warehouse, catalog: Catalog, table: Table, user: str | None) -> Location:
    """Where the table is, or the user's scope of it; rows of a STREAM table are in its log alone."""
    if not can(table.type, "cold tier"):
        return Location(warehouse.state.uri).below(warehouse.log(table).home)
    if user is not None:
        return warehouse.location_of(catalog, table, user)
    return Location(table_place(catalog.storages[table.options.storage_id], table, warehouse.base))
