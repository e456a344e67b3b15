"""Checks that every storage is reachable, every scope readable, log and table consistent. Changes nothing of the tables.

Failed checks of a scope's data are kept in the warehouse's state until one passes: they block a vacuum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow.compute as pc

from lakewarden.access.rights import can
from lakewarden.catalog.model import Catalog, Storage, Table
from lakewarden.clock import random_id
from lakewarden.connection import Location
from lakewarden.delta.commit_log.damage import damage_of
from lakewarden.delta.lifecycle.freezing import is_frozen
from lakewarden.delta.ownership import check_owner, copied_from
from lakewarden.delta.reading.rows import read_rows
from lakewarden.delta.scope import open_place, what_is_lost
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import read_timeline
from lakewarden.errors import Corrupt, LakewardenError, NotFound, StorageRefused, StorageUnavailable
from lakewarden.log.position import LAST_POSITION, end_of, position_of
from lakewarden.operations.fanout import Run, Sized, fault_of
from lakewarden.operations.floors import Standing, floor_faults
from lakewarden.operations.scopes import scopes_of
from lakewarden.operations.vacuum.orphans import described, orphans, unnamed_commits
from lakewarden.operations.vacuum.unreferenced_files import hot_files, stray_files
from lakewarden.state.failed_checks import Checked
from lakewarden.state.floors.entries import FloorLocation
from lakewarden.state.floors.floor import floor_at
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import confirm
from lakewarden.storage.probe import probe
from lakewarden.storage.steps import in_one_step
from lakewarden.storage.uploads import find_uploads
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse, live_tables

_SCOPE_COST = 64 << 10

UNKNOWN = end_of(LAST_POSITION)
"""Stands for the end of a log that cannot be read: nothing is beyond it."""


@dataclass(frozen=True)
class Finding:
    """One check of one subject (a storage, or a scope). `code` is empty where it passed; a `message` then only informs."""

    subject: str
    check: str
    passed: bool
    code: str = ""
    message: str = ""


@dataclass(frozen=True)
class CheckedScope:
    """The findings on one scope, and the version of its table that they are of; None where none could be opened."""

    findings: tuple[Finding, ...]
    version: int | None = None


@dataclass(frozen=True)
class CheckTask:
    """The check of one scope; `log_end` is the last `_seq` that its log has given out, -1 for none, or `UNKNOWN`.

    `moving`: its table is being moved to another storage. `hot_files`: paths to which rows in the log refer.
    """

    target: ScopeTarget
    log_end: int
    now: datetime
    moving: bool = False
    hot_files: frozenset[str] = frozenset()


def check(warehouse: Warehouse, run: Run, storage_id: str | None) -> list[Finding]:
    """Checks every storage and scope, or one storage and the scopes on it.

    Raises:
        NotFound: the storage does not exist.
    """
    catalog = warehouse.catalog.read()
    storages = storages_named(catalog, storage_id)
    findings = [finding for storage in storages.values() for finding in _check_storage(warehouse, storage)]
    tables = [table for table in live_tables(catalog) if table.options.storage_id in storages]
    logs = {table.id: _check_log(warehouse, table) for table in tables}
    unread = {table.id: finding for table in tables if (finding := _unreadable_floor(warehouse, catalog, table)) is not None}
    tasks = {
        table.id: list(_tasks(warehouse, catalog, table, sound=logs[table.id].passed, known=table.id not in unread))
        for table in tables
    }
    compared = [task for id_, several in tasks.items() if id_ not in unread for task in several if task.log_end != UNKNOWN]
    findings += [*logs.values(), *unread.values(), *_check_floors(warehouse, compared)]
    every = [task for several in tasks.values() for task in several]
    found = run(partial(in_one_step, check_scope), [Sized(task, _SCOPE_COST) for task in every])
    results = iter(found)
    for table in tables:
        findings += _recorded(warehouse, table, [(task, next(results)) for task in tasks[table.id]])
    return findings + [finding for one in found for finding in one.findings]


def _recorded(warehouse: Warehouse, table: Table, checked: Sequence[tuple[CheckTask, CheckedScope]]) -> list[Finding]:
    """Keeps what failed, for a vacuum to see; a finding where that was not possible."""
    results = [
        Checked(task.target.scope.user, finding.check, one.version, finding.passed)
        for task, one in checked
        if one.version is not None
        for finding in one.findings
        if finding.check in OF_THE_DATA
    ]
    try:
        warehouse.failed_checks.record(table.id, results)
    except (StorageUnavailable, StorageRefused) as error:
        return [Finding(str(table.name), "recorded", False, error.code, error.message)]
    return []


def _check_log(warehouse: Warehouse, table: Table) -> Finding:
    """Whether every object of the table's log exists that a newer one needs."""
    try:
        faults = warehouse.log(table).faults()
    except LakewardenError as error:
        return Finding(str(table.name), "log", False, error.code, error.message)
    if not faults:
        return Finding(str(table.name), "log", True)
    message = f"of its write log, {faults.summary}; `lakewarden repair {table.name}` goes on without them"
    return Finding(str(table.name), "log", False, Corrupt.code, message)


