"""What one Delta table of any writer looks like: its newest version that opens, what is wrong with it, and its figures.

The caller lists; this reads. A table is judged by a listing of its objects and by its log, each object of which is read at most
once. One listing is not one moment: while it was made, commits came and files went. So whatever looks wrong is looked at again,
in the order log, object, log, before it is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from lakewarden.base.connection import Location
from lakewarden.delta.examination.figures import TableFigures, figures_of
from lakewarden.delta.examination.file_notes import (
    SuspectObject,
    no_columns,
    of_contents,
    of_live,
    of_schema,
    of_suspects,
    of_vectors,
    suspects,
)
from lakewarden.delta.examination.kept_log import KeptLog, KnownLogObjects
from lakewarden.delta.examination.kinds import Verdict, verdict_of
from lakewarden.delta.examination.listing import MOST_LOG_OBJECTS, TableListing
from lakewarden.delta.examination.log_notes import (
    below_checkpoint,
    checkpoint_parts,
    contradiction,
    is_doubtful,
    lost_commits,
    of_checksum,
    of_features,
    of_pointer,
    older_checkpoints,
    without_emptied,
)
from lakewarden.delta.examination.newest_version import LogWalk, NewestVersion, torn_compactions
from lakewarden.delta.examination.version_checksum import read_checksum
from lakewarden.delta.features import asked_wrongly, features_of, unknown_features
from lakewarden.delta.replay.live_files import whole
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LOG
from lakewarden.delta.replay.log_state import LogState, Note
from lakewarden.errors import Unsupported
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store

OF_CATALOGS = frozenset({"catalogManaged", "catalogOwned", "catalogOwned-preview", "coordinatedCommits-preview"})
"""Table features by which a catalog decides which commits a table has."""

_MOST_LOOKS = 5
"""At the log of one table, while others write it. What none of the last two agree on is not said."""

_MOST_ASKED = 100
"""Suspects that are asked for one by one; for more the table is listed again."""


@dataclass(frozen=True)
class Examination:
    """What was found. `state` is the newest version that opens; None where none does."""

    state: LogState | None
    notes: tuple[Note, ...]
    verdict: Verdict
    figures: TableFigures = field(default_factory=TableFigures)
    read: Literal["log", "checksum"] = "log"
    """`checksum`: the version's `.crc` alone was read, which Spark or Delta's kernel wrote; no commit was."""
    error: str = ""
    """Why nothing opens; empty where something does."""


@dataclass(frozen=True)
class _Look:
    """One look at a log and a listing."""

    listed: TableListing
    """As it was handed over."""
    listing: TableListing
    """Without what is as good as gone."""
    state: LogState | None
    notes: tuple[Note, ...]
    """All but those on files and vectors that the listing lacks."""
    suspects: tuple[SuspectObject, ...]
    found: NewestVersion | None
    error: str = ""


def examine(
    location: Location,
    listing: TableListing,
    store: ObjectStore | None = None,
    *,
    deep: bool = False,
    kept: KeptLog | None = None,
) -> Examination:
    """Looks at one table.

    It lists nothing unless a suspect has to be looked at again. A damage is no error: it is among the notes.

    Args:
        location: of the table.
        listing: all of its own objects, those of its log among them.
        store: of the same place, if the caller has opened it.
        deep: whether the footers of data files and the vectors are read too, and a checkpoint is compared with all its commits.
        kept: what is known of its log, as this listing shows it; takes what is read.

    Raises:
        StorageUnavailable, StorageRefused: an object could not be read.
    """
    store = store or open_store(location)
    try:
        look = _look(location, listing, store, deep=deep, by_checksum=not deep, kept=kept)
        if look.suspects or any(note.damaging for note in look.notes) or look.error:
            look = _again(location, look, store, deep=deep)
    except Unsupported as error:
        return Examination(None, (), "unreadable", error=error.message)
    state, listing = look.state, look.listing
    notes = (*look.notes, *of_suspects(look.suspects, 0 if state is None else state.files.num_rows))
    if deep and state is not None:
        notes = (*notes, *of_contents(state, listing.files))
    reason = look.error or ("" if state is None else no_columns(state.metadata))
    catalog = state is not None and not OF_CATALOGS.isdisjoint(features_of(state.protocol))
    verdict = verdict_of(notes, opens=not reason, catalog=catalog)
    figures = figures_of(state, look.found, listing, notes)
    return Examination(state, notes, verdict, figures, "log" if look.found is not None else "checksum", reason)


def _look(
    location: Location, listed: TableListing, store: ObjectStore, *, deep: bool, by_checksum: bool, kept: KeptLog | None = None
) -> _Look:
    if len(listed.log) > MOST_LOG_OBJECTS:
        raise Unsupported(f"the log has {len(listed.log):,} objects; at most {MOST_LOG_OBJECTS:,} are looked at")
    log, listing = KnownLogObjects(location, store, kept), without_emptied(listed, store)
    # requests are what a checksum saves, and a disk has none
    checksum = read_checksum(log, listing, alone=by_checksum and not log.on_disk)
    # beside a checksum the pointer would be a request above the bound of a first look
    is_asked = checksum is None or checksum.is_doubtful or log.on_disk or not by_checksum
    pointer = log.pointer() if is_asked and LAST_CHECKPOINT in listing.log else None
    if checksum is not None and checksum.state is not None:
        notes = [*_of_names(listing), *of_pointer(pointer, listing, None)]
        return _with_files(_Look(listed, listing, checksum.state, tuple(notes), (), None))
    if not log.on_disk:
        log.read_ahead(listing.replayed)
    found = LogWalk(log, listing.log_files).newest()
    notes = [*_of_names(listing), *found.notes]
    if found.state is not None:
        if deep or log.on_disk or is_doubtful(found, listing, pointer, checksum):
            notes += contradiction(log, found, listing, deep=deep)
        if deep or log.on_disk:
            notes += torn_compactions(log, listing.log_files)
            notes += older_checkpoints(log, listing, found, deep=deep)
        notes += found.trail.notes()
        if checksum is not None and not any(note.damaging for note in notes):
            notes += of_checksum(checksum, found.state, listing)
    elif checksum is not None and checksum.has_head and not any(note.damaging for note in notes):
        detail = f"{found.error}, which the checksum of version {listing.log_files.newest} has: a commit lost a line"
        notes += [Note("torn-commit", detail, (listing.log_files.newest or 0,))]
    look = _with_files(_Look(listed, listing, found.state, tuple(notes), (), found, found.error))
    is_well = not look.suspects and not any(note.damaging for note in look.notes)
    return replace(look, notes=(*look.notes, *of_pointer(pointer, listing, found if is_well else None)))


def _of_names(listing: TableListing) -> Iterator[Note]:
    """What the names in the log show."""
    yield from checkpoint_parts(listing)
    yield from below_checkpoint(listing)
    yield from lost_commits(listing)


def _with_files(look: _Look) -> _Look:
    """The same with what the live files of its version show beside the listing."""
    state, listed = look.state, look.listing.files
    odd, every = list[SuspectObject](), [*look.notes]
    if state is not None:
        vectors, needed = of_vectors(state)
        sizes = listed.sizes_of(whole(state.files, "key"))
        odd += suspects(state, listed, sizes, needed)
        every += [*of_live(state, sizes), *vectors, *of_schema(state.metadata), *of_features(state)]
        every += (Note("unknown-feature", name) for name in unknown_features(state.protocol))
        every += (Note("unknown-feature", said) for said in asked_wrongly(state))
        every += (Note("unknown-action", name) for name in sorted(state.unknown))
    once = {(note.kind, note.versions or note.detail): note for note in reversed(every)}
    return replace(look, notes=tuple(reversed(once.values())), suspects=tuple(odd))


def _again(location: Location, first: _Look, store: ObjectStore, *, deep: bool) -> _Look:
    """The second look: at the log as it is now, then at each suspect, then at the log once more.

    A file that was missing while its version was the newest one before and after is gone. One that a commit removed meanwhile is
    not, and what a commit added meanwhile was not looked at: it is no suspect.
    """
    look = _settled(location, first, store, deep=deep)
    missing = _still(store, look.suspects)
    if missing:
        named = {each.file for each in _follow(location, look, store, deep=deep).suspects}
        missing = [each for each in missing if each.file in named]
    return replace(look, suspects=tuple(missing))


def _settled(location: Location, look: _Look, store: ObjectStore, *, deep: bool) -> _Look:
    """A look whose notes stand: nothing of the log moved while it was read, or the look before found the same.

    A writer may write an object of the log between its listing and the reading of another that names it.
    """
    for _ in range(_MOST_LOOKS):
        again = _follow(location, look, store, deep=deep)
        if again is look:
            return look
        before = {(note.kind, note.versions) for note in look.notes}
        stand = tuple(note for note in again.notes if not note.damaging or (note.kind, note.versions) in before)
        look = again
        if len(stand) == len(again.notes):
            break
    return replace(look, notes=stand)


def _follow(location: Location, look: _Look, store: ObjectStore, *, deep: bool) -> _Look:
    """The same look where the log has not moved, else a new one."""
    moved = look.listed.with_log(store.list(LOG))
    is_same = look.found is not None and moved.log == look.listed.log
    return look if is_same else _look(location, moved, store, deep=deep, by_checksum=False)


def _still(store: ObjectStore, odd: Collection[SuspectObject]) -> list[SuspectObject]:
    """Those that are as they were suspected to be, by the store's own answer."""
    if len(odd) > _MOST_ASKED:
        there = {found.key: found.size for found in store.list("")}
        sizes = ((each, there.get(each.key, there.get(each.path, -1))) for each in odd)
        return [each for each, size in sizes if not each.least <= size <= (size if each.most is None else each.most)]
    return [each for each in odd if not _is_there(store, each)]


def _is_there(store: ObjectStore, suspect: SuspectObject) -> bool:
    for key in dict.fromkeys((suspect.key, suspect.path)):
        if not suspect.most or not suspect.least:
            there = store.has(key) and bool(store.get_range(key, max(0, suspect.least - 1), 1)) is (suspect.most is None)
        else:
            there = store.is_whole(key, suspect.most)
        if there:
            return True
    return False
