"""Drop: removes a table with its data, as a whole. Hides it, seals its log, fences its scopes, and only then frees its name.

Until everything is removed it stays in the catalog as `dropping`: after a crash the name cannot be taken, and
dropping it again continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.base.clock import CarriedClock
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.changes.leases import under
from lakewarden.catalog.changes.objects import begin_drop, drop_table
from lakewarden.catalog.changes.pipelines import drop_blank
from lakewarden.catalog.model import Catalog, Lease, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.errors import AlreadyExists, NotFound
from lakewarden.maintenance.plans.rounds import forget_rounds
from lakewarden.maintenance.plans.still_planned import check_standing, place_of
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import AsAWhole
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import check_none_failed, scopes_of
from lakewarden.maintenance.vacuum.sweep import note_fences
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.disk import sync
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.dynamic import unmake_table_topic
from lakewarden.tables.fanout import Run, SizedWork, guarded
from lakewarden.tables.floors import remove_floors
from lakewarden.tables.presence import Presence
from lakewarden.tables.rows.files import FILES
from lakewarden.tables.warehouse import Warehouse, find_table


class Drop(AsAWhole):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        """One report for the table as a whole.

        Raises:
            NotFound: no such table.
        """
        warehouse, name = at.warehouse, TableName.parse(request.tables[0])
        table = find_table(catalog, name)
        scopes = len(scopes_of(warehouse, table, None))
        waiting = int(warehouse.log(table).view().counts.rows.sum())
        report = ScopeReport(
            Scope(name),
            "drop",
            "planned",
            place_of(warehouse, catalog, table, None),
            reason=f"the table goes, with {scopes} scopes and {waiting} rows in the log",
            metrics={"scopes": scopes, "rows_pending": waiting},
        )
        return [report]

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return _drop(at, catalog, request, job_id, lambda: None)

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_standing(at.warehouse, plan)
        reports = _drop(at, at.warehouse.catalog.read(), plan.request, None, lambda: check_standing(at.warehouse, plan))
        return DoneBy("", f"{sum(report.outcome == 'done' for report in reports)} scopes were emptied")


def drop_now(at: Workplace, name: TableName) -> None:
    """Raises NotFound: there is no such table."""
    _drop(at, at.warehouse.catalog.read(), Request("drop", (str(name),)), None, lambda: None)


def end_drop(at: Workplace, name: TableName) -> None:
    """Removes what an interrupted drop left under a name, or a table that died before it appeared
    (maintenance/admin/create_table); nothing where a table is there, or none.

    Raises:
        Conflict: another process is at it.
    """

    def still() -> None:
        if not _is_hidden(at, name):
            raise AlreadyExists(f"table {name} has appeared meanwhile")

    if _is_hidden(at, name):
        with suppress(AlreadyExists, NotFound):
            _drop(at, at.warehouse.catalog.read(), Request("drop", (str(name),)), None, still)


def _is_hidden(at: Workplace, name: TableName) -> bool:
    table = at.warehouse.catalog.read().tables.get(name)
    return table is not None and table.dropping


def _drop(at: Workplace, catalog: Catalog, request: Request, job_id: str | None, still: Callable[[], None]) -> list[ScopeReport]:
    """`still` is called while no other process can drop or move the table, and raises where it must not be dropped."""
    table = TableName.parse(request.tables[0])
    if table in catalog.blanks:
        at.warehouse.catalog.change(lambda before: drop_blank(before, table))
        return []
    if table not in catalog.tables:
        raise NotFound(f"there is no table {table}")

    def work(id_: str) -> list[ScopeReport]:
        with at.warehouse.locks.create().hold(table.namespace, table.name) as lease:
            still()
            return drop(at.warehouse, at.engine.run, table, id_, lease)

    return at.as_job("drop", request.scopes, work, job_id)


_SCOPE_COST = 32 << 10


@dataclass(frozen=True)
class DropTask:
    """The fence of one scope."""

    target: ScopeTarget
    job_id: str
    clock: CarriedClock


def drop_scope(task: DropTask) -> Steps[ScopeReport]:
    """Empties the scope under a fence: late writers to the dropped table find a newer version than theirs."""

    def steps() -> Steps[ScopeReport]:
        store = open_store(task.target.location)
        files = [found.key for found in store.list(FILES)]  # before the fence: no file is a later table's
        version = yield from fence(task.target, Committer(task.job_id, task.clock.moment, task.clock))
        store.delete(files)
        return ScopeReport(
            task.target.scope, "drop", "skipped" if version is None else "done", task.target.location, version=version
        )

    return guarded(task.target, "drop", task.clock, steps())


def drop(warehouse: Warehouse, run: Run, name: TableName, job_id: str, lease: Lease) -> list[ScopeReport]:
    """Drops the table and its data; returns when its name is free again. `lease` is the table lock's.

    Raises:
        NotFound: the table does not exist.
        StorageUnavailable: a storage with scopes of the table is not present; or the broker with its topic is away: the table is
            hidden, and dropping it again continues.
        Conflict: the lease was lost, or some scopes could not be emptied. The table is hidden; dropping it again continues.
    """
    present = check_present(warehouse, name)
    catalog = warehouse.catalog.change(under(lease, lambda before: begin_drop(before, name)))
    table = catalog.tables[name]
    warehouse.log(table).drop()
    clock = CarriedClock.of(warehouse.clock)
    targets = _targets(warehouse, catalog, table)
    reports = run(drop_scope, [SizedWork(DropTask(target, job_id, clock), _SCOPE_COST) for target in targets])
    check_none_failed(reports, f"of {name} could not be emptied", "drop it again")
    sync({warehouse.base(storage) for storage in catalog.storages.values()})
    present.again().check()
    note_fences(warehouse, targets, job_id, table.log_id)
    if warehouse.identifies:
        remove_floors(warehouse.floor(table), [warehouse.root(storage) for storage in catalog.storages.values()])
    unmake_table_topic(table)
    warehouse.registry.remove(table.id)
    warehouse.user_storages.remove(table.id)
    warehouse.failed_checks.forget(table.id)
    forget_rounds(warehouse.state, table.id)
    warehouse.catalog.change(under(lease, lambda before: drop_table(before, name)))
    return reports


def check_present(warehouse: Warehouse, name: TableName) -> Presence:
    """The storages with scopes of the table; raises where one is away."""
    catalog = warehouse.catalog.read()
    table = catalog.tables.get(name)
    present = Presence.of(() if table is None else _targets(warehouse, catalog, table))
    present.check()
    return present


def _targets(warehouse: Warehouse, catalog: Catalog, table: Table) -> list[ScopeTarget]:
    users = [None] if table.type == "SHARED" else sorted(warehouse.registry.users(table.id))
    return [warehouse.target_of(catalog, table, user) for user in users]


PROCEDURE = Drop()
