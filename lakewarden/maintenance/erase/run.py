"""Erases a user: closed, fenced, taken out of the log, removed from every list, searched for, certified, opened again.

The fence comes first: its commit hides all rows of a scope at once, those in the log too, which are below its watermark. So a
reader of an interrupted erasure sees all rows of a scope, or none.

Every step is idempotent. Requesting an interrupted erasure again runs all of them once more; the user stays closed until a
search finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from lakewarden.base.clock import CarriedClock, to_millis
from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.catalog.state.erasures import (
    Certificate,
    Counts,
    Erasure,
    ErasureRequest,
    Erasures,
    forget_request,
    keep_certificate,
    keep_request,
)
from lakewarden.catalog.state.exports import ExportRecord
from lakewarden.catalog.state.floor_entries import absent
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.catalog.state.processes import LiveQueries
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import Committer, TooLate
from lakewarden.delta.lifecycle.fence import fence_settled
from lakewarden.errors import Conflict, NoBucket
from lakewarden.log.log_reader import LogReader
from lakewarden.maintenance.erase.other_storages import clear, places_elsewhere
from lakewarden.maintenance.erase.verification import tables_of_users, what_to_search
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.scopes import check_none_failed
from lakewarden.maintenance.survey.survey_store import forget_user
from lakewarden.maintenance.vacuum.sweep import note_fences
from lakewarden.maintenance.verify.search import ErasureSearch, SearchResult, search
from lakewarden.storage.buckets import remove_old_versions, remove_uploads
from lakewarden.storage.disk import remove_leftovers, sync
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user, without_id
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import Run, SizedWork, guarded
from lakewarden.tables.floors import forget
from lakewarden.tables.pins import remove_pins, remove_tags
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, state_store

_LOOKS = 3
"""Searches beyond the first, each for attempts of others that came behind the one before."""

_SCOPE_COST = 32 << 10


@dataclass(frozen=True)
class EraseTask:
    """The fence of one scope. `watermark` is the last `_seq` that rows of the user can have."""

    target: ScopeTarget
    watermark: int
    job_id: str
    clock: CarriedClock
    state_uri: str
    mark: str


@dataclass(frozen=True)
class _Scope:
    """A scope whose user is closed. `had`: the scope was known before, so a late flush could bring it back."""

    table: Table
    target: ScopeTarget
    watermark: int
    had: bool


class _Tally:
    """What was found, stored with the erasure before any of it is removed."""

    def __init__(self, erasures: Erasures, erasure: Erasure, job_id: str) -> None:
        self._erasures = erasures
        self._job_id = job_id
        self.erasure = erasure

    @property
    def counts(self) -> Counts:
        return self.erasure.counts

    def note(self, counts: Counts) -> None:
        self.erasure = self._erasures.note(self.erasure, self._job_id, counts)

    def at_least(self, name: str, count: int) -> None:
        self.note(replace(self.counts, **{name: max(getattr(self.counts, name), count)}))


def erase(
    warehouse: Warehouse, run: Run, jobs: JobLog, request: ErasureRequest, job_id: str, *, reach: Reach = no_faults
) -> Certificate:
    """Returns the certificate of a complete erasure.

    Raises:
        NotFound, InvalidArgument: a table does not exist, or has no users; nothing was done.
        StorageUnavailable: a storage is not present, so nothing can be certified; erase again when it is.
        Conflict: something of the user was found afterwards, or is still written to; the user stays closed: remove what the
            message names, and erase again. Or a table is being moved; nothing was done.
    """
    user, mark = check_user(request.user), warehouse.erasures.mark(request.user)
    catalog = warehouse.catalog.read()
    tables = tables_of_users(catalog, request.tables)
    # All storages, whichever the tables are on: nothing can be certified of one that is away.
    present = Presence.among(warehouse.root(storage) for storage in catalog.storages.values())
    present.check()
    started = warehouse.clock()
    request = replace(request, asked_by=without_id(request.asked_by, user, mark))
    wanted = Erasure(job_id, mark, tuple(table.id for table in tables), request.asked_by, started)
    # Before anything else: a later attempt has to know of all tables, and of what was found in them.
    begun = warehouse.erasures.begin(wanted, frozenset(table.id for table in catalog.tables.values()))
    # Behind the note: a move that begins later sees it (docs/decisions/0014-moving-by-freezing.md).
    catalog, tables = _still(warehouse, tables, begun, job_id)
    tally = _Tally(warehouse.erasures, begun, job_id)
    forget_request(warehouse.state, mark)  # before the search: the request has the id
    reach("erase:begun")
    # First closed, then fenced: the fence's watermark has to be above every row that the user can still write.
    scopes = [_closed(warehouse, catalog, table, user, tally) for table in tables]
    reach("erase:closed")
    before = _hidden(warehouse, run, catalog, scopes, job_id, mark)
    reach("erase:fenced")
    for table in tables:
        # Behind the fence: in the other order an interrupted erasure would show older versions of rows
        # (docs/decisions/0104-an-erasure-hides-a-scope-at-once.md).
        warehouse.log(table).leave_out(user, warehouse.clock(), reach=reach)
    reach("erase:cut")
    for scope in scopes:
        _forget(warehouse, scope.table, user, tally)
    exports, gone = _remove_exports(warehouse, mark, {str(table.name) for table in tables}, tally)
    _hide(warehouse, jobs, request, {str(table.name) for table in tables}, tally)
    reach("erase:forgotten")
    buckets = [place for place in before if place.uri.startswith("s3://")]  # without them, old versions are not searched for
    own = [Location(warehouse.state.uri), *(Location(record.target) for record in exports)]
    uploads, versions = _swept(warehouse, catalog, [*own, *(scope.target.location for scope in scopes), *buckets], tally)
    reach("erase:removed")
    exported = tuple(record.target for record in exports)
    what = what_to_search(warehouse, catalog, tables, request, mark, exported, versions=not versions)
    searched = _searched(warehouse, tables, what)
    present.again().check()  # a storage that was away was not searched
    reach("erase:searched")
    to_do = "; ".join(note for note in (uploads, versions, *gone) if note)
    certificate = _certificate(tally.erasure, request, job_id, tables, to_do, searched, (started, warehouse.clock()))
    # Also one that failed: it says what is left, and the user stays closed.
    keep_certificate(warehouse.state, certificate)
    reach("erase:certified")
    if searched.findings:
        raise _left(searched)
    _open(warehouse, request, tables, tally.erasure)
    return certificate


def erase_scope(task: EraseTask) -> Steps[ScopeReport]:
    """Empties the scope under a fence that refuses late commits and shows late flushes that their rows are settled."""

    def still() -> None:
        # The user may have begun anew; a late fence would hide the new rows (docs/decisions/0006-fences.md).
        if not LogReader(state_store(task.state_uri), task.target.log_id).signs(task.mark).shut:
            raise TooLate(f"the erasure from {task.target.scope.table} was ended by another process meanwhile")

    def steps() -> Steps[ScopeReport]:
        by = Committer(task.job_id, task.clock.moment, task.clock)
        version = yield from fence_settled(task.target, task.watermark, by, still)
        return ScopeReport(task.target.scope, "erase", "done", task.target.location, version=version)

    return guarded(task.target, "erase", task.clock, steps())


def request_erasure(warehouse: Warehouse, request: ErasureRequest) -> str:
    """Stores the request until it is run; returns the user's keyed hash, which is its name.

    Raises:
        NotFound, InvalidArgument: a table does not exist or is SHARED, or the id is invalid.
    """
    mark = warehouse.erasures.mark(check_user(request.user))
    tables_of_users(warehouse.catalog.read(), request.tables)
    keep_request(warehouse.state, mark, request)
    return mark


def _still(warehouse: Warehouse, tables: Sequence[Table], begun: Erasure, job_id: str) -> tuple[Catalog, list[Table]]:
    """The catalog and the tables after the erasure was recorded: a move that is not seen here sees the record, and gives way.

    Raises:
        Conflict: one of the tables is being moved, so the user's rows are in two places.
    """
    catalog = warehouse.catalog.read()
    there = {table.id: table for table in catalog.tables.values()}
    now = [there.get(table.id, table) for table in tables]
    if moving := [table.name for table in now if table.move is not None]:
        if begun.job_id == job_id:  # else it is an earlier one, which was interrupted
            warehouse.erasures.end(begun)
        raise Conflict(f"{moving[0]} is being moved to another storage: complete or cancel that move, and erase again")
    return catalog, now


def _closed(warehouse: Warehouse, catalog: Catalog, table: Table, user: str, tally: _Tally) -> _Scope:
    """Closes the user, and counts what there is. Records the scope before anything of it goes: a later run has to know of it."""
    log, name, cold = warehouse.log(table), str(table.name), can(table.type, "cold tier")
    # First closed, then counted: nothing comes that the counts do not have.
    upto = log.close_user(warehouse.erasures.mark(user))
    if (pending := log.view({user}).pending.get(user)) is not None:
        tally.note(tally.counts.with_table(name, hot_rows=pending.rows))
        if cold:
            # Rows that were never flushed have no scope in the list; a flush that has read them could make one behind this.
            warehouse.registry.add(table.id, {user})
    target = warehouse.target_of(catalog, table, user)
    listing = open_store(target.location).list("") if cold else []
    if not tally.counts.of(name).files:  # else it may already be a fence
        tally.note(tally.counts.with_table(name, files=len(listing), bytes=sum(found.size for found in listing)))
    had = cold and (bool(listing) or user in warehouse.registry.users(table.id))
    return _Scope(table, target, upto, had)


def _hidden(warehouse: Warehouse, run: Run, catalog: Catalog, scopes: Sequence[_Scope], job_id: str, mark: str) -> list[Location]:
    """Fences the scopes. Returns where else they may have been, which is cleared.

    Raises:
        Conflict: some scopes could not be emptied.
    """
    # The commit that hides the user's rows in files and log at once; everything after it removes what no reader is shown
    # (docs/decisions/0104-an-erasure-hides-a-scope-at-once.md).
    _fence(warehouse, run, scopes, job_id, mark)
    before = [place for scope in scopes for place in places_elsewhere(warehouse, catalog, scope.table, scope.target)]
    for place in before:
        clear(place)
    # The fences are on the disk before they are noted, and before rows leave the log.
    sync({warehouse.uri, *(warehouse.base(storage) for storage in catalog.storages.values())})
    note_fences(warehouse, [scope.target for scope in scopes if scope.had], job_id)
    return before


def _fence(warehouse: Warehouse, run: Run, scopes: Sequence[_Scope], job_id: str, mark: str) -> None:
    """Raises Conflict: some scopes could not be emptied."""
    for scope in scopes:
        if scope.had:
            # Given up before anything goes: the floor would call what is left a loss
            # (docs/decisions/0020-floors-and-identity.md).
            forget(scope.target, scope.watermark, absent(to_millis(warehouse.clock())))
    clock, state = CarriedClock.of(warehouse.clock), warehouse.state.uri
    tasks = [EraseTask(scope.target, scope.watermark, job_id, clock, state, mark) for scope in scopes if scope.had]
    reports = run(erase_scope, [SizedWork(task, _SCOPE_COST) for task in tasks])
    check_none_failed(reports, "could not be emptied", "the user stays closed: erase again")


def _forget(warehouse: Warehouse, table: Table, user: str, tally: _Tally) -> None:
    """Removes tags, pins, subscriptions, failed checks and the registry's entry."""
    warehouse.registry.discard(table.id, user)
    LiveQueries(warehouse.state).forget(table.log_id, user)
    remove_pins(warehouse.state, table.id, user)
    warehouse.failed_checks.forget(table.id, user)
    remove_tags(warehouse.state, table.id, user, lambda tags: tally.note(tally.counts.with_table(str(table.name), tags=tags)))


