"""Checks that every storage is reachable, every scope readable, log and table consistent. Changes nothing of the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Pipeline, Storage, Table
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import FloorLocation
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.catalog.state.ledger_faults import faults_of
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.row_rules import check_known
from lakewarden.errors import (
    ConstraintViolation,
    Corrupt,
    LakewardenError,
    NotFound,
    StorageRefused,
    StorageUnavailable,
    Unsupported,
)
from lakewarden.log.position import position_of
from lakewarden.maintenance.check.memory import results_of
from lakewarden.maintenance.check.scope import PENDING_ROWS, UNKNOWN, CheckedScope, CheckTask, Finding, check_scopes, task_of
from lakewarden.maintenance.plans.census import list_fault, surveyed, totals_of
from lakewarden.maintenance.plans.select import UnseenScopes, select
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.maintenance.vacuum.unreferenced_files import hot_files
from lakewarden.storage.buckets import find_uploads
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import confirm
from lakewarden.storage.probe import probe
from lakewarden.tables.direct.identities import memories_of
from lakewarden.tables.fanout import Run
from lakewarden.tables.floors import LogStanding, floor_faults
from lakewarden.tables.strong_read import EVERYTHING, read_undrained
from lakewarden.tables.warehouse import Warehouse, find_table, live_tables

# Checks the rows of scopes that are in the log: that they can be read, and keep what other writers ask of a table's rows.


def garbled_pending(warehouse: Warehouse, table: Table, users: Collection[str] | None) -> dict[str | None, Finding]:
    """Whose rows in the log cannot be read; of these users, or of all who have any."""
    log = warehouse.log(table)
    try:
        view = log.view(users)
        pending = list((view.pending if users is None else view.pending_of(users)).values())
    except LakewardenError:  # the finding on the log says it
        return {}
    wrong = {each.user: error for each, error in log.garbled([each for one in pending for each in one.ranges]).items()}
    return {user or None: _as_finding(table, Scope(table.name, user or None), error) for user, error in wrong.items()}


def _as_finding(table: Table, scope: Scope, error: Corrupt) -> Finding:
    message = (
        f"{error.message}; no flush can take its rows until the object is put back whole, as from a backup;"
        f" `lakewarden repair {table.name}` goes on without them"
    )
    return Finding.of(scope, PENDING_ROWS, message, error.code)


def with_pending(warehouse: Warehouse, target: ScopeTarget, one: CheckedScope) -> CheckedScope:
    """Adds a finding where the table has such rules: reads the scope's log."""
    if one.ruled is None:
        return one
    wrong = ""
    try:
        log = warehouse.log(find_table(warehouse.catalog.read(), target.scope.table))
        rows = read_undrained(lambda: target, log, EVERYTHING, warehouse.cold)
        check_known(one.ruled, target.schema, rows, target.uri)
    except ConstraintViolation as error:
        wrong = (
            f"{error.message}; they are in the log, and the scope is not flushed until they are changed, or the rule is dropped"
        )
    except LakewardenError:  # the finding on the log, or the table, says it
        return one
    found = Finding.of(target.scope, "pending_rows_keep_rules", wrong, Unsupported.code)
    return replace(one, findings=(*one.findings, found))


@dataclass(frozen=True)
class _TableCheck:
    """What is found of a table before any of its scopes is opened, and the checks of those that are."""

    table: Table
    log: Finding
    floor: Finding | None
    """Says which of its floors cannot be read."""
    log_end: int
    """`UNKNOWN` where the log is damaged."""
    scopes: list[Scope]
    not_opened: tuple[Finding, ...]
    """How many scopes are left to what the state knows."""
    tasks: list[CheckTask]
    on_storages: Counter[str]
    """How many scopes each storage has, also one that is away."""

    @property
    def is_comparable(self) -> bool:
        """Whether log and floor can be held against each other."""
        return self.floor is None and self.log_end != UNKNOWN


def check(warehouse: Warehouse, run: Run, storage_id: str | None, *, quick: bool = False) -> list[Finding]:
    """Checks every storage and scope, or one storage and the scopes on it.

    With `quick` it opens only the scopes that failed a check or that the state does not know, and says how many it knows.

    Raises:
        NotFound: the storage does not exist.
    """
    catalog = warehouse.catalog.read()
    storages = storages_named(catalog, storage_id)
    looked = [check_storage(warehouse, storage) for storage in storages.values()]
    there = catalog.storages.keys() - {each.id for each in looked if each.away}
    own = [table for table in live_tables(catalog) if table.options.storage_id in storages]
    tables = [_before_opening(warehouse, catalog, table, there, quick=quick) for table in own]
    left_out = sum((each.on_storages for each in tables), Counter[str]())
    findings = [finding for each in looked for finding in each.without(left_out[each.id])]
    findings += [finding for each in tables for finding in each.not_opened]
    findings += [each.log for each in tables] + [each.floor for each in tables if each.floor is not None]
    findings += check_floors(warehouse, _standings(warehouse, catalog, tables, there, quick=quick))
    findings += _ledgers(warehouse, catalog, there & storages.keys())
    tasks = [task for each in tables for task in each.tasks]
    found = [(task, with_pending(warehouse, task.target, one)) for task, one in check_scopes(warehouse, run, tasks)]
    garbled = [garbled_pending(warehouse, each.table, _users(each, quick=quick)) for each in tables]
    findings += [finding for theirs in garbled for finding in theirs.values()]
    results = iter(found)  # of all tables together, in the order of their tasks
    for each, theirs in zip(tables, garbled, strict=True):
        findings += _recorded(warehouse, each.table, [next(results) for _ in each.tasks], theirs)
    return findings + [finding for _, one in found for finding in one.findings]


