"""Exports a user's data as Delta tables in one place, with a manifest of checksums that is written last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC

from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.exports import ExportRecord
from lakewarden.delta.lifecycle.copying import CopiedFile, copy_table
from lakewarden.delta.lifecycle.states import check_not_frozen
from lakewarden.delta.scope import open_scope
from lakewarden.errors import BeingErased, InUse, InvalidArgument, StorageRefused
from lakewarden.maintenance.erase.verification import check_known, tables_of_users
from lakewarden.maintenance.export import ExportOptions
from lakewarden.maintenance.export.contents import MANIFEST, Export, ExportedTable
from lakewarden.maintenance.flush.procedure import flush_user
from lakewarden.maintenance.plans.still_planned import check_standing
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import AsAWhole
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.disk import sync
from lakewarden.storage.location import canonical, delta_uri, join, overlaps
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import naming
from lakewarden.storage.paths import check_user, encode
from lakewarden.tables.warehouse import Warehouse, cold_tables, find_table

_BEGUN = "export.json"
"""Names the export's user from the first file on, so that an interrupted export can be recognized."""

_FORMAT = 1
_EXPORTS = "exports"


def own_place(warehouse: Warehouse, job_id: str) -> str:
    """The place of an export that names none: a folder of its own in the warehouse."""
    return join(warehouse.uri, f"{_EXPORTS}/{job_id}")


def check_target(warehouse: Warehouse, to: str, user: str) -> str:
    """The canonical place.

    Raises:
        InvalidArgument: it is invalid, has a credential, or overlaps the warehouse or a storage (except `<warehouse>/exports/`).
        Unsupported: no Delta reader could find a table there.
        InUse: the place holds something else.
    """
    place = delta_uri(canonical(to))
    bases = [warehouse.base(storage) for storage in warehouse.catalog.read().storages.values()]
    own = join(warehouse.uri, _EXPORTS)
    inside = place.startswith(f"{own}/") and overlaps(own, place)
    if not inside and any(overlaps(place, taken) for taken in (warehouse.uri, *bases)):
        raise InvalidArgument(f"{place} is in the warehouse or a storage, or contains one: export elsewhere, or below {own}/")
    if inside and any(overlaps(place, base) for base in bases if base != warehouse.uri):
        raise InvalidArgument(f"{place} is in a storage: export elsewhere")
    target = open_store(Location(place))
    if target.list("") and _owner(target) != user:
        raise InUse(f"{place} is not empty and holds no export of this user: choose another place")
    return place


def export(warehouse: Warehouse, user: str, place: str, job_id: str, *, reach: Reach = no_faults) -> Export:
    """Copies every scope of a user whose rows were just flushed. Idempotent: what is already there is not written again.

    Raises:
        Conflict: a table was rewritten meanwhile, or is being moved; try again.
        BeingErased: the user is being erased, or was meanwhile; no copy stays.
    """
    catalog = warehouse.catalog.read()
    tables = [table for table in cold_tables(catalog) if table.type == "USER"]
    now = warehouse.clock().astimezone(UTC).isoformat()
    names = tuple(str(table.name) for table in tables)
    record = ExportRecord(job_id, warehouse.erasures.mark(check_user(user)), place, names, now)
    if warehouse.erasures.under_way(record.mark) is not None:
        raise BeingErased(frozenset({user}))
    warehouse.exports.keep(record)
    target = open_store(Location(place))
    try:
        target.delete([MANIFEST])
        target.put(_BEGUN, json.dumps({"exported_user": user, "format": _FORMAT}).encode())
    except StorageRefused:
        warehouse.exports.forget([record])  # nothing was written there
        raise
    with _recorded(warehouse, record, user, target):
        done = [exported for table in tables if (exported := _copied(warehouse, table, user, target, reach)) is not None]
        files = tuple(file for _, copied in done for file in copied)
        made = Export(user, now, place, tuple(table for table, _ in done), files)
        kept = {MANIFEST, _BEGUN, *(file.path for file in files)}
        target.delete([found.key for found in target.list("") if found.key not in kept])
        target.put(MANIFEST, json.dumps({"format": _FORMAT, **asdict(made)}, ensure_ascii=False, indent=1).encode())
        sync({place})
    return made


@contextmanager
def _recorded(warehouse: Warehouse, record: ExportRecord, user: str, target: ObjectStore) -> Iterator[None]:
    """An erasure removes the record and what was copied until then. Removes what was copied later, however the copying ended."""
    try:
        yield
    finally:
        if record not in warehouse.exports.of(record.mark):
            target.delete([found.key for found in target.list("")])
            raise BeingErased(frozenset({user}))


