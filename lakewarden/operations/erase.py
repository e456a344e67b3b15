"""Erasing a user: closed, taken out of the log, fenced, removed from every list, searched for, certified, opened again.

Every step may be repeated. An erasure that was interrupted is asked for again and goes through all of them once more; the
user stays closed until a search finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from lakewarden.catalog.certificate import Certificate, ErasedTable, keep_certificate
from lakewarden.catalog.erasures import Erasure
from lakewarden.catalog.exports import ExportRecord
from lakewarden.catalog.live import LiveQueries
from lakewarden.catalog.model import Catalog, Table
from lakewarden.clock import system_clock
from lakewarden.connection import Location
from lakewarden.delta.fence import fence_settled
from lakewarden.delta.place import place_of
from lakewarden.errors import Conflict, InvalidArgument
from lakewarden.faults import Reach, no_faults
from lakewarden.log.closing import close_user, leave_out, open_user
from lakewarden.log.view import PendingRows
from lakewarden.operations.asked import EraseAsked, forget_asked, keep_asked
from lakewarden.operations.fanout import Run, Sized, guarded
from lakewarden.operations.jobs import JobLog
from lakewarden.operations.scopes import named_tables
from lakewarden.operations.tags import remove_tags
from lakewarden.report import ScopeReport, ScopeTarget
from lakewarden.storage.durability import sync
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user, encode
from lakewarden.storage.versions import remove_old_versions
from lakewarden.verify.search import Search, Searched, Suspect, search
from lakewarden.warehouse import Warehouse, live_tables

_SCOPE_COST = 32 << 10


@dataclass(frozen=True)
class EraseTask:
    """The fence of one scope. `watermark` is the last `_seq` that the log settled by leaving the user out."""

    target: ScopeTarget
    watermark: int
    job_id: str


@dataclass(frozen=True)
class _Scope:
    """A scope whose rows have left the log. `had`: anything of it was ever known, so a late flush could bring it back."""

    table: Table
    target: ScopeTarget
    watermark: int
    hot_rows: int
    had: bool


def erase(
    warehouse: Warehouse, run: Run, jobs: JobLog, asked: EraseAsked, job_id: str, *, reach: Reach = no_faults
) -> Certificate:
    """Returns the certificate of a complete erasure.

    Raises:
        NotFound, InvalidArgument: no such table, or none of users; nothing was done.
        Conflict: something of the user was found afterwards, or is still written to; the user stays closed: remove what the
            message names, and erase again.
    """
    user, mark = check_user(asked.user), warehouse.erasures.mark(asked.user)
    catalog = warehouse.catalog.read()
    tables = _tables(catalog, asked.tables)
    started = warehouse.clock()
    wanted = Erasure(job_id, mark, tuple(table.id for table in tables), asked.asked_by, started)
    erasure = warehouse.erasures.begin(wanted, frozenset(table.id for table in live_tables(catalog)))
    forget_asked(warehouse.state, mark)
    reach("erase:begun")
    for table in tables:
        close_user(warehouse.state, table.log_id, mark)
    reach("erase:closed")
    scopes = [_left_out(warehouse, catalog, table, user, mark, reach) for table in tables]
    reach("erase:cut")
    reports = _fence(run, scopes, job_id)
    sync({warehouse.uri, *(warehouse.base(storage) for storage in catalog.storages.values())})
    reach("erase:fenced")
    tags = [_forget(warehouse, scope, user) for scope in scopes]
    exports = _remove_exports(warehouse, mark, {str(table.name) for table in tables})
    whole = not asked.tables
    hidden = jobs.hide_user(user, mark) if whole else 0
    own = [Location(warehouse.state.uri), *(Location(record.target) for record in exports)]
    places = [*own, *(scope.target.location for scope in scopes)]
    old_versions, to_do = remove_old_versions(places)
    reach("erase:removed")
    searched = search(
        _wanted(warehouse, catalog, tables, asked, mark, tuple(record.target for record in exports), versions=not to_do)
    )
    reach("erase:searched")
    certificate = Certificate(
        id=job_id,
        erasure=erasure.job_id,
        user=mark,
        asked_by=asked.asked_by,
        result="failed" if searched.findings else "complete",
        tables=tuple(map(_erased, scopes, reports, tags)),
        exports=len(exports),
        jobs=hidden,
        old_versions=old_versions,
        to_do=to_do,
        deep=asked.deep,
        objects_searched=searched.objects,
        bytes_searched=searched.bytes,
        objects_read=searched.read,
        checksum=searched.checksum,
        coincidences=searched.coincidences,
        findings=tuple(without_id(f"{found.what}: {found.uri}", user, mark) for found in searched.findings),
        started_at=started.astimezone(UTC).isoformat(),
        finished_at=warehouse.clock().astimezone(UTC).isoformat(),
    )
    keep_certificate(warehouse.state, certificate)
    reach("erase:certified")
    if searched.findings:
        raise _left(searched)
    for table in tables:
        open_user(warehouse.state, table.log_id, mark)
    warehouse.erasures.end(erasure)
    return certificate


def erase_scope(task: EraseTask) -> ScopeReport:
    """Empties the scope under a fence that refuses late commits and tells late flushes that their rows are settled."""

    def run() -> ScopeReport:
        fenced = fence_settled(task.target, task.watermark, job_id=task.job_id, clock=system_clock)
        metrics = {"files_removed": fenced.files, "bytes_removed": fenced.bytes}
        return ScopeReport(task.target.scope, "erase", "done", task.target.location, version=fenced.version, metrics=metrics)

    return guarded(task.target, "erase", run)


def ask_erasure(warehouse: Warehouse, asked: EraseAsked) -> str:
    """Keeps the request until somebody runs it; the user's keyed hash, which is its name.

    Raises:
        NotFound, InvalidArgument: no such table, or a SHARED one; an impossible id.
    """
    mark = warehouse.erasures.mark(check_user(asked.user))
    _tables(warehouse.catalog.read(), asked.tables)
    keep_asked(warehouse.state, mark, asked)
    return mark


def verify_erased(warehouse: Warehouse, user: str, names: Sequence[str], *, deep: bool) -> Searched:
    """The search alone: is anything of the user there?"""
    catalog = warehouse.catalog.read()
    asked = EraseAsked(check_user(user), tuple(names), "", deep)
    mark = warehouse.erasures.mark(user)
    return search(_wanted(warehouse, catalog, _tables(catalog, asked.tables), asked, mark, (), versions=True))


def _tables(catalog: Catalog, names: Sequence[str]) -> list[Table]:
    tables = named_tables(catalog, names)
    shared = [str(table.name) for table in tables if table.type == "SHARED"]
    if names and shared:
        raise InvalidArgument(f"{', '.join(shared)}: rows of a SHARED table belong to no user, so none can be erased from it")
    return [table for table in tables if table.type == "USER"]


def _left_out(warehouse: Warehouse, catalog: Catalog, table: Table, user: str, mark: str, reach: Reach) -> _Scope:
    """Takes the rows out of the table's log. First the registry learns of them: whoever goes on has to know of the scope."""
    hot: list[int] = []

    def found(pending: PendingRows) -> None:
        warehouse.registry.add(table.id, {user})
        hot.append(pending.rows)

    upto = leave_out(
        warehouse.state,
        table.log_id,
        user,
        mark,
        settings=warehouse.settings.log,
        new_id=warehouse.new_id,
        now=warehouse.clock(),
        found=found,
        reach=reach,
    )
    target = warehouse.target_of(catalog, table, user)
    had = user in warehouse.registry.users(table.id) or bool(place_of(target.location).names())
    return _Scope(table, target, upto, max(hot, default=0), had)


