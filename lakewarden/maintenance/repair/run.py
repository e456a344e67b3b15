"""Repair: makes what damage has hidden readable again, and reports what is lost (docs/decisions/0021-repair.md).

It goes table by table, under the table's lock. First it rebuilds the floors and gives up what is lost of the write log. Then
it rebuilds each scope from its table, the log and the log's history. Last, if the log ends below what was settled, the log
continues after that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakewarden.base.clock import CarriedClock
from lakewarden.base.connection import StorageRoot
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Pipeline, Table
from lakewarden.catalog.state.floor import FloorLook, floor_at
from lakewarden.catalog.state.floor_entries import FloorLocation, KnownScopes, KnownState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.scope import copied_from, open_place
from lakewarden.errors import BeingErased, Corrupt, LakewardenError
from lakewarden.log.objects.trail import Trail
from lakewarden.log.position import NOTHING, end_of, position_of
from lakewarden.maintenance.repair import RepairOptions
from lakewarden.maintenance.repair.columns import unlisted_users, with_younger_columns
from lakewarden.maintenance.repair.evidence import RepairTask
from lakewarden.maintenance.repair.logs import behind, mend_ledger, without_garbled, without_lost
from lakewarden.maintenance.repair.report import RepairReport
from lakewarden.maintenance.repair.scope import repair_scope
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.tables.fanout import Run, SizedWork, fault_of
from lakewarden.tables.floors import FloorNote, raise_floors
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, find_table, live_tables

_SCOPE_COST = 1 << 20
"""The assumed bytes of a scope in a pack: most are sound, and a damaged one is read whole."""


Key = tuple[str, Scope]
"""What a report is about: its subject, and whose."""


def key_of(one: RepairReport) -> Key:
    return one.subject, one.scope


def repair(
    warehouse: Warehouse, catalog: Catalog, run: Run, request: Request, job_id: str, only: frozenset[Key] | None = None
) -> list[RepairReport]:
    """A report for each damaged log, and one for each scope.

    Args:
        catalog: as it was just read.
        only: what to repair of all that is damaged, as a dry run named it; the rest is only looked at. A dry run has nothing
            in it; without it, all is repaired.

    A storage that is away is one report; all else is repaired.

    Raises:
        NotFound, InvalidArgument: the table does not exist, or the user is invalid; nothing was done.
        StorageUnavailable: a storage is away, or is not the one that this warehouse uses, and without it the one table that is
            named cannot be judged.
    """
    tables = _tables(catalog, request)
    present = Presence.among(map(warehouse.root, catalog.storages.values()))
    found = _of_storages(present, tables)
    for table in tables:
        # One repair, drop or move of a table at a time; each table has its own lock, so that others go on.
        with warehouse.locks.create().hold(table.name.namespace, table.name.name):
            try:
                found += _TableRepair(warehouse, run, request, job_id, catalog, table, present, only).done()
            except LakewardenError as error:
                if len(request.tables) == 1:
                    raise
                found.append(RepairReport(Scope(table.name, None), "failed", "log").failed(fault_of(error)))
    for pipeline in _pipelines(catalog, request):
        blank = catalog.blanks.get(pipeline.table)
        if blank is not None:
            found += _TableRepair(warehouse, run, request, job_id, catalog, blank, present, only).log_behind()
        spared = only is not None and ("ledger", Scope(pipeline.table, None)) not in only
        found += mend_ledger(warehouse, catalog, pipeline, dry_run=spared)
    return found


def _of_storages(present: Presence, tables: Sequence[Table]) -> list[RepairReport]:
    """A failed report for each storage that is away; it stands with a table whose scopes are there by default, if any is."""
    if not tables:
        return []
    at = {table.options.storage_id: table for table in reversed(tables)}
    away = ((at.get(root.storage_id, tables[0]), error) for root, error in present.away.items())
    return [RepairReport(Scope(table.name, None), "failed", "storage").failed(fault_of(error)) for table, error in away]


def _pipelines(catalog: Catalog, request: Request) -> list[Pipeline]:
    """Those that fill the tables, also one that has no schema yet: the state may be older than its first one."""
    if request.user is not None:
        return []
    own = [*live_tables(catalog), *catalog.blanks.values()]
    ids = {table.id for table in own if not request.tables or str(table.name) in request.tables}
    return [one for one in catalog.pipelines.values() if one.table_id in ids]


def _tables(catalog: Catalog, request: Request) -> list[Table]:
    names = [name for name in map(TableName.parse, request.tables) if name not in catalog.blanks]
    named = [find_table(catalog, name) for name in names] if request.tables else live_tables(catalog)
    return [table for table in named if request.tables or request.user is None or can(table.type, "a scope per user")]


@dataclass(frozen=True)
class _TableRepair:
    """The repair of one table."""

    warehouse: Warehouse
    run: Run
    request: Request
    job_id: str
    catalog: Catalog
    table: Table
    present: Presence
    only: frozenset[Key] | None = None

    @property
    def restored(self) -> bool:
        """Whether the warehouse, or its data, comes from a backup, so that either may be older than the other shows."""
        return self.request.options_of(RepairOptions).restored

    def done(self) -> list[RepairReport]:
        """Columns first: without them, no scope can be read. Behind a backup, each storage may show what the others lack."""
        if not self.restored:
            return self.repaired()
        self.present.check()
        spared = self._spared("columns")
        catalog, columns = with_younger_columns(self.warehouse, self.catalog, self.table, self.request.user, dry_run=spared)
        table = find_table(catalog, self.table.name)
        found = replace(self, catalog=catalog, table=table).repaired()
        if columns and not spared:
            # Writers that read the catalog before would put rows of older columns
            # (docs/decisions/0106-rows-of-older-columns.md).
            self.warehouse.log(table).require_columns(table.schema.version)
        return columns + found

    def repaired(self) -> list[RepairReport]:
        table, log = self.table, self.warehouse.log(self.table)
        by_steps = self.only is not None
        floors = mend_floors(self.warehouse, self.catalog, table, self.present, dry_run=self._spared("floor"))
        if floors and by_steps:
            return floors  # without them no scope can be compared with what is recorded
        # What is away looks lost, and must not be repaired.
        targets = [target for target in self._targets() if self.present.why_not(target) is None]
        # Before the look at the log: what is settled by then, its segments or its cuts show
        # (docs/decisions/0018-links-and-lost-positions.md).
        settled = self._settled()
        faults = log.faults()
        if faults:
            self.present.check()  # which rows of it are needed still, each storage's floor may say
        logs = without_lost(self.warehouse, table, faults, settled, dry_run=self._spared("log"))
        if faults and by_steps:
            return logs  # until they are given up the log cannot be read, and scopes are repaired from its rows
        logs += without_garbled(self.warehouse, table, self.request.user, partial(self._spared, "log"))
        trail = log.trail(NOTHING)
        # Behind the log: scopes are rebuilt from its rows.
        scopes = self._scopes(targets, trail, settled)
        last = max([settled, *(position_of(one.watermark) for one in scopes if one.watermark > NOTHING)])
        # A log that ends below a watermark would give out `_seq` that tables take for settled.
        if self.restored or trail.view.last_position < last:
            users = zip(targets, scopes, strict=True)
            watermarks = {target.scope.user or "": one.watermark for target, one in users if one.watermark > NOTHING}
            older = trail.view.last_position < last
            logs += behind(self.warehouse, table, last, watermarks, lost=older, dry_run=self._spared("log"))
        return floors + logs + scopes

    def log_behind(self) -> list[RepairReport]:
        """Of a table without a schema: the state may be older than its first one, and then its log ends before its rows."""
        settled, shown = self._settled(), self.warehouse.log(self.table).trail(NOTHING).view.last_position
        if settled <= shown:
            return []
        return behind(self.warehouse, self.table, settled, {}, lost=True, dry_run=self._spared("log"))

    def _spared(self, subject: str, user: str | None = None) -> bool:
        """Whether that is only looked at."""
        return self.only is not None and (subject, Scope(self.table.name, user)) not in self.only

    def _targets(self) -> list[ScopeTarget]:
        """Every scope, or the user's; scopes known only from their directories are registered first."""
        if not can(self.table.type, "cold tier"):
            return []
        if self.restored and self.only != frozenset():
            users = unlisted_users(self.warehouse, self.catalog, self.table)
            if users:
                self.warehouse.registry.add(self.table.id, users)
        scopes = scopes_of(self.warehouse, self.table, self.request.user)
        return [self.warehouse.target(self.catalog, scope) for scope in scopes]

    def _settled(self) -> int:
        """The last position that a floor records as settled; the state's has that of all storages, unless it is of a backup."""
        if not (self.warehouse.identifies and can(self.table.type, "cold tier")):
            return NOTHING
        places = [FloorLocation.on_storage(root.location, self.table.id) for root in self.present.devices]
        return max(floor_at(place).position() for place in (*places, self.warehouse.floor(self.table)))

    def _scopes(self, targets: Sequence[ScopeTarget], trail: Trail, settled: int) -> list[RepairReport]:
        clock = CarriedClock.of(self.warehouse.clock)
        broken = self.warehouse.failed_checks.of(self.table.id) if targets and not self.request.tables else ()
        tasks = [
            self._task(target, trail, settled, clock, reads_files=bool(self.request.tables) or target.mark in broken)
            for target in targets
        ]
        found = self.run(repair_scope, [SizedWork(task, _SCOPE_COST) for task in tasks])
        done = [(target, one) for target, one in zip(targets, found, strict=True) if one.outcome == "done"]
        noted = [
            FloorNote(target, KnownState(one.version, one.watermark, one.rows, one.watermark))
            for target, one in done
            if one.version is not None
        ]
        noted += self._one_of_each_storage(targets, {one.target.root for one in noted})
        # Behind the commits, whose versions it notes.
        raise_floors(noted, {self.table.id: max(settled, trail.view.last_position)}).check()
        if any(marks := [target.mark for target, _ in done]):
            self.warehouse.log(self.table).note_rewound(marks)  # rows changed without rows in the log, as with a restore
        return found

    def _one_of_each_storage(self, targets: Sequence[ScopeTarget], noted: Collection[StorageRoot | None]) -> list[FloorNote]:
        """Behind a backup, what is known of one scope on each other storage, so that its floor and the state's agree on how far
        the log went: an earlier repair may have died between the two."""
        if not self.restored or self.only is not None:
            return []
        firsts = {target.root: FloorNote(target, target.known) for target in reversed(targets) if target.known is not None}
        return [one for root, one in firsts.items() if root not in noted]

    def _task(self, target: ScopeTarget, trail: Trail, settled: int, clock: CarriedClock, *, reads_files: bool) -> RepairTask:
        user = target.scope.user or ""
        signs = trail.signs(self.warehouse.erasures.mark(user))
        # A repair could bring back what the erasure is removing.
        if signs.closed:
            raise BeingErased(frozenset([user]))
        shown = trail.view.last_position
        return RepairTask(
            target=target,
            table_id=self.table.id,
            state_uri=self.warehouse.state.uri,
            ranges=trail.ranges(user, NOTHING),
            # A log that ends before what was settled lacks rows, and tombstones, that the tables have.
            complete_after=max(trail.forgotten, end_of(settled) if settled > shown else NOTHING),
            settled_upto=trail.settled_upto(user),
            erased_upto=NOTHING if signs.erased is None else end_of(signs.erased),
            rewound_upto=NOTHING if signs.rewound is None else end_of(signs.rewound),
            reads_files=reads_files,
            dry_run=self._spared("scope", target.scope.user),
            job_id=self.job_id,
            clock=clock,
        )