def _searched(warehouse: Warehouse, tables: Sequence[Table], what: ErasureSearch) -> SearchResult:
    """What is left. Whoever settles a log meanwhile, such as another user's erasure, makes objects of what it read before this
    user's rows were taken out; its cut does not count then, but for some moments the objects are there. So what is found in a
    log is taken out once more.
    """
    searched = search(what)
    for _ in range(_LOOKS):
        logs = f"{warehouse.state.uri}/log/"
        if not any(found.uri.startswith(logs) for found in searched.findings):
            break
        for table in tables:
            warehouse.log(table).leave_out(what.user, warehouse.clock())
        searched = search(what)
    return searched


def _remove_exports(warehouse: Warehouse, mark: str, tables: set[str], tally: _Tally) -> tuple[list[ExportRecord], list[str]]:
    """Removes whole exports that hold one of the tables, and their records last. Returns those whose place still exists, and
    what to do about the others."""
    known = [record for record in warehouse.exports.of(mark) if tables.intersection(record.tables)]
    tally.at_least("exports", len(known))
    there, gone = [], []
    for record in known:
        place = open_store(Location(record.target))
        try:
            place.delete([found.key for found in place.list("")])
            there.append(record)
        except NoBucket:
            gone.append(f"the bucket of the export at {record.target} no longer exists: if it only has another address, empty it")
    # The records last: without them a later attempt would not know the places.
    warehouse.exports.forget(known)
    return there, gone


