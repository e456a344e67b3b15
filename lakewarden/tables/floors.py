"""Records what a job settles, on storages and in the warehouse's state, before the log releases it (catalog/state/floor.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from lakewarden.base.clock import to_millis
from lakewarden.base.connection import StorageRoot
from lakewarden.base.scope import NOTHING
from lakewarden.base.threads import at_once
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.fleet_days import ROOT
from lakewarden.catalog.state.floor import RECENT_SECONDS, floor_at
from lakewarden.catalog.state.floor_entries import NO_TABLE, FloorLocation, KnownState, UpkeepNote, absent
from lakewarden.catalog.state.floor_summaries import TOTALS, WHOLE
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Corrupt, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.log.log_reader import LogReader
from lakewarden.log.position import position_of
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.tables.fanout import failed_report, or_error
from lakewarden.tables.upkeep_notes import upkeep_of
from lakewarden.tables.warehouse import Warehouse

_LOOKS = 3
"""Attempts at a listing: one made while objects are being joined may show neither the old nor the new."""


@dataclass(frozen=True)
class FloorNote:
    """What the floors record of a scope from now on."""

    target: ScopeTarget
    known: KnownState


def known_of(target: ScopeTarget, report: ScopeReport, now: datetime) -> KnownState | None:
    """What a job knows of a scope that it committed to, or that it opened; None for neither."""
    state, before = report.state, target.known
    if report.fault is not None or target.floor is None:
        return None
    if state is None:
        gone = before if before is not None and before.forgotten else KnownState(NO_TABLE, NOTHING, 0, forgotten=True)
        return replace(gone, upkeep=absent(to_millis(now))) if report.quiet else None
    unseen = report.outcome != "done" and (before is None or before.watermark < state.last_seq)  # another's flush
    took = report.metrics.get("rows_deleted", 0) > 0 or report.operation == "restore" or unseen
    forgotten = before is not None and before.forgotten and before.watermark >= state.last_seq  # a new start has more
    upkeep = upkeep_of(target, report, state, now)
    return KnownState(state.version, state.last_seq, state.rows, state.last_seq if took else NOTHING, forgotten, upkeep)


@dataclass(frozen=True)
class UnwrittenFloors:
    """Copies of floors that could not be written, and why: their scopes may not be settled."""

    faults: Mapping[FloorLocation, LakewardenError]

    def why(self, target: ScopeTarget) -> LakewardenError | None:
        return next((fault for place in _places(target) if (fault := self.faults.get(place)) is not None), None)

    def check(self) -> None:
        """Raises the first fault."""
        for fault in self.faults.values():
            raise fault

    def judged(self, target: ScopeTarget, report: ScopeReport, now: datetime) -> ScopeReport:
        """The report, or a failed one if its result could not be recorded."""
        fault = self.why(target)
        return report if fault is None or report.fault else failed_report(target, report.operation, fault, now)


def raise_floors(noted: Iterable[FloorNote], positions: Mapping[str, int] | None = None) -> UnwrittenFloors:
    """Records scopes on their storages and in the state: durable when it returns, before anything is settled.

    Args:
        positions: by table id, the last position of its log that was seen; without it, that of the highest watermark.
    """
    copies: dict[FloorLocation, dict[str, KnownState]] = defaultdict(dict)
    seen: dict[FloorLocation, dict[str, int]] = defaultdict(dict)
    for one in noted:
        places = _places(one.target)
        for place in places:
            copies[place][one.target.mark] = one.known if place == one.target.floor else replace(one.known, upkeep=None)
        if places and one.target.root is not None:
            stored, floor = places
            seen[floor][one.target.root.identity] = floor_at(stored).seen
    faults = at_once(lambda place: _add(place, copies[place], seen[place], positions or {}), copies)
    return UnwrittenFloors({place: fault for place, fault in zip(copies, faults, strict=True) if fault is not None})


def _add(
    place: FloorLocation, known: Mapping[str, KnownState], seen: Mapping[str, int], positions: Mapping[str, int]
) -> LakewardenError | None:
    settled = max(position_of(one.watermark) for one in known.values())
    return or_error(lambda at: floor_at(at).add(positions.get(at.table_id, settled), known, seen), place)


def _places(target: ScopeTarget) -> list[FloorLocation]:
    """The faults of the copies that know the scope."""
    if target.floor is None or target.root is None:
        return []
    return [FloorLocation.on_storage(target.root.location, target.floor.table_id), target.floor]


def add_looks(looked: Sequence[FloorNote]) -> None:
    """Records what was seen of scopes in the state alone; if that fails, they are looked at again."""
    found: dict[FloorLocation, dict[str, KnownState]] = defaultdict(dict)
    for one in looked:
        if one.target.floor is not None:
            found[one.target.floor][one.target.mark] = one.known
    for place, known in found.items():
        _add(place, known, {}, {})


def forget(target: ScopeTarget, upto: int, upkeep: UpkeepNote | None = None) -> None:
    """Records that a scope was given up, with all its rows up to that `_seq`, so that deleting it is not taken for a loss.

    Args:
        upkeep: of what is there then; without it, maintenance looks there.
    """
    if target.floor is not None:
        before = floor_at(target.floor).look().known(target.mark) or KnownState(0, NOTHING, 0)
        given_up = replace(before, watermark=max(before.watermark, upto), rows=0, forgotten=True, upkeep=upkeep)
        raise_floors([FloorNote(target, given_up)]).check()


def known_version(target: ScopeTarget) -> int:
    """The scope's recorded version; `NOTHING` where none is recorded."""
    known = None if target.floor is None else floor_at(target.floor).look().known(target.mark)
    return NOTHING if known is None or known.forgotten else known.version


