"""Repairs a table's floors: objects that cannot be read in one copy are rebuilt from the others.

Each storage's copy has the scopes that are on it, and the state's copy has all. Notes can be joined in any order, so each
damaged copy gets everything in the sound objects. If a note may have been lost from both, the scopes' own state counts: a
table that is older than it was then looks the same as one that is whole. What the write log has settled of each is still
compared with it afterwards (maintenance/repair/look.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.state.floor import FloorLook, floor_at
from lakewarden.catalog.state.floor_entries import NOTHING, FloorLocation, KnownScopes, KnownState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.scope import copied_from, open_place
from lakewarden.errors import Corrupt
from lakewarden.maintenance.repair.report import RepairReport
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse


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