# Repairs a table's floors: objects that cannot be read in one copy are rebuilt from the others.
#
# Each storage's copy has the scopes that are on it, and the state's copy has all. Notes can be joined in any order, so each
# damaged copy gets everything in the sound objects. If a note may have been lost from both, the scopes' own state counts: a
# table that is older than it was then looks the same as one that is whole. What the write log has settled of each is still
# compared with it afterwards (maintenance/repair/look.py).


def mend_floors(warehouse: Warehouse, catalog: Catalog, table: Table, present: Presence, *, dry_run: bool) -> list[RepairReport]:
    """Rebuilds the table's floors on storages that are present; returns one report, or none where all can be read.

    Raises:
        StorageUnavailable: the state's copy cannot be read, and a storage is away, whose copy may have what it lacks.
    """
    if not (warehouse.identifies and can(table.type, "cold tier")):
        return []
    roots = {FloorLocation.on_storage(root.location, table.id): root for root in present.devices}
    stored = {place: floor_at(place).examine() for place in roots}
    state = floor_at(warehouse.floor(table)).examine()
    damaged = {place: look for place, look in (*stored.items(), (warehouse.floor(table), state)) if look.unreadable}
    if not damaged:
        return []
    # A storage that is away may have the only copy of a note that the state lost.
    if state.unreadable:
        present.check()
    alone = bool(state.unreadable) and _leave_out(stored.values())
    planned = RepairReport(Scope(table.name, None), "planned", "floor", _reason(damaged, alone=alone))
    if dry_run:
        return [planned]
    said = _said(_targets(warehouse, catalog, table)) if alone else {}
    parts = (part for look in (*stored.values(), state) for part in look.parts)
    known = KnownScopes.union([*parts, KnownScopes.of(said)])
    # What the state has seen of each storage, so that one that went back shows again.
    positions = {roots[place].identity: look.position for place, look in stored.items() if look.position != NOTHING}
    for place, look in damaged.items():
        # All that any copy knows: notes join in any order, so too much does no harm.
        floor_at(place).mend(look.unreadable, known, {} if place in roots else positions)
    return [planned.ended("done")]