def _before_opening(warehouse: Warehouse, catalog: Catalog, table: Table, there: Collection[str], *, quick: bool) -> _TableCheck:
    """`there`: the storages that are not away."""
    log, floor = check_log(warehouse, table), unreadable_floor(warehouse, catalog, table, quick=quick)
    lost = list_finding(warehouse, catalog, table) if floor is None else None
    scopes, not_opened = _to_open(warehouse, catalog, table, quick=quick and floor is None) if lost is None else ([], (lost,))
    end = warehouse.log(table).view(()).end if log.passed else UNKNOWN
    every = list(_tasks(warehouse, catalog, table, scopes, end, floor is None, quick))
    tasks = [task for task in every if task.storage_id in there]
    return _TableCheck(table, log, floor, end, scopes, not_opened, tasks, Counter(task.storage_id for task in every))


def _standings(
    warehouse: Warehouse, catalog: Catalog, tables: Iterable[_TableCheck], there: Collection[str], *, quick: bool
) -> dict[LogStanding, str]:
    """With `quick` those of the tables' own storages too: fewer scopes are opened, or none."""
    comparable = [each for each in tables if each.is_comparable]
    standings = standings_of(task for each in comparable for task in each.tasks)
    if quick:
        own = [each for each in comparable if each.table.options.storage_id in there]
        standings |= {own_standing(warehouse, catalog, each.table, each.log_end): str(each.table.name) for each in own}
    return standings


def _ledgers(warehouse: Warehouse, catalog: Catalog, storages: Container[str]) -> Iterator[Finding]:
    """Those of the pipelines whose tables are on the storages."""
    every = [*live_tables(catalog), *catalog.blanks.values()]
    own = {table.id for table in every if table.options.storage_id in storages}
    return (check_ledger(warehouse, catalog, one) for one in catalog.pipelines.values() if one.table_id in own)


def _users(checked: _TableCheck, *, quick: bool) -> set[str] | None:
    """Whose rows in the log are read: of all, and quickly of the scopes that are opened."""
    return {scope.user or "" for scope in checked.scopes} if quick and can(checked.table.type, "cold tier") else None


def _recorded(
    warehouse: Warehouse,
    table: Table,
    checked: Sequence[tuple[CheckTask, CheckedScope]],
    garbled: Mapping[str | None, Finding],
) -> list[Finding]:
    """Keeps what failed, for all who ask what is broken; a finding where that was not possible."""
    results = [result for task, one in checked for result in results_of(task.target, one, garbled.get(task.target.scope.user))]
    try:
        warehouse.failed_checks.record(table.id, results)
    except (StorageUnavailable, StorageRefused) as error:
        return [Finding.of(table.name, "recorded", error)]
    return []


def _to_open(warehouse: Warehouse, catalog: Catalog, table: Table, *, quick: bool) -> tuple[list[Scope], tuple[Finding, ...]]:
    """The scopes of a table that are opened, and what is found of the others."""
    if not (quick and warehouse.identifies and can(table.type, "cold tier")):
        return scopes_of(warehouse, table, None), ()
    found = select(warehouse, catalog, table, UnseenScopes(), besides=warehouse.failed_checks.of(table.id))
    message = f"{found.quiet} scopes were not opened: the state knows them. Without --quick each is opened"
    scopes = [Scope(table.name, user) for user in sorted(found.users, key=str)]
    return scopes, (Finding(str(table.name), "state", True, message=message),) if found.quiet else ()


def _tasks(
    warehouse: Warehouse, catalog: Catalog, table: Table, scopes: Sequence[Scope], end: int, known: bool, quick: bool
) -> Iterable[CheckTask]:
    """The checks of these scopes of one table. `known`: its floor can be read."""
    hot = hot_files(warehouse.log(table), table) if scopes and end != UNKNOWN else {}
    for scope in scopes:
        kept = hot.get(scope.user, frozenset())
        target = warehouse.target(catalog, scope) if known else warehouse.bare_target(catalog, table, scope.user)
        yield replace(task_of(warehouse, table, target, end), hot_files=kept, asks_delta_rs=not quick)


# Checks a table's write log, its floors and its ledger: that nothing is missing, and that all are as new as the others say.