def _hide(warehouse: Warehouse, jobs: JobLog, request: ErasureRequest, tables: set[str], tally: _Tally) -> None:
    """Removes the user from plans with these tables; after a whole erasure jobs, surveys and the audit log name the user by
    the keyed hash."""
    user = request.user
    PlanLog(warehouse.state, warehouse.erasures).forget(user, tables if request.tables else None)
    if request.tables:
        return
    mark = tally.erasure.mark
    audit = AuditLog(warehouse.state, warehouse.clock, warehouse.new_id)
    jobs.hide_user(user, mark, partial(tally.at_least, "jobs"))
    forget_user(warehouse, user, mark)  # in the paths of surveyed tables, and what is said of them
    audit.hide_user(user, mark, partial(tally.at_least, "audit"))


def _swept(warehouse: Warehouse, catalog: Catalog, places: Sequence[Location], tally: _Tally) -> tuple[str, str]:
    """Removes writes that never ended, uploads and old versions; what is to be done by hand about the latter two."""

    def more(name: str, count: int) -> None:
        tally.note(replace(tally.counts, **{name: getattr(tally.counts, name) + count}))

    for root in {*(place.uri for place in places), *map(warehouse.base, catalog.storages.values())}:
        remove_leftovers(root)
    return remove_uploads(places, partial(more, "uploads")), remove_old_versions(places, partial(more, "old_versions"))