def forget_moved(warehouse: Warehouse, noted: Iterable[FloorNote]) -> None:
    """Removes the records of scopes that were moved since."""
    catalog = warehouse.catalog.read()
    for one in noted:
        table = catalog.tables.get(one.target.scope.table)
        if table is None or table.log_id != one.target.log_id:
            continue
        user = one.target.scope.user
        if warehouse.location_of(catalog, table, user) != one.target.location:
            forget(warehouse.bare_target(catalog, table, user), one.known.watermark)


def not_moved(warehouse: Warehouse, looked: Sequence[FloorNote]) -> list[FloorNote]:
    """Those of tables that exist and are not being moved: a version that was seen behind a freeze does not come along."""
    catalog = warehouse.catalog.read()
    there = {table.log_id: table for table in catalog.tables.values() if table.move is None and not table.dropping}
    found = ((one, there.get(one.target.log_id)) for one in looked)
    return [
        one
        for one, table in found
        if table is not None and warehouse.location_of(catalog, table, one.target.scope.user) == one.target.location
    ]


def copy_floor(floor: FloorLocation, root: StorageRoot) -> None:
    """Gives a storage all that the state records of a table's scopes, before they are moved there."""
    look = floor_at(floor).look()
    floor_at(FloorLocation.on_storage(root.location, floor.table_id)).add(look.position, look.all())


def remove_floors(floor: FloorLocation, roots: Iterable[StorageRoot]) -> None:
    """Forgets a dropped table. A storage that is away keeps its copy, which is no longer compared."""
    for root in roots:
        with suppress(StorageUnavailable, StorageRefused):
            floor_at(FloorLocation.on_storage(root.location, floor.table_id)).remove()
    floor_at(floor).remove()
    state = open_store(floor.location)
    state.delete([key for family in (WHOLE, TOTALS, ROOT) for key in state.keys(f"{family}/{floor.table_id}")])


@dataclass(frozen=True)
class LogStanding:
    """A table's scopes on one storage, and the last position of its log that was seen."""

    floor: FloorLocation
    root: StorageRoot
    log_id: str
    last_position: int


def floor_faults(state: ObjectStore, standings: Iterable[LogStanding]) -> Mapping[LogStanding, LakewardenError]:
    """The faults where the log, or the storage, is older than it was."""
    wanted = set(standings)
    found = zip(wanted, at_once(partial(or_error, partial(check_floor, state)), wanted), strict=True)
    return {standing: error for standing, error in found if error is not None}


def shown(standings: Iterable[LogStanding]) -> set[StorageRoot]:
    """Object stores that just listed one of our floors: a recreated bucket has none. (A mount point may have one.)"""
    found = ((standing.root, FloorLocation.on_storage(standing.root.location, standing.floor.table_id)) for standing in standings)
    return {root for root, place in found if local_path(root.location.uri) is None and floor_at(place).seen != NOTHING}


def check_floor(state: ObjectStore, standing: LogStanding) -> None:
    """Compares a log, whose end was just read, with what a storage records of it, and that with what the state records.

    Raises:
        Corrupt: one of them is older than it was.
    """
    table_floor, root, log_id, last_position = standing.floor, standing.root, standing.log_id, standing.last_position
    stored = floor_at(FloorLocation.on_storage(root.location, table_floor.table_id))
    expected = floor_at(table_floor).storages(RECENT_SECONDS).get(root.identity, NOTHING)
    settled = stored.position()
    if settled > last_position and settled > (end := LogReader(state, log_id).view(()).last_position):
        raise Corrupt(
            f"log {log_id} of {state.uri} ends at position {end}, and storage {root.storage_id!r} knows of rows up to position"
            f" {settled}: the warehouse's state is older than its data, as after a restore from a backup; lakewarden repair"
            " --restored makes the two agree"
        )
    if settled < expected and max(stored.position() for _ in range(_LOOKS)) < expected:
        raise Corrupt(
            f"storage {root.storage_id!r} at {root.location} knows of rows up to position {settled} of log {log_id}, and it knew"
            f" of rows up to {expected}: it is older than the warehouse's state, as after a restore from a backup; lakewarden"
            " repair --restored makes the two agree"
        )
