"""Checks scopes: the table of each, what its rows say, and what crashes left beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.buckets import bucket_named, bucket_of
from lakewarden.catalog.model import Catalog, Table, TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.commit_log.committing import DIRECT_APP
from lakewarden.delta.commit_log.damage import damage_of
from lakewarden.delta.examination.second_opinion import second_opinion
from lakewarden.delta.lifecycle.states import is_frozen
from lakewarden.delta.reading.rows import FileGroup, read_rows
from lakewarden.delta.row_rules import rules_of
from lakewarden.delta.scope import check_owner, copied_from, open_place, what_is_lost
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import DatedLog, read_timeline
from lakewarden.errors import Corrupt, LakewardenError, Unsupported
from lakewarden.log.log_reader import LogReader
from lakewarden.log.position import LAST_POSITION, NOTHING, end_of
from lakewarden.log.record import SEQ
from lakewarden.maintenance.vacuum.unreferenced_files import described, orphans, stray_files, table_files, unnamed_commits
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import in_one_step
from lakewarden.tables.fanout import Run, SizedWork, fault_of
from lakewarden.tables.keys.seen_keys import AT_ONCE, SeenKeys
from lakewarden.tables.warehouse import Warehouse, live_tables, state_store

UNKNOWN = end_of(LAST_POSITION)
"""Stands for the end of a log that cannot be read: nothing is beyond it."""


SECOND_OPINION = "second_opinion"
"""Whether delta-rs reads the same of the table's log."""

SCOPE_CHECKS = (
    "scope",
    "known",
    "damage",
    "readable",
    "one_row_per_key",
    "no_null_in_key",
    "rows_in_their_bucket",
    "takes_rows",
    "pending_rows_keep_rules",
    "not_frozen",
    "log_and_table_agree",
    SECOND_OPINION,
)
"""What is looked at of a scope, and may be found wrong."""

PENDING_ROWS = "pending_rows_readable"
"""What is looked at of its rows in the log, by checks alone."""


@dataclass(frozen=True)
class Finding:
    """One check of one subject (a storage, or a scope). `code` is empty where it passed; a `message` then only informs."""

    subject: str
    check: str
    passed: bool
    code: str = ""
    message: str = ""

    @classmethod
    def of(cls, subject: object, check: str, wrong: str | LakewardenError | None, code: str = Corrupt.code) -> Finding:
        """What is wrong, if anything is; an error has a code of its own."""
        if isinstance(wrong, LakewardenError):
            return cls(str(subject), check, False, wrong.code, wrong.message)
        return cls(str(subject), check, not wrong, code if wrong else "", wrong or "")


@dataclass(frozen=True)
class CheckedScope:
    """The findings on one scope, and the version of its table that they are of; None where none could be opened."""

    findings: tuple[Finding, ...]
    version: int | None = None
    ruled: TableHead | None = None
    """What the table says of itself, where other writers ask something of its rows."""


@dataclass(frozen=True)
class CheckTask:
    """The check of one scope; `log_end` is the last `_seq` that its log had given out, -1 for none, or `UNKNOWN`.

    `moving`: its table is being moved to another storage. `hot_files`: paths to which rows in the log refer. `asks_delta_rs`:
    whether it has a second opinion, which costs an opening by delta-rs.
    """

    target: ScopeTarget
    state_uri: str
    log_end: int
    now: datetime
    moving: bool = False
    hot_files: frozenset[str] = frozenset()
    asks_delta_rs: bool = True

    @property
    def storage_id(self) -> str:
        return "" if self.target.root is None else self.target.root.storage_id


def check_scope(task: CheckTask) -> CheckedScope:
    """Checks one scope's table: readable, one row per key in its bucket, no watermark beyond the log, and what crashes left."""
    subject = str(task.target.scope)
    try:
        table = open_place(task.target)
        if table is not None and (wrong := _another(table, task.target)):
            return CheckedScope((Finding.of(subject, "scope", wrong),))
        table, lost = what_is_lost(table, task.target)
        known = Finding.of(subject, "known", lost)
        if table is None:
            damage = Finding.of(subject, "damage", _damage(task))
            return CheckedScope((known, damage, *([] if lost else [Finding(subject, "readable", True)])))
        looked = [("scope", ""), ("damage", _damage(task)), *_look(task, table)]
        findings = [Finding.of(subject, name, wrong, _code(name)) for name, wrong in looked]
        if task.asks_delta_rs:
            findings.append(_second(subject, task.target, table))
        orphaned = Finding(subject, "orphans", True, message=_orphans(task, table))
        return CheckedScope((known, *findings, orphaned), table.version, table.head if rules_of(table.head) else None)
    except LakewardenError as error:
        fault = fault_of(error)
        return CheckedScope((Finding(subject, "readable", False, fault.code, fault.message),))


