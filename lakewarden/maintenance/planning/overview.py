"""The state of a warehouse at a glance: each table in numbers, and the scopes that are worst, with the reason.

Answered from the log and from what the state knows of the scopes (`maintenance.plans.select`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce

import numpy as np

from lakewarden.base.clock import from_millis
from lakewarden.base.scope import NOTHING
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.state.floor_entries import NO_TABLE, KnownScopes, Rows
from lakewarden.catalog.state.floor_summaries import Totals
from lakewarden.errors import Corrupt, LakewardenError, Unsupported
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.log_view import LogView
from lakewarden.maintenance.planning.pending import PendingScopes
from lakewarden.maintenance.planning.status import BrokenScopes, ScopeStatus, as_known, status
from lakewarden.maintenance.plans.census import FloorSurvey, list_fault, registered, surveyed, totals_of, users_of
from lakewarden.maintenance.plans.select import Need, newest_notes
from lakewarden.maintenance.vacuum.need import unattended
from lakewarden.tables.warehouse import Warehouse, cold_tables

_OTHERS = 20
"""Scopes without pending rows that are listed where no limit is given."""

NO_TOTALS = Totals.of(KnownScopes.of({}))


@dataclass(frozen=True)
class TableStatus:
    """One table in numbers. Ages in seconds, sizes in bytes; those of the Delta tables as the state knows them."""

    table: str
    type: str
    scopes: int
    """Scopes that were ever flushed."""
    scopes_pending: int
    pending_rows: int
    pending_bytes: int
    oldest_pending_age: float | None
    rows: int
    files: int
    bytes: int
    last_commit: datetime | None
    """The newest of ours."""
    scopes_to_compact: int
    """Scopes in which the operation may find something to do."""
    scopes_to_optimize: int
    scopes_to_vacuum: int
    scopes_unknown: int
    """Scopes of which rows, files and bytes are not known: the next maintenance of the whole table opens them."""
    error: str | None
    """Why the table's log or floor could not be read; then numbers are missing."""
    broken_scopes: int = 0
    """Scopes that a check or an operation found broken, and nothing found right since; a log that cannot be read is one more."""
    totals: Totals = NO_TOTALS
    """What the state knows of all scopes together."""


@dataclass(frozen=True)
class Overview:
    """Every table with Delta tables, and the scopes that need something: broken ones first, then pending ones, the longest
    waiting first; then those with the most files."""

    tables: tuple[TableStatus, ...]
    scopes: tuple[ScopeStatus, ...]
    broken: tuple[BrokenScopes, ...] = ()
    """For each of the tables, the scopes that are known to be broken."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By table and reason, in how many scopes maintenance may have work, listed or not."""


def overview(warehouse: Warehouse, limit: int | None = None, *, keeps: bool = True) -> Overview:
    """Lists at most `limit` scopes; without one, all that are broken or have pending rows, and some of the others.

    Args:
        keeps: whether what it adds up and compares is kept for the next look; else nothing is written.
    """
    catalog, views = warehouse.catalog.read(), warehouse.logs.views()
    tables = cold_tables(catalog)
    pending = PendingScopes.of(tables, views.sound)
    most = _OTHERS if limit is None else limit
    # First: a lost state is there again for what follows.
    parts = [_Part.of(warehouse, catalog, table, 2 * most, keeps=keeps) for table in tables]
    broken = tuple(BrokenScopes.of(warehouse, catalog, table) for table in tables)
    faults: dict[str, LakewardenError] = {one.table.log_id: one.error for one in broken if one.error}
    faults |= {one.table.log_id: error for one in parts if (error := _cut_off(warehouse, one, views.sound)) is not None}
    faults |= views.faults
    waiting = status(warehouse, catalog, pending, limit, broken, faults)
    room = most if limit is None else limit - len(waiting)
    listed = {(one.table, one.user) for one in waiting}
    others = [one for part in parts for one in part.worst if (one.table, one.user) not in listed]
    others.sort(key=lambda one: one.files or 0, reverse=True)
    now = warehouse.clock()
    found = tuple(
        _table_status(part, pending, faults.get(part.table.log_id), _count_broken(one, waiting, faults), now)
        for part, one in zip(parts, broken, strict=True)
    )
    return Overview(found, (*waiting, *others[:room]), broken, {str(part.table.name): part.reasons for part in parts})


def _count_broken(broken: BrokenScopes, shown: Sequence[ScopeStatus], faults: Mapping[str, LakewardenError]) -> int:
    """With those that were found only now, as they were opened for this."""
    table, users = str(broken.table.name), {scope.user for scope, _ in broken.failed}
    opened = {one.user for one in shown if one.table == table and one.code and one.pending_rows}
    return len(users | opened) + (broken.table.log_id in faults)


