"""What the state knows of a table's scopes, and which registered scopes it does not know.

That every registered user is known is noted (`catalog.state.floor_summaries`). Users who were added since are compared alone.
Without that note, or if the floor on a storage has settled more than the state knows, as when the state was deleted or
replaced by an older one, every user is compared once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.attempts import Attempts
from lakewarden.base.scope import NOTHING
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.state.floor import Floor, FloorScan, floor_at
from lakewarden.catalog.state.floor_entries import (
    UNSEEN,
    DistinctScopes,
    FloorLocation,
    KnownScopes,
    hexadecimal,
    scope_hashes,
)
from lakewarden.catalog.state.floor_objects import Summary
from lakewarden.catalog.state.floor_summaries import (
    Totals,
    Whole,
    earlier_whole,
    find_totals,
    find_whole,
    keep_totals,
    keep_whole,
)
from lakewarden.errors import Corrupt, StorageRefused, StorageUnavailable
from lakewarden.storage.objects import Missing
from lakewarden.tables.warehouse import Warehouse

_WORTH_KEEPING = 10_000
"""Notes that take longer to add up than their sums take to keep and read."""

_ONE_SCOPE = "shared"
"""Instead of the registry's version, where a table has one scope, which is not registered."""

T = TypeVar("T")


@dataclass(frozen=True)
class FloorSurvey:
    """A table's floor in the state as of one listing, compared with the table's registered scopes."""

    warehouse: Warehouse
    table: Table
    floor: Floor
    scan: FloorScan
    scopes: int
    """The number of registered scopes."""
    unknown: frozenset[str] = frozenset()
    """Those that the state does not know, by keyed hash."""
    keeps: bool = True
    """Whether what is found is kept for the next survey."""
    hashed: tuple[pa.Array[Any], ...] = ()
    """The keyed hashes of each of the registry's blocks, where all users were compared."""

    @property
    def summaries(self) -> list[Summary | None]:
        """Returns what each object says of all its notes; None of one from an earlier release."""
        return [head.summary for head in self.scan.heads.values()]

    def parts(self) -> list[KnownScopes]:
        """Returns the notes, of which a scope may have several. Raises `Missing` when objects were merged since."""
        return list(self.floor.parts(self.scan.heads).values())


def users_of(
    warehouse: Warehouse, table: Table, marks: Collection[str], hashed: Sequence[pa.Array[Any]] = ()
) -> dict[str, str | None]:
    """Returns those of these keyed hashes whose user is registered; the one scope of a SHARED table has no user. Hashes every
    user once, a block at a time: no hash leads back to its user.

    Args:
        hashed: of the blocks that were hashed just now; those that have none of these are passed over.

    Raises:
        Corrupt: the registry cannot be read.
    """
    if not can(table.type, "a scope per user"):
        return {mark: None for mark in (warehouse.erasures.mark(""),) if mark in marks}
    wanted, before = scope_hashes(bytes.fromhex("".join(marks))), iter(hashed)

    def among(users: Collection[str]) -> list[tuple[str, str]]:
        seen = next(before, None)
        if seen is not None and not pc.any(pc.is_in(seen, value_set=wanted)).as_py():
            return []
        hashes = scope_hashes(warehouse.erasures.marks(users))
        found = pc.is_in(hashes, value_set=wanted)
        return list(zip(hexadecimal(hashes.filter(found)), compress(users, found.to_pylist()), strict=True))

    blocks, _ = warehouse.registry.each_block(table.id, among) if marks else ([], None)
    named: dict[str, str | None] = dict(chain.from_iterable(blocks))
    # A user may have come since, or a fold may have other blocks: whoever is missing is looked for in all of them.
    return users_of(warehouse, table, marks) if hashed and len(named) < len(marks) else named


def registered(warehouse: Warehouse, table: Table) -> int:
    """How many scopes are registered. Raises `Corrupt`."""
    return len(warehouse.registry.users(table.id)) if can(table.type, "a scope per user") else 1


def totals_of(survey: FloorSurvey) -> Totals:
    """The sums over all scopes. Raises `Missing` when objects were merged since."""
    state, table_id = survey.warehouse.state, survey.table.id
    totals = find_totals(state, table_id, survey.scan)
    if totals is None:
        parts = survey.parts()
        totals = Totals.of_parts(parts)
        if survey.keeps and sum(map(len, parts)) >= _WORTH_KEEPING:
            with suppress(StorageRefused):  # whoever only looks may not be allowed to write
                keep_totals(state, table_id, survey.scan, totals)
    return totals


def list_fault(survey: FloorSurvey, totals: Totals) -> Corrupt | None:
    """Why the list of scopes counts as damaged: it cannot be read, or lacks scopes with files of which there are notes. What was
    compared before holds by the names of objects, and says nothing of what is in them now."""
    warehouse, table, strangers = survey.warehouse, survey.table, len(survey.unknown)
    listed, full = survey.scopes - strangers, sum(totals.file_counts)
    try:
        if can(table.type, "a scope per user"):
            warehouse.registry.check(table.id)
        if full > listed:  # again: whoever came meanwhile was in the list before there was a note
            listed = registered(warehouse, table) - strangers
    except Corrupt as error:
        return error
    said = f"of {full} scopes of {table.name} with files that the state has notes of, its list has {max(listed, 0)}"
    lost = f"{warehouse.state.uri}/scopes/{table.id} or erasures/key, by which they are noted, is lost or another one"
    return Corrupt(f"{said}: {lost}; lakewarden repair --restored lists them anew") if full > listed else None