def _second(subject: str, target: ScopeTarget, table: ScopeTable) -> Finding:
    found = second_opinion(table.log_state, target.app_id)
    if found.differs:
        return Finding.of(subject, SECOND_OPINION, "; ".join(found.differs))
    return Finding(subject, SECOND_OPINION, True, message=f"delta-rs has none: {found.withheld}" if found.withheld else "")


def _code(check: str) -> str:
    return Unsupported.code if check == "takes_rows" else Corrupt.code


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
    rows = row_facts(table, task.target.schemas, buckets=task.target.buckets)
    yield "readable", ""
    twice = f"{rows.repeated} rows repeat a key; an upsert or a delete of those keys settles them at its flush"
    yield "one_row_per_key", twice if rows.repeated else ""
    yield "no_null_in_key", f"NULL in key column {', '.join(rows.nulls)}" if rows.nulls else ""
    if rows.misplaced:
        yield "rows_in_their_bucket", f"{rows.misplaced} rows are in a file of another bucket: a look-up by key misses them"
    yield "takes_rows", _obstacle(task.target, table)
    if is_frozen(table, task.target) and not task.moving:
        yield "not_frozen", f"an abandoned move left it frozen: lakewarden move {task.target.scope.table} --cancel"
    yield "log_and_table_agree", _disagreement(task, table, rows.newest)


def _obstacle(target: ScopeTarget, table: ScopeTable) -> str:
    """Why a flush into it fails, or may: what other programs ask of it."""
    try:
        table.check_takes_rows(target.schema)
        table.check_plain()
    except Unsupported as error:
        return error.message
    return ""


def _damage(task: CheckTask) -> str:
    """Damage that readers skip and `repair` puts aside."""
    found = damage_of(task.target.location).said
    return f"{'; '.join(found)}: lakewarden repair {task.target.scope.table} puts it aside" if found else ""


def _orphans(task: CheckTask, table: ScopeTable) -> str:
    """Crashes leave them. They are harmless and a vacuum removes them, so they are reported and are not a failure."""
    listing = open_store(task.target.location).list("")
    timeline = read_timeline(open_store(task.target.location), table.version, DatedLog(listing))
    lost = orphans(table_files(listing), timeline, frozenset(file.path for file in table.files()))
    stray = stray_files(listing, task.target, [table], task.hot_files)
    parts = (
        described(lost, "no commit names", task.now),
        described(unnamed_commits(listing), "were to be commits", task.now),
        described(stray, "no row refers to", task.now),
    )
    return "; ".join(part for part in parts if part)


def _disagreement(task: CheckTask, table: ScopeTable, newest: int | None) -> str:
    watermark = table.watermark(task.target.app_id)
    # The log's end was read before the table: rows that were written and flushed in between are beyond it.
    if watermark is not None and watermark > task.log_end:
        end = LogReader(state_store(task.state_uri), task.target.log_id).view(()).end
        if watermark > end:
            return f"its watermark {watermark} is beyond the log's end {end}: the table was copied, or is another warehouse's"
    direct = table.watermark(DIRECT_APP)
    known = max(NOTHING if watermark is None else watermark, NOTHING if direct is None else end_of(direct))
    if newest is not None and known != NOTHING and newest > known:
        return f"it has a row of _seq {newest}, beyond its watermark {known}"
    return ""


# Looks at scopes, and once more where something seems wrong: what works meanwhile parts catalog, log and table.

_SCOPE_COST = 64 << 10


def log_end(warehouse: Warehouse, table: Table) -> int:
    """The last `_seq` of the table's log; `UNKNOWN` where it cannot be read."""
    try:
        return warehouse.log(table).view(()).end
    except LakewardenError:
        return UNKNOWN