@dataclass(frozen=True)
class _Part:
    """What the state knows of one table."""

    table: Table
    scopes: int = 0
    unknown: int = 0
    totals: Totals = NO_TOTALS
    due: Mapping[Operation, int] = field(default_factory=dict)
    """By operation, in how many scopes it may find something to do."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """The same by what a scope may need, which may be several of them."""
    worst: tuple[ScopeStatus, ...] = ()
    error: Corrupt | None = None
    settled: int = NOTHING
    """The last position of the log up to which rows were settled."""

    @classmethod
    def of(cls, warehouse: Warehouse, catalog: Catalog, table: Table, most: int, *, keeps: bool = True) -> _Part:
        if not warehouse.identifies:
            return cls(table, scopes := registered(warehouse, table), unknown=scopes)
        needs = unattended(warehouse, table)
        try:
            return surveyed(warehouse, catalog, table, lambda survey: cls._of(survey, needs, most), keeps=keeps)
        except Corrupt as error:
            scopes = 0
            with suppress(Corrupt):  # it may be the list of scopes that cannot be read
                scopes = registered(warehouse, table)
            return cls(table, scopes, unknown=scopes, error=error)

    @classmethod
    def _of(cls, survey: FloorSurvey, needs: Mapping[Operation, Need], most: int) -> _Part:
        notes = _notes(survey, list(needs.values()))
        rows = {operation: need.rows(notes) & _there(notes) for operation, need in needs.items()}
        due = {operation: int(found.sum()) for operation, found in rows.items()}
        worst = tuple(_worst(survey, notes, rows, most))
        totals = totals_of(survey)
        error, unknown = list_fault(survey, totals), totals.unseen + len(survey.unknown)
        reasons = _count_reasons(rows)
        return cls(survey.table, survey.scopes, unknown, totals, due, reasons, worst, error, survey.scan.position)


def _cut_off(warehouse: Warehouse, part: _Part, logs: Mapping[str, LogView]) -> LakewardenError | None:
    """Why the log of a table is damaged that ends before what was settled of it: as one does whose newest cut is lost."""
    log_id = part.table.log_id
    if part.settled <= (logs[log_id].last_position if log_id in logs else NOTHING):
        return None
    try:
        end = LogReader(warehouse.state, log_id).view(()).last_position  # behind the look at what was settled
    except (Corrupt, Unsupported) as error:
        return error
    said = f"log {log_id} of {warehouse.state.uri} ends at position {end}, and its rows were settled up to {part.settled}"
    return Corrupt(f"{said}: its newest objects are lost") if end < part.settled else None


def _notes(survey: FloorSurvey, needs: Sequence[Need]) -> KnownScopes:
    """The newest notes of the scopes that may need something."""
    summaries = survey.summaries
    if not any(summary is None or need.anywhere(summary) for summary in summaries for need in needs):
        return KnownScopes.of({})
    return newest_notes(survey.parts(), lambda part: reduce(np.logical_or, (need.rows(part) for need in needs)))


def _there(notes: KnownScopes) -> Rows:
    there: Rows = ~notes["forgotten"].astype(np.bool_) & (notes["version"] != NO_TABLE)
    return there


def _worst(survey: FloorSurvey, notes: KnownScopes, due: Mapping[Operation, Rows], most: int) -> Iterator[ScopeStatus]:
    """Those with the most files."""
    chosen = np.flatnonzero(reduce(np.logical_or, due.values(), np.zeros(len(notes), np.bool_)))
    chosen = chosen[np.argsort(-notes["files"][chosen], kind="stable")[:most]]
    marks = [notes.mark(int(row)) for row in chosen]
    users = users_of(survey.warehouse, survey.table, marks, survey.hashed)
    for row, mark in zip(chosen, marks, strict=True):
        known = notes.get(mark)
        if mark in users and known is not None:
            reason = _reason([operation for operation, rows in due.items() if rows[row]])
            yield as_known(ScopeStatus(table=str(survey.table.name), user=users[mark], reason=reason), known)


def _reason(operations: Iterable[Operation]) -> str:
    return f"may need {', '.join(operations)}"


def _count_reasons(due: Mapping[Operation, Rows]) -> Mapping[str, int]:
    # A bit an operation: a million scopes are counted as an array.
    bits = [rows.astype(np.int64) << bit for bit, rows in enumerate(due.values())]
    needs = reduce(np.bitwise_or, bits, np.zeros(1, np.int64))
    found, counts = np.unique(needs[needs > 0], return_counts=True)
    return {
        _reason(operation for bit, operation in enumerate(due) if int(need) >> bit & 1): int(count)
        for need, count in zip(found, counts, strict=True)
    }


def _table_status(part: _Part, pending: PendingScopes, fault: LakewardenError | None, broken: int, now: datetime) -> TableStatus:
    table, totals, error = part.table, part.totals, fault or part.error
    waiting = pending.of_table(table)
    age = waiting[0].age(now) if len(waiting) else None
    return TableStatus(
        table=str(table.name),
        type=table.type,
        scopes=part.scopes,
        scopes_pending=len(waiting),
        pending_rows=int(waiting.rows.sum()),
        pending_bytes=int(waiting.bytes.sum()),
        oldest_pending_age=None if age is None else round(age, 3),
        rows=totals.rows,
        files=totals.files,
        bytes=totals.bytes,
        last_commit=from_millis(totals.committed_at) if totals.committed_at else None,
        scopes_to_compact=part.due.get("compact", 0),
        scopes_to_optimize=part.due.get("optimize", 0),
        scopes_to_vacuum=part.due.get("vacuum", 0),
        scopes_unknown=part.unknown,
        error=None if error is None else error.message,
        broken_scopes=broken,
        totals=totals,
    )