def check_log(warehouse: Warehouse, table: Table) -> Finding:
    """Whether every object of the table's log exists that a newer one needs."""
    try:
        faults = warehouse.log(table).faults()
    except LakewardenError as error:
        return Finding.of(table.name, "log", error)
    wrong = f"of its write log, {faults.summary}; `lakewarden repair {table.name}` goes on without them" if faults else ""
    return Finding.of(table.name, "log", wrong)


def check_ledger(warehouse: Warehouse, catalog: Catalog, pipeline: Pipeline) -> Finding:
    """Whether the ledger of a pipeline has all that its tables remember, and each of its runs."""
    name = str(pipeline.table)
    try:
        ledger = Ledger(warehouse.state, pipeline.id)
        faults = faults_of(ledger, memories_of(warehouse, catalog, pipeline).landed, ledger.cut_off())
    except LakewardenError as error:
        return Finding.of(name, "ledger", error)
    return Finding.of(
        name, "ledger", f"of its ledger: {faults.summary}; `lakewarden repair {name}` goes on without" if faults else ""
    )


def unreadable_floor(warehouse: Warehouse, catalog: Catalog, table: Table, *, quick: bool) -> Finding | None:
    """The object of one of the table's floors that cannot be read; with `quick`, of which the head cannot be read."""
    if not (warehouse.identifies and can(table.type, "cold tier")):
        return None
    on_storages = (FloorLocation.on_storage(warehouse.location(storage), table.id) for storage in catalog.storages.values())
    for place in (warehouse.floor(table), *on_storages):
        try:
            floor_at(place).scan() if quick else floor_at(place).look()
        except Corrupt as error:
            return Finding.of(table.name, "floor", error)
        except (StorageUnavailable, StorageRefused):
            continue  # the storage's own finding reports it
    return None


def list_finding(warehouse: Warehouse, catalog: Catalog, table: Table) -> Finding | None:
    """What is wrong with the list of the table's scopes: none of them is opened then."""
    if not (warehouse.identifies and can(table.type, "cold tier")):
        return None
    try:
        fault = surveyed(warehouse, catalog, table, lambda survey: list_fault(survey, totals_of(survey)), keeps=False)
    except Corrupt as error:
        fault = error
    return None if fault is None else Finding.of(table.name, "scopes", fault)


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
    return [Finding.of(name, "floor", faults.get(at)) for at, name in standings.items()]


def storages_named(catalog: Catalog, storage_id: str | None) -> dict[str, Storage]:
    """All storages, or the named one.

    Raises:
        NotFound: the storage does not exist.
    """
    if storage_id is not None and storage_id not in catalog.storages:
        raise NotFound(f"there is no storage {storage_id!r}; the storages are {', '.join(catalog.storages)}")
    return {id_: storage for id_, storage in catalog.storages.items() if storage_id in (None, id_)}


@dataclass(frozen=True)
class CheckedStorage:
    """The findings on a storage. One that is away has one, and its scopes are not looked at."""

    id: str
    findings: tuple[Finding, ...]
    away: bool = False

    def without(self, scopes: int) -> tuple[Finding, ...]:
        """The findings, where so many of its scopes were left out."""
        if not self.away or not scopes:
            return self.findings
        (found,) = self.findings
        return (replace(found, message=f"{found.message}; its {scopes} scopes were not looked at"),)


def check_storage(warehouse: Warehouse, storage: Storage) -> CheckedStorage:
    subject, place = f"storage {storage.id}", warehouse.location(storage)
    try:
        confirm(warehouse.root(storage))  # an empty mount point is not tried
    except LakewardenError as error:
        why = error.message.removeprefix(f"storage {storage.id!r}: ")  # as the subject says
        return CheckedStorage(storage.id, (Finding(subject, "identity", False, error.code, why),), away=True)
    try:
        probe(open_store(place), warehouse.new_id)
    except LakewardenError as error:
        failed = Finding(subject, "reachable", False, error.code, error.message)
        return CheckedStorage(storage.id, (failed,), away=isinstance(error, StorageUnavailable))  # else it can be read
    identity = [Finding(subject, "identity", True)] if storage.identity else []
    uploads = _uploads(place, warehouse.clock())
    unfinished = [Finding(subject, "uploads", True, message=uploads)] if uploads else []
    return CheckedStorage(storage.id, (*identity, Finding(subject, "reachable", True), *unfinished))


def _uploads(place: Location, now: datetime) -> str:
    """Other writers leave them, and so does a checkpoint that was cut off: reported, but not a failure."""
    found, unknown = find_uploads(place)
    if not found:
        return unknown
    oldest = now - min(upload.begun for upload in found)
    return (
        f"{len(found)} uploads below {place} were never completed, the oldest {oldest.total_seconds() / 3600:.1f} hours"
        " ago; give the bucket a lifecycle rule that ends them (AbortIncompleteMultipartUpload)"
    )