def surveyed(warehouse: Warehouse, catalog: Catalog, table: Table, of: Callable[[FloorSurvey], T], *, keeps: bool = True) -> T:
    """Returns the result of `of`, which is called again if the floor's objects are merged meanwhile.

    Args:
        keeps: whether what is found is kept for the next survey. Without that nothing is written, and what only the storages
            know is unknown.

    Raises:
        Corrupt: the floor or the registry cannot be read.
        Conflict: the floor changed with each look.
    """
    attempts = Attempts(10, f"the floor of {table.name} changed", "while it was read")
    while attempts.next():
        with suppress(Missing):  # objects were merged since the listing
            return of(_survey(warehouse, catalog, table, keeps))


def _survey(warehouse: Warehouse, catalog: Catalog, table: Table, keeps: bool) -> FloorSurvey:
    floor = floor_at(warehouse.floor(table))
    version = warehouse.registry.version(table.id) if can(table.type, "a scope per user") else _ONE_SCOPE
    scan = floor.scan()
    exact = find_whole(warehouse.state, table.id, version)
    whole = exact or earlier_whole(warehouse.state, table.id)
    if whole is None or not whole.holds(scan, warehouse.erasures.mark("")) or _settled(warehouse, catalog, table) > scan.position:
        return _compared(warehouse, catalog, table, version, keeps)
    if exact is None:
        extended = _extended(warehouse, table, version, scan, whole, keeps)
        return extended or _compared(warehouse, catalog, table, version, keeps)
    if keeps and not whole.objects <= scan.names:  # a later run finds fewer of them among the names of what was absorbed
        keep_whole(warehouse.state, table.id, version, replace(whole, objects=scan.names))
    return FloorSurvey(warehouse, table, floor, scan, whole.users, keeps=keeps)


def _extended(warehouse: Warehouse, table: Table, version: str, scan: FloorScan, whole: Whole, keeps: bool) -> FloorSurvey | None:
    """Compares the users who were added since the note; None where it is not known who they are."""
    added = warehouse.registry.added(table.id, whole.registry)
    if added is None:
        return None
    floor = floor_at(warehouse.floor(table))
    unknown = frozenset(map(warehouse.erasures.mark, added.users))
    fresh = [key for key in scan.heads if key.rpartition("/")[2] not in whole.objects]
    for keys in (fresh, scan.heads):  # their notes are mostly in the objects that came since, which are small
        if unknown:
            parts = floor.parts(keys).values()
            unknown = frozenset(mark for mark in unknown if all(part.get(mark) is None for part in parts))
    scopes = whole.users + len(added.users) if added.counted is None else added.counted
    if not unknown and keeps:
        keep_whole(warehouse.state, table.id, version, replace(whole, users=scopes, registry=added.objects, objects=scan.names))
    return FloorSurvey(warehouse, table, floor, scan, scopes, unknown, keeps)


def _compared(warehouse: Warehouse, catalog: Catalog, table: Table, version: str, keeps: bool) -> FloorSurvey:
    """Compares all registered users with what the floors know of them."""
    floor = floor_at(warehouse.floor(table))
    marks, objects = warehouse.erasures.marks, frozenset[str]()
    if can(table.type, "a scope per user"):
        # No scope is an object of Python, of which a million take 100 MB.
        hashed, objects = warehouse.registry.each_block(table.id, lambda users: scope_hashes(marks(users)))
    else:  # its one scope is not registered; its hash is that of the empty name
        hashed = [scope_hashes(marks([""]))]
    registered = DistinctScopes.of(hashed)
    if not len(registered):
        return FloorSurvey(warehouse, table, floor, floor.scan(), 0)
    if keeps:
        _restored(warehouse, catalog, table, floor)
    scan, unknown = floor.scan(), registered
    for part in floor.parts(scan.heads).values():
        unknown = unknown.besides(part)
    if not len(unknown) and keeps:
        whole = Whole(len(registered), objects, scan.names, warehouse.erasures.mark(""))
        keep_whole(warehouse.state, table.id, version, whole)
    return FloorSurvey(warehouse, table, floor, scan, len(registered), frozenset(unknown.hexadecimal()), keeps, tuple(hashed))


def _restored(warehouse: Warehouse, catalog: Catalog, table: Table, floor: Floor) -> None:
    """Gives the state what the storages know and it does not; that is looked at again."""
    copies = list(_copies(warehouse, catalog, table))
    before = floor.look().all()
    joined = KnownScopes.union([before, *(copy.look().all().without_upkeep() for copy in copies)])
    news = joined.only(joined["looked_at"] == UNSEEN).besides(before)
    settled = max((copy.seen for copy in copies), default=NOTHING)
    if len(news) or settled > floor.seen:
        floor.add(max(settled, floor.seen), news)


def _settled(warehouse: Warehouse, catalog: Catalog, table: Table) -> int:
    """The highest position that a storage with scopes of the table knows to be settled; storages that are away know none."""
    return max((copy.seen for copy in _copies(warehouse, catalog, table)), default=NOTHING)


def _copies(warehouse: Warehouse, catalog: Catalog, table: Table) -> Iterator[Floor]:
    """The table's floors on the storages that are there, each listed now."""
    own = [catalog.storages[table.options.storage_id]]
    for storage in catalog.storages.values() if table.options.use_user_storage else own:
        copy = floor_at(FloorLocation.on_storage(warehouse.location(storage), table.id))
        with suppress(StorageUnavailable, StorageRefused):
            copy.position()
            yield copy