def _unreadable_floor(warehouse: Warehouse, catalog: Catalog, table: Table) -> Finding | None:
    """The object of one of the table's floors that cannot be read."""
    if not (warehouse.identifies and can(table.type, "cold tier")):
        return None
    on_storages = (FloorLocation.on_storage(warehouse.location(storage), table.id) for storage in catalog.storages.values())
    for place in (warehouse.floor(table), *on_storages):
        try:
            floor_at(place).look()
        except Corrupt as error:
            return Finding(str(table.name), "floor", False, error.code, error.message)
        except (StorageUnavailable, StorageRefused):
            continue  # the storage's own finding reports it
    return None


def _check_floors(warehouse: Warehouse, tasks: Sequence[CheckTask]) -> list[Finding]:
    """Whether each table's log, and each storage with its scopes, is as new as the other records."""
    tables: dict[Standing, str] = {}
    for task in tasks:
        target = task.target
        if target.floor is not None and target.root is not None:
            log_id = target.app_id.rpartition("/")[2]
            standing = Standing(target.floor, target.root, log_id, position_of(task.log_end))
            tables[standing] = str(target.scope.table)
    faults = floor_faults(warehouse.state, tables)
    wrong = {standing: (fault.code, fault.message) for standing, fault in faults.items()}
    passed = ("", "")
    return [Finding(name, "floor", standing not in faults, *wrong.get(standing, passed)) for standing, name in tables.items()]


def storages_named(catalog: Catalog, storage_id: str | None) -> dict[str, Storage]:
    """All storages, or the named one.

    Raises:
        NotFound: the storage does not exist.
    """
    if storage_id is not None and storage_id not in catalog.storages:
        raise NotFound(f"there is no storage {storage_id!r}; the storages are {', '.join(catalog.storages)}")
    return {id_: storage for id_, storage in catalog.storages.items() if storage_id in (None, id_)}


OF_THE_DATA = ("one_row_per_key", "log_and_table_agree")
"""The checks whose failure blocks a vacuum: where another fails, nothing can be read or deleted anyway."""


def check_scope(task: CheckTask) -> CheckedScope:
    """Checks one scope's table: readable, one row per key, no watermark beyond the log, and what crashes left."""
    subject = str(task.target.scope)
    try:
        table = open_place(task.target)
        if table is not None and (wrong := _another(table, task.target)):
            return CheckedScope((Finding(subject, "scope", False, "CORRUPT", wrong),))
        table, lost = what_is_lost(table, task.target)
        known = Finding(subject, "known", not lost, "CORRUPT" if lost else "", lost)
        if table is None:
            torn = _damage(task)
            damage = Finding(subject, "damage", not torn, "CORRUPT" if torn else "", torn)
            return CheckedScope((known, damage, *([] if lost else [Finding(subject, "readable", True)])))
        looked = [("scope", ""), ("damage", _damage(task)), *_look(task, table)]
        findings = [Finding(subject, name, not wrong, "CORRUPT" if wrong else "", wrong) for name, wrong in looked]
        orphaned = Finding(subject, "orphans", True, message=_orphans(task, table))
        return CheckedScope((known, *findings, orphaned), table.version)
    except LakewardenError as error:
        fault = fault_of(error)
        return CheckedScope((Finding(subject, "readable", False, fault.code, fault.message),))