def target_of(warehouse: Warehouse, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
    """The scope's target, without its floor where that cannot be read."""
    try:
        return warehouse.target_of(catalog, table, user)
    except Corrupt:
        return warehouse.bare_target(catalog, table, user)


def task_of(warehouse: Warehouse, table: Table, target: ScopeTarget, end: int) -> CheckTask:
    """`end`: what `log_end` says of the table."""
    return CheckTask(target, warehouse.state.uri, end, warehouse.clock(), table.move is not None)


def check_scopes(warehouse: Warehouse, run: Run, tasks: Sequence[CheckTask]) -> list[tuple[CheckTask, CheckedScope]]:
    """Checks each scope, and returns the task of its last look.

    A fault counts only if a second look finds it too, which reads the catalog and the log anew. Of a scope whose table was
    dropped meanwhile nothing is found.
    """
    checked = _checked(run, tasks)
    wrong = [at for at, (_, one) in enumerate(checked) if not all(finding.passed for finding in one.findings)]
    if wrong:
        catalog = warehouse.catalog.read()
        tables = {table.log_id: table for table in live_tables(catalog)}
        there = [at for at in wrong if tasks[at].target.log_id in tables]
        again = [_anew(warehouse, catalog, tables[tasks[at].target.log_id], tasks[at]) for at in there]
        second = dict(zip(there, _checked(run, again), strict=True))
        for at in wrong:
            checked[at] = second.get(at, (tasks[at], CheckedScope(())))
    return checked


def _checked(run: Run, tasks: Sequence[CheckTask]) -> list[tuple[CheckTask, CheckedScope]]:
    found = run(partial(in_one_step, check_scope), [SizedWork(task, _SCOPE_COST) for task in tasks])
    return list(zip(tasks, found, strict=True))


def _anew(warehouse: Warehouse, catalog: Catalog, table: Table, task: CheckTask) -> CheckTask:
    target = target_of(warehouse, catalog, table, task.target.scope.user)
    return replace(task, target=target, log_end=log_end(warehouse, table), moving=table.move is not None)


# What a check has to know of a table's rows, found file by file: in bounded memory, whatever the number of rows.
@dataclass(frozen=True)
class RowFacts:
    repeated: int
    """Rows whose key another row has."""
    nulls: tuple[str, ...]
    """Columns of the key that have a NULL."""
    newest: int | None
    """The highest `_seq`; None where no row has one."""
    misplaced: int = 0
    """Rows in a file of another bucket than that of their key."""


def row_facts(table: ScopeTable, schemas: tuple[TableSchema, ...], at_once: int = AT_ONCE, buckets: int = 1) -> RowFacts:
    """Reads the keys and `_seq` of every row.

    Args:
        buckets: into how many files the rows of a partition are divided by their key.

    Raises:
        Corrupt, Unsupported: as `read_rows`.
    """
    keys, nulls, misplaced = schemas[-1].primary_key, set[str](), 0
    newest: int | None = None
    with SeenKeys(keys, at_once) as seen:
        for bucket, part in _parts(table, schemas, [*keys, SEQ]):
            if bucket is not None and keys:
                misplaced += int((bucket_of(part, keys, buckets).to_numpy() != bucket).sum())
            nulls |= {name for name in keys if part[name].null_count}
            ends = (newest, pc.max(part[SEQ]).as_py())
            newest = max((each for each in ends if each is not None), default=None)
            if keys:
                seen.add(part.select(keys))
        return RowFacts(seen.repeated(), tuple(name for name in keys if name in nulls), newest, misplaced)


def _parts(table: ScopeTable, schemas: tuple[TableSchema, ...], columns: Sequence[str]) -> Iterator[tuple[int | None, pa.Table]]:
    """Rows with the bucket that their file's name says."""
    if not table.has_files:  # a fence of a dropped table, perhaps with its columns
        return
    if not table.plain:
        yield None, read_rows(table, schemas, columns)
        return
    for each in FileGroup.of(table, table.files(), schemas, columns).singly():
        (file,) = each.files
        yield bucket_named(file.path), each.read()
