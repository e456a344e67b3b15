"""Removes the fences and seals of dropped tables and erased users, once no paused process can still need them.

A drop and an erasure record where their fences are: the directory in plain text, the scope in it as a keyed hash, so that
the note holds no id. After `maintenance.fence_retention_hours` a vacuum lists those directories and removes the fences,
unless a table was started there again. If no note is due, a sweep costs one listing of the notes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from lakewarden.base.clock import to_millis
from lakewarden.base.connection import Connection, Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.changes.leases import held
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import without_nested
from lakewarden.delta.commit_log.committing import SWEPT, Committer
from lakewarden.delta.commit_log.publish import Still
from lakewarden.delta.commit_log.stamp import SWEEP, CommitStamp
from lakewarden.delta.parquet.files import CHANGE_FOLDER, SHUFFLE
from lakewarden.delta.replay.log_objects import LOG, checkpoint_name
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, LakewardenError, NoBucket
from lakewarden.storage.disk import remove_empty_directories, remove_leftovers
from lakewarden.storage.location import overlaps
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import RECENT_SECONDS, confirm
from lakewarden.storage.steps import Steps, together
from lakewarden.storage.sums import kept_as
from lakewarden.tables.warehouse import Warehouse

_ROOT = "graves"
"""The name that earlier releases gave the notes: those are read as well."""
_LOCK = ("_lakewarden", "fences")
"""A name that no table can have: no namespace begins with an underscore."""
_AT_ONCE = 1_000
"""The most notes that one sweep handles; the others wait for the next."""


@dataclass(frozen=True)
class FenceDirectory:
    """A directory with fences. `path` is relative to the warehouse, where it is inside it."""

    path: str
    connection: Connection


@dataclass(frozen=True)
class FenceNote:
    """One drop, or one erasure: its fences as keyed hashes, and the log that was sealed, if any."""

    fences: tuple[tuple[FenceDirectory, frozenset[str]], ...]
    log_id: str | None


@dataclass(frozen=True)
class SweepResult:
    """How many fences and seals were removed, and why others stay, with a keyed hash in place of the name."""

    fences: int = 0
    seals: int = 0
    failed: tuple[str, ...] = ()


def note_fences(warehouse: Warehouse, targets: Iterable[ScopeTarget], job_id: str, log_id: str | None = None) -> None:
    """Records fences that were just made, and the sealed log. Idempotent."""
    fences: dict[FenceDirectory, set[str]] = defaultdict(set)
    for target in targets:
        directory, name = _directory_of(warehouse, target.location)
        # The directory's name may be the user's id, so it is kept as a hash, and found again by hashing what lies there.
        fences[directory].add(warehouse.erasures.mark(name))
    if fences or log_id:
        note = FenceNote(tuple((directory, frozenset(marks)) for directory, marks in fences.items()), log_id)
        # The moment comes first in the name: what is due follows from a listing, without a read.
        warehouse.state.put(f"{_ROOT}/{to_millis(warehouse.clock()):014d}-{job_id}", msgspec.json.encode(note))


def sweep(warehouse: Warehouse, job_id: str, *, reach: Reach = no_faults) -> SweepResult:
    """Removes the fences and seals that are older than `fence_retention_hours`; what fails is left for the next sweep. Also
    removes what killed processes left of unfinished writes.

    One process at a time, under the catalog's lock: a process that paused while another removed a fence would delete the first
    commits of a table started there since, because they have the names of the fence's.

    Raises:
        Conflict: other processes are sweeping, and take too long.
        Corrupt, StorageUnavailable: a note cannot be read.
    """
    for root in (warehouse.state.uri, *map(warehouse.base, warehouse.catalog.read().storages.values())):
        remove_leftovers(root)
    before = warehouse.clock() - timedelta(hours=warehouse.settings.maintenance.fence_retention_hours)
    # Before the lock, which costs two versions of the catalog.
    if not _due(warehouse.state, before):
        return SweepResult()
    with warehouse.locks.create().hold(*_LOCK) as lease:

        def still() -> None:
            held(warehouse.catalog.read(), lease)

        return _sweep(warehouse, before, _Sweeper(job_id, still, reach))


def _sweep(warehouse: Warehouse, before: datetime, sweeper: _Sweeper) -> SweepResult:
    # Again under the lock: another process may have swept meanwhile.
    state, due = warehouse.state, _due(warehouse.state, before)
    notes = {key: kept_as(FenceNote, state.get(key), f"{state.uri}/{key} is not a note of fences") for key in due}
    wanted: dict[FenceDirectory, set[str]] = defaultdict(set)
    for note in notes.values():
        for directory, marks in note.fences:
            wanted[directory] |= marks
    found = {directory: _sweep_directory(warehouse, directory, marks, before, sweeper) for directory, marks in wanted.items()}
    seals = 0
    for key, note in notes.items():
        over = note.log_id is None or warehouse.logs.remove(note.log_id, before)
        seals += note.log_id is not None and over
        # The note goes when all of it is gone: a fence without a note is never found again.
        if over and not any(marks & found[directory].waiting for directory, marks in note.fences):
            state.delete([key])
    failed = tuple(why for directory in found.values() for why in directory.failed)
    return SweepResult(sum(directory.gone for directory in found.values()), seals, failed)


@dataclass(frozen=True)
class _Sweeper:
    """One sweep. `still` raises `Conflict` once the lock is lost; deletes cannot be fenced, so it is called right before them."""

    job_id: str
    still: Still
    reach: Reach


@dataclass
class _DirectorySweep:
    """Sweeps the fences in one directory; returns how many were removed, and the hashes of those that have to wait."""

    gone: int = 0
    waiting: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)


def _sweep_directory(
    warehouse: Warehouse, directory: FenceDirectory, marks: set[str], before: datetime, sweeper: _Sweeper
) -> _DirectorySweep:
    place, found, clock = _location(warehouse, directory), _DirectorySweep(), warehouse.clock
    try:
        # An unmounted disk lists nothing, and every note of it would count as done.
        _confirm_storage(warehouse, place)
        names = sorted({stored.key.partition("/")[0] for stored in open_store(place).list("")})
    except NoBucket:
        return found
    except LakewardenError as error:  # the storage may have been dropped since, and its keys with it
        return _DirectorySweep(waiting=marks, failed=[error.message])
    named = {name: mark for name in names if (mark := warehouse.erasures.mark(name)) in marks}
    fates = together(_swept(place.below(name), before, Committer(sweeper.job_id, clock(), clock), sweeper) for name in named)
    for (name, mark), (fate, why) in zip(named.items(), fates, strict=True):
        found.gone += fate == "gone"
        if fate == "too young":
            found.waiting.add(mark)
        if why:
            # The report is kept in the job log, where no id may stand.
            found.failed.append(why.replace(name, mark))
    return found


def _swept(place: Location, before: datetime, by: Committer, sweeper: _Sweeper) -> Steps[tuple[Fate, str]]:
    """Sweeps one fence; returns the outcome, and why it could not be removed, empty where nothing failed."""
    try:
        return (yield from sweep_fence(place, before, by, sweeper.still, reach=sweeper.reach)), ""
    except LakewardenError as error:
        # What failed is tried again by the next sweep.
        return "too young", error.message


def _confirm_storage(warehouse: Warehouse, place: Location) -> None:
    """Raises StorageUnavailable: the fences' storage is not present. One that was dropped since is not checked."""
    for storage in warehouse.catalog.read().storages.values():
        root = warehouse.root(storage)
        if overlaps(root.location.uri, place.uri, folds_case=True):
            confirm(root, RECENT_SECONDS)