def _fence(run: Run, scopes: Sequence[_Scope], job_id: str) -> list[ScopeReport]:
    """Raises:
    Conflict: some scopes could not be emptied.
    """
    tasks = [Sized(EraseTask(scope.target, scope.watermark, job_id), _SCOPE_COST) for scope in scopes if scope.had]
    reports = {report.scope: report for report in run(erase_scope, tasks)}
    failed = [report for report in reports.values() if report.fault]
    if failed:
        first = f"{failed[0].scope}: {failed[0].reason}"
        raise Conflict(f"{len(failed)} scopes could not be emptied, as {first}; the user stays closed: erase again")
    return [
        reports.get(scope.target.scope) or ScopeReport(scope.target.scope, "erase", "skipped", scope.target.location)
        for scope in scopes
    ]


def _forget(warehouse: Warehouse, scope: _Scope, user: str) -> int:
    """Tags, subscriptions and the registry's entry; how many tags there were."""
    warehouse.registry.discard(scope.table.id, user)
    LiveQueries(warehouse.state).forget(scope.table.log_id, user)
    return remove_tags(warehouse.state, scope.table.id, user)


def _remove_exports(warehouse: Warehouse, mark: str, tables: set[str]) -> list[ExportRecord]:
    """Exports that hold one of the tables go as a whole; the record goes last."""
    gone = [record for record in warehouse.exports.of(mark) if tables.intersection(record.tables)]
    for record in gone:
        place = open_store(Location(record.target))
        place.delete([found.key for found in place.list("")])
    warehouse.exports.forget(gone)
    return gone


def _wanted(
    warehouse: Warehouse,
    catalog: Catalog,
    tables: Sequence[Table],
    asked: EraseAsked,
    mark: str,
    exports: tuple[str, ...],
    *,
    versions: bool,
) -> Search:
    ids = {table.id for table in tables}
    return Search(
        warehouse=warehouse.uri,
        user=asked.user,
        mark=mark,
        suspects=tuple(_suspect(warehouse, catalog, table) for table in tables),
        others=tuple(_suspect(warehouse, catalog, table) for table in live_tables(catalog) if table.id not in ids),
        storages=tuple(warehouse.location(storage) for storage in catalog.storages.values()),
        exports=exports,
        whole=not asked.tables,
        deep=asked.deep,
        versions=versions,
    )


def _suspect(warehouse: Warehouse, catalog: Catalog, table: Table) -> Suspect:
    storage = catalog.storages[table.options.storage_id]
    template = storage.user_template if table.type == "USER" else storage.shared_template
    return Suspect(table.id, table.log_id, table.name.namespace, table.name.name, warehouse.base(storage), template)


def _erased(scope: _Scope, report: ScopeReport, tags: int) -> ErasedTable:
    metrics = report.metrics
    return ErasedTable(
        str(scope.table.name), scope.hot_rows, metrics.get("files_removed", 0), metrics.get("bytes_removed", 0), tags
    )


def without_id(text: str, user: str, mark: str) -> str:
    """The text with the keyed hash in place of the id, as it is and as paths spell it."""
    for spelled in {user, encode(user, folds_case=False), encode(user, folds_case=True)}:
        text = re.sub(rf"(?<![0-9A-Za-z_]){re.escape(spelled)}(?![0-9A-Za-z_])", mark, text)
    return text


def _left(searched: Searched) -> Conflict:
    first = searched.findings[0]
    more = f" and {len(searched.findings) - 1} more" if len(searched.findings) > 1 else ""
    return Conflict(f"not all is gone: {first.what} ({first.uri}){more}; the user stays closed: remove it, and erase again")
