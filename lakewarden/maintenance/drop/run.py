"""Drops a table: hides it, seals its log, fences its scopes, and only then frees its name.

Until everything is removed it stays in the catalog as `dropping`: after a crash the name cannot be taken, and
dropping it again continues where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.clock import CarriedClock
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.leases import under
from lakewarden.catalog.changes.objects import begin_drop, drop_table
from lakewarden.catalog.model import Catalog, Lease, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.rounds import forget_rounds
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.errors import Conflict
from lakewarden.maintenance.vacuum.sweep import bury
from lakewarden.storage.disk import sync
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.dynamic import unmake_table_topic
from lakewarden.tables.fanout import Run, SizedWork, guarded
from lakewarden.tables.floors import remove_floors
from lakewarden.tables.presence import Presence
from lakewarden.tables.rows.files import FILES
from lakewarden.tables.warehouse import Warehouse

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
    failed = [report for report in reports if report.fault]
    if failed:
        first = f"{failed[0].scope}: {failed[0].reason}"
        raise Conflict(f"{len(failed)} scopes of {name} could not be emptied: {first}; drop it again")
    sync({warehouse.base(storage) for storage in catalog.storages.values()})
    present.again().check()
    bury(warehouse, targets, job_id, table.log_id)
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