def _leave_out(stored: Iterable[FloorLook]) -> bool:
    """Whether the storages' copies may lack a note that the state's copy had."""
    looks = list(stored)
    return any(look.unreadable for look in looks) or all(look.position == NOTHING for look in looks)


def _reason(damaged: Mapping[FloorLocation, FloorLook], *, alone: bool) -> str:
    names = [f"{place.location.uri}/{key}" for place, look in damaged.items() for key in look.unreadable]
    copy = (
        "its copy cannot be read either, so what the scopes have now counts as all that they had" if alone else "its copy has it"
    )
    return f"{len(names)} objects of the floor cannot be read, as {names[0]}; {copy}"


def _targets(warehouse: Warehouse, catalog: Catalog, table: Table) -> list[ScopeTarget]:
    return [warehouse.bare_target(catalog, table, scope.user) for scope in scopes_of(warehouse, table, None)]


def _said(targets: Iterable[ScopeTarget]) -> dict[str, KnownState]:
    """What scopes have now, by keyed hash. Any row counts as possibly deleted, since nothing shows which were not."""
    found = {}
    for target in targets:
        try:
            table = open_place(target)
        except Corrupt:
            continue  # the scope's own repair reports it
        if table is not None and not copied_from(table, target):
            state = table.state(target.app_id)
            found[target.mark] = KnownState(state.version, state.last_seq, state.rows, state.last_seq)
    return found
