"""Checks a table's write log, its floors and its ledger: that nothing is missing, and that all are as new as the others say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Pipeline, Table
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import FloorLocation
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.catalog.state.ledger_faults import faults_of
from lakewarden.errors import Corrupt, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.log.position import position_of
from lakewarden.maintenance.check.scope import CheckTask, Finding
from lakewarden.tables.direct.identities import memories_of
from lakewarden.tables.floors import LogStanding, floor_faults
from lakewarden.tables.warehouse import Warehouse


def check_log(warehouse: Warehouse, table: Table) -> Finding:
    """Whether every object of the table's log exists that a newer one needs."""
    try:
        faults = warehouse.log(table).faults()
    except LakewardenError as error:
        return Finding(str(table.name), "log", False, error.code, error.message)
    if not faults:
        return Finding(str(table.name), "log", True)
    message = f"of its write log, {faults.summary}; `lakewarden repair {table.name}` goes on without them"
    return Finding(str(table.name), "log", False, Corrupt.code, message)


def check_ledger(warehouse: Warehouse, catalog: Catalog, pipeline: Pipeline) -> Finding:
    """Whether the ledger of a pipeline has all that its tables remember, and each of its runs."""
    name = str(pipeline.table)
    try:
        ledger = Ledger(warehouse.state, pipeline.id)
        faults = faults_of(ledger, memories_of(warehouse, catalog, pipeline).landed, ledger.cut_off())
    except LakewardenError as error:
        return Finding(name, "ledger", False, error.code, error.message)
    if not faults:
        return Finding(name, "ledger", True)
    message = f"of its ledger: {faults.summary}; `lakewarden repair {name}` goes on without"
    return Finding(name, "ledger", False, Corrupt.code, message)


def unreadable_floor(warehouse: Warehouse, catalog: Catalog, table: Table, *, quick: bool) -> Finding | None:
    """The object of one of the table's floors that cannot be read; with `quick`, of which the head cannot be read."""
    if not (warehouse.identifies and can(table.type, "cold tier")):
        return None
    on_storages = (FloorLocation.on_storage(warehouse.location(storage), table.id) for storage in catalog.storages.values())
    for place in (warehouse.floor(table), *on_storages):
        try:
            floor_at(place).scan() if quick else floor_at(place).look()
        except Corrupt as error:
            return Finding(str(table.name), "floor", False, error.code, error.message)
        except (StorageUnavailable, StorageRefused):
            continue  # the storage's own finding reports it
    return None


def standings_of(tasks: Iterable[CheckTask]) -> dict[LogStanding, str]:
    tables: dict[LogStanding, str] = {}
    for task in tasks:
        target = task.target
        if target.floor is not None and target.root is not None:
            standing = LogStanding(target.floor, target.root, target.log_id, position_of(task.log_end))
            tables[standing] = str(target.scope.table)
    return tables


def own_standing(warehouse: Warehouse, catalog: Catalog, table: Table, log_end: int) -> LogStanding:
    """That of the table's own storage, whichever scopes it has."""
    root = warehouse.root(catalog.storages[table.options.storage_id])
    return LogStanding(warehouse.floor(table), root, table.log_id, position_of(log_end))


def check_floors(warehouse: Warehouse, standings: Mapping[LogStanding, str]) -> list[Finding]:
    """Whether each table's log, and each storage with its scopes, is as new as the other records."""
    faults = floor_faults(warehouse.state, standings)
    wrong = {standing: (fault.code, fault.message) for standing, fault in faults.items()}
    passed = ("", "")
    return [Finding(name, "floor", at not in faults, *wrong.get(at, passed)) for at, name in standings.items()]
