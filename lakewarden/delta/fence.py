"""The end of a scope's table: an empty version that stays behind, so that its version numbers never start again.

Somebody may still hold an old snapshot. Were the directory simply removed, their commit could land as a later version of
a table made anew at the same place (verified). With the fence on top it is refused as a conflict. A vacuum removes the
fence once nobody can hold such a snapshot any more (delta/sweep.py).
"""

from __future__ import annotations

import re

from lakewarden.clock import Clock
from lakewarden.connection import Location
from lakewarden.delta.border import delta_errors
from lakewarden.delta.commits import LOG
from lakewarden.delta.create import create_table
from lakewarden.delta.place import Place, place_of
from lakewarden.delta.stamp import DROP, ERASE, CommitStamp
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt
from lakewarden.report import ScopeTarget

_ATTEMPTS = 20
"""A flush may commit once more before it learns that the table is gone; more than this is somebody who will not stop."""

_VERSION = re.compile(rf"{LOG}/(\d{{20}})\.")


def fence(target: ScopeTarget, *, job_id: str) -> int | None:
    """Empties the scope's table for good and returns the fence's version; None where there is no table. May be repeated.

    Raises:
        Conflict: others kept on committing.
    """
    for _ in range(_ATTEMPTS):
        table = ScopeTable.open(target.location)
        if table is None:
            return None
        try:
            version = _emptied(table, target, job_id)
        except Conflict:
            continue
        _clear(target.location, version)
        return version
    raise Conflict(f"{target.scope} was written to {_ATTEMPTS} times while it was being dropped; stop its writers and try again")


def fence_settled(target: ScopeTarget, watermark: int, *, job_id: str, clock: Clock) -> int:
    """The same, with a watermark that tells a late flush that its rows are settled, also where no table was yet.

    What cannot be opened is removed whole. May be repeated.

    Raises:
        Conflict: others kept on committing.
    """
    place = place_of(target.location)
    for _ in range(_ATTEMPTS):
        try:
            version = _settled(target, place, watermark, job_id, clock)
        except Conflict:
            continue
        _clear(target.location, version)
        return version
    raise Conflict(f"{target.scope} was written to {_ATTEMPTS} times while it was being erased; try again")


def _settled(target: ScopeTarget, place: Place, watermark: int, job_id: str, clock: Clock) -> int:
    try:
        table = ScopeTable.open(target.location)
        if table is not None:
            known = table.watermark(target.app_id)
            settled = watermark if known is None else max(known, watermark)
            return _emptied(table, target, job_id, ERASE, (target.app_id, settled))
    except Corrupt:
        place.delete(place.names())
    create_table(target, (), CommitStamp(job_id, ERASE), (target.app_id, watermark), now=clock())
    return 0


def _emptied(
    table: ScopeTable, target: ScopeTarget, job_id: str, operation: str = DROP, transaction: tuple[str, int] | None = None
) -> int:
    """Commits and checkpoints a version without files."""
    files = table.files()
    stamp = CommitStamp(job_id, operation, {}, {"numRemovedFiles": len(files), "numDeletedRows": table.state(target.app_id).rows})
    table.empty(stamp=stamp, transaction=transaction)
    fenced = ScopeTable.open(target.location)
    if fenced is None:
        raise Corrupt(f"{target.uri}: the table vanished while it was being dropped")
    if fenced.files():
        raise Conflict(f"{target.uri} was written to while it was being dropped")
    with delta_errors(f"cannot checkpoint {target.uri}"):
        fenced.delta.create_checkpoint()
    return fenced.version


def _clear(location: Location, fence_version: int) -> None:
    """Deletes every file but the log's; of the log, empties what is older than the fence and deletes older checkpoints."""
    place = place_of(location)
    names = place.names()
    place.delete(name for name in names if not name.startswith(f"{LOG}/"))
    older = [name for name in names if (found := _VERSION.match(name)) and int(found[1]) < fence_version]
    for name in older:
        if name.endswith(".json"):
            place.replace(name, b"")
    place.delete(name for name in older if not name.endswith(".json"))