def _check_storage(warehouse: Warehouse, storage: Storage) -> list[Finding]:
    subject, place = f"storage {storage.id}", warehouse.location(storage)
    try:
        confirm(warehouse.root(storage))  # an empty mount point is not tried
    except LakewardenError as error:
        return [Finding(subject, "identity", False, error.code, error.message)]
    try:
        probe(open_store(place), random_id)
    except LakewardenError as error:
        return [Finding(subject, "reachable", False, error.code, error.message)]
    identity = [Finding(subject, "identity", True)] if storage.identity else []
    uploads = _uploads(place, warehouse.clock())
    unfinished = [Finding(subject, "uploads", True, message=uploads)] if uploads else []
    return [*identity, Finding(subject, "reachable", True), *unfinished]


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


def _tasks(warehouse: Warehouse, catalog: Catalog, table: Table, *, sound: bool, known: bool) -> Iterable[CheckTask]:
    """The scopes of one table. `sound`: its log can be read; `known`: so can its floor."""
    end = warehouse.log(table).view(()).end if sound else UNKNOWN
    hot = hot_files(warehouse, table) if sound else {}
    for scope in scopes_of(warehouse, table, None):
        kept, moving = hot.get(scope.user, frozenset()), table.move is not None
        target = warehouse.target(catalog, scope) if known else warehouse.bare_target(catalog, table, scope.user)
        yield CheckTask(target, end, warehouse.clock(), moving, kept)


def _another(table: ScopeTable, target: ScopeTarget) -> str:
    """Says whose table it is, if not the scope's own."""
    if copied := copied_from(table, target):
        return f"it was copied here: {copied}"
    try:
        check_owner(table, target)
    except Corrupt as error:
        return error.message
    return ""


def _look(task: CheckTask, table: ScopeTable) -> Iterable[tuple[str, str]]:
    """Yields each check's name and what is wrong; empty where it passed."""
    keys = list(task.target.schema.primary_key)
    rows = read_rows(table, task.target.schemas, [*keys, "_seq"])
    yield "readable", ""
    twice = rows.num_rows - rows.group_by(keys).aggregate([]).num_rows
    yield "one_row_per_key", f"{twice} rows repeat a key; the next flush of those keys settles them" if twice else ""
    empty = [name for name in keys if rows[name].null_count]
    yield "no_null_in_key", f"NULL in key column {', '.join(empty)}" if empty else ""
    if is_frozen(table, task.target) and not task.moving:
        yield "not_frozen", f"an abandoned move left it frozen: lakewarden move {task.target.scope.table} --cancel"
    yield "log_and_table_agree", _disagreement(task, table, pc.max(rows["_seq"]).as_py())


def _damage(task: CheckTask) -> str:
    """Damage that readers skip and `repair` puts aside."""
    damage = damage_of(task.target.location)
    torn = [f"commit {version} is empty or cut off" for version in damage.torn]
    found = [*torn, *(f"{name} cannot be read" for name in damage.checkpoints)]
    return f"{'; '.join(found)}: lakewarden repair {task.target.scope.table} puts it aside" if found else ""


def _orphans(task: CheckTask, table: ScopeTable) -> str:
    """Crashes leave them. They are harmless and a vacuum removes them, so they are reported and are not a failure."""
    listing = open_store(task.target.location).list("")
    timeline = read_timeline(open_store(task.target.location), table.version, listing)
    lost = orphans(listing, timeline, frozenset(file.path for file in table.files()))
    stray = stray_files(listing, task.target, [table], task.hot_files)
    parts = (
        described(lost, "no commit names", task.now),
        described(unnamed_commits(listing), "were to be commits", task.now),
        described(stray, "no row refers to", task.now),
    )
    return "; ".join(part for part in parts if part)


def _disagreement(task: CheckTask, table: ScopeTable, newest: int | None) -> str:
    watermark = table.watermark(task.target.app_id)
    if watermark is not None and watermark > task.log_end:
        where = f"its watermark {watermark} is beyond the log's end {task.log_end}"
        return f"{where}: the table was copied, or is another warehouse's"
    if newest is not None and watermark is not None and newest > watermark:
        return f"it has a row of _seq {newest}, beyond its watermark {watermark}"
    return ""