def _open(warehouse: Warehouse, request: ErasureRequest, tables: Sequence[Table], erasure: Erasure) -> None:
    """Lets the user write again, where a search has found nothing."""
    if not request.tables:
        # Before the user is opened: a job that began before and ends later looks here for whether to hide the id.
        warehouse.erasures.remember(erasure.mark, warehouse.clock())
    for table in tables:
        # Only now: everything that could still write rows of before is refused by position from here on.
        warehouse.log(table).open_user(erasure.mark)
    # Last: until here, a crash leaves an erasure that can be continued.
    warehouse.erasures.end(erasure)


def _certificate(
    erasure: Erasure,
    request: ErasureRequest,
    job_id: str,
    tables: Sequence[Table],
    to_do: str,
    searched: SearchResult,
    moments: tuple[datetime, datetime],
) -> Certificate:
    counts, (started, finished) = erasure.counts, moments
    return Certificate(
        id=job_id,
        erasure=erasure.job_id,
        user=erasure.mark,
        asked_by=request.asked_by,
        result="failed" if searched.findings else "complete",
        tables=tuple(counts.of(str(table.name)) for table in tables),
        exports=counts.exports,
        jobs=counts.jobs,
        audit=counts.audit,
        old_versions=counts.old_versions,
        to_do=to_do,
        deep=request.deep,
        objects_searched=searched.objects,
        bytes_searched=searched.bytes,
        objects_read=searched.read,
        checksum=searched.checksum,
        coincidences=searched.coincidences,
        findings=tuple(without_id(f"{found.what}: {found.uri}", request.user, erasure.mark) for found in searched.findings),
        started_at=started.astimezone(UTC).isoformat(),
        finished_at=finished.astimezone(UTC).isoformat(),
        uploads=counts.uploads,
        unseen=searched.unseen,
    )


def _left(searched: SearchResult) -> Conflict:
    first = searched.findings[0]
    more = f" and {len(searched.findings) - 1} more" if len(searched.findings) > 1 else ""
    return Conflict(f"not everything is gone: {first.what} ({first.uri}){more}; the user stays closed: remove it and erase again")