def _due(state: ObjectStore, before: datetime) -> list[str]:
    last = f"{_ROOT}/{to_millis(before):014d}"
    return [found.key for found in state.list(_ROOT) if found.key < last][:_AT_ONCE]


def _directory_of(warehouse: Warehouse, location: Location) -> tuple[FenceDirectory, str]:
    above, _, name = location.uri.rpartition("/")
    return FenceDirectory(above.removeprefix(f"{warehouse.uri}/"), location.connection), name


def _location(warehouse: Warehouse, directory: FenceDirectory) -> Location:
    inside = "://" not in directory.path and not directory.path.startswith("/")
    return Location(f"{warehouse.uri}/{directory.path}" if inside else directory.path, directory.connection)


# Removes a fence (delta/lifecycle/fence.py), with everything that late writers left beside it.
#
# Deletes can't be fenced, and a user may start anew at this very moment. So a fence is first marked, by a strict commit: who
# opened the table before that is refused, who opens it after that waits. Then all goes but the checkpoint of the marked
# version, and that one last: whatever dies in between leaves a table that says what it is, or none.

_DATA = re.compile(rf"({CHANGE_FOLDER}/)?((batch-\d+-[0-9a-f]{{32}}|[^/=]+=[^/]+)/)*[^/]+\.parquet|{SHUFFLE.pattern}")
"""Data and change files, also those in directories of flushes and of partitions, and what was to become data files; what else is
deeper may be another scope."""

Fate = Literal["gone", "in use", "too young"]
"""Of a place in which a fence was: nothing is there any more; a table was started again on it; something is not old enough."""


def sweep_fence(location: Location, before: datetime, by: Committer, still: Still, *, reach: Reach = no_faults) -> Steps[Fate]:
    """Removes a fence if everything in its place was written before that moment. May be repeated.

    Args:
        still: raises `Conflict` when another process may be at it; called right before the deletes.

    Raises:
        Corrupt, StorageUnavailable: the place can't be read; nothing was removed.
    """
    listing = open_store(location).list("")
    table = ScopeTable.open(location)
    if table is None:  # no fence any more; what a writer left that came later than the last sweep
        old = [found.key for found in without_nested(listing) if _DATA.fullmatch(found.key) and found.modified < before]
        open_store(location).delete(old)
        remove_empty_directories(location.uri)
        return "gone"
    if not table.is_swept:
        if not table.is_fenced:
            return "in use"
        if any(found.modified >= before for found in listing):
            return "too young"
        try:
            yield from table.empty(stamp=CommitStamp(by.job_id, SWEEP), since=by.since, now=by.clock(), transaction=(SWEPT, 1))
        except Conflict:
            return "in use"
        reach("sweep:marked")
        table = ScopeTable.open(location)
        if table is None or not table.is_swept:
            return "too young"
    table.checkpoint()
    yield location.uri  # else a power cut could keep the deletes and lose the mark
    reach("sweep:checkpointed")
    still()
    _remove(location, table.version, [found.key for found in listing if found.modified < before], reach)
    return "gone"


def _remove(location: Location, version: int, old: list[str], reach: Reach) -> None:
    store = open_store(location)
    last = checkpoint_name(version)
    store.delete(name for name in sorted({*old, *store.keys(LOG)}) if name != last)
    reach("sweep:emptied")
    store.delete([last])
    remove_empty_directories(location.uri)