def _copied(
    warehouse: Warehouse, table: Table, user: str, target: ObjectStore, reach: Reach
) -> tuple[ExportedTable, list[CopiedFile]] | None:
    catalog = warehouse.catalog.read()
    place = warehouse.target_of(catalog, find_table(catalog, table.name), user)
    opened = open_scope(place)
    if opened is None:
        return None
    check_not_frozen(opened, place)
    folder = f"{encode(table.name.namespace, folds_case=False)}/{encode(table.name.name, folds_case=False)}"
    rows = sum(file.rows or 0 for file in opened.files())
    return ExportedTable(str(table.name), folder, opened.version, rows), copy_table(opened, target, folder, reach)


def _owner(target: ObjectStore) -> str | None:
    try:
        said = json.loads(target.get(_BEGUN))
    except (Missing, ValueError):
        return None
    return said.get("exported_user") if isinstance(said, dict) else None


_TO = "target"


class ExportUser(AsAWhole):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        """A report for each table of which the user has something.

        Raises:
            NotFound, InvalidArgument, Unsupported, InUse: an unknown or impossible user, or a place that cannot be exported to.
        """
        warehouse, user = at.warehouse, check_user(request.user)
        check_known(warehouse, user)
        to = check_target(warehouse, request.options_of(ExportOptions).to or "", user)
        reports = []
        for table in tables_of_users(catalog, ()):
            if not can(table.type, "cold tier"):
                continue
            target = warehouse.target_of(catalog, table, user)
            with naming(target.root):
                sizes = [found.size for found in open_store(target.location).list("")]
            pending = warehouse.log(table).view().pending.get(user)
            metrics = {"hot_rows": pending.rows if pending else 0, "files": len(sizes), "bytes": sum(sizes)}
            reason = (
                f"{metrics['files']} files of {metrics['bytes']} bytes are copied, after a flush of {metrics['hot_rows']} rows"
            )
            if sizes or pending:
                scope = Scope(table.name, user)
                reports.append(
                    ScopeReport(scope, "export", "planned", target.location, reason, parameters={_TO: to}, metrics=metrics)
                )
        return reports

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Without a place, it goes to a folder of its own in the warehouse."""
        user, to = check_user(request.user), request.options_of(ExportOptions).to

        def work(id_: str) -> list[ScopeReport]:
            place = check_target(at.warehouse, to or own_place(at.warehouse, id_), user)
            return _reports(at, user, _exported(at, user, place, id_))

        return at.as_job("export", {"user": user}, work, job_id)

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_standing(at.warehouse, plan)
        made = export_user(at, plan.request.user or "", plan.request.options_of(ExportOptions).to or "")
        return DoneBy("", f"{len(made.files)} files were exported")

    def check_queued(self, at: Workplace, catalog: Catalog, request: Request) -> None:
        if request.user is None:
            raise InvalidArgument("an export takes one user's tables, all of them: name the user")
        if request.options_of(ExportOptions).to is not None:
            raise InvalidArgument("a queued export goes to a folder of its own in the warehouse: name no place")
        check_user(request.user)


def export_user(at: Workplace, user: str, to: str) -> Export:
    """Flushes what the user has pending, then copies; raises as `maintenance.export.procedure` does."""
    place = check_target(at.warehouse, to, check_user(user))
    started = at.warehouse.clock()
    job_id = at.new_job_id("export")
    made = _exported(at, user, place, job_id)
    at.jobs.keep("export", job_id, started, {"user": user}, "completed", f"{len(made.files)} files")
    return made


def _exported(at: Workplace, user: str, place: str, job_id: str) -> Export:
    faults = [(report.scope, report.fault) for report in flush_user(at, user) if report.fault]
    if faults:
        scope, first = faults[0]
        raise first.hinders(f"nothing was exported: {scope} could not be flushed")
    return export(at.warehouse, user, place, job_id)


def _reports(at: Workplace, user: str, made: Export) -> list[ScopeReport]:
    return [
        ScopeReport(
            Scope(TableName.parse(table.name), user),
            "export",
            "done",
            Location(made.uri).below(table.path),
            version=table.version,
            metrics={"rows_exported": table.rows},
            finished_at=at.warehouse.clock(),
        )
        for table in made.tables
    ]


PROCEDURE = ExportUser()
