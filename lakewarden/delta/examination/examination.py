"""What one Delta table of any writer looks like: its newest version that opens, what is wrong with it, and its figures.

The caller lists; this reads. A table is judged by a listing of its objects and by its log, each object of which is read at most
once. Bytes that changed without a change of size show only where a file is read (`deep`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from lakewarden.base.connection import Location
from lakewarden.delta.examination.damage import notes_on
from lakewarden.delta.examination.kinds import Verdict, verdict_of
from lakewarden.delta.features import features_of, unknown_features
from lakewarden.delta.replay.log_state import LogState, Note, replay
from lakewarden.errors import Corrupt, Unsupported

OF_CATALOGS = frozenset({"catalogManaged", "catalogOwned", "catalogOwned-preview", "coordinatedCommits-preview"})
"""Table features by which a catalog decides which commits a table has."""


class ListingLine(Protocol):
    """A line of a listing, as `SourceObject` and `StoredObject` are."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified(self) -> datetime: ...


@dataclass(frozen=True)
class TableListing:
    """The objects of one table as one listing shows them, in any order. All three are equally long."""

    keys: list[str]
    """Relative to the table."""
    sizes: list[int]
    """In bytes."""
    modified: list[datetime]

    @classmethod
    def of(cls, objects: Iterable[ListingLine], base: str = "") -> TableListing:
        """`base`: the key of the table, where those of the objects are relative to a place above it."""
        start = len(base) + 1 if base else 0
        found = [*objects]
        return cls([each.key[start:] for each in found], [each.size for each in found], [each.modified for each in found])


@dataclass(frozen=True)
class TableFigures:
    """How a table is, by its log and its listing. Sizes in bytes; None where it was not read or can't be known."""

    files: int | None = None
    """Live ones."""
    bytes: int | None = None
    small_files: int | None = None
    """Live files below 32 MiB."""
    vector_rows: int | None = None
    """Rows that deletion vectors take out."""
    dead_bytes: int | None = None
    """Of data files and vectors in the listing that no live file is or has."""
    unnamed_files: int | None = None
    """Data files that neither a live file nor a `remove` names."""
    alien_files: int | None = None
    """Objects that no writer of Delta makes, but for hidden ones."""
    tombstones: int | None = None
    """Files that a `remove` names, and the log still remembers."""
    writers: Mapping[str, int] | None = None
    """Commits by `engineInfo`, of those that were read. None where none was."""
    commits_since_checkpoint: int | None = None
    log_bytes: int | None = None
    log_objects: int | None = None
    oldest_version: int | None = None
    """The oldest that opens, as far as names show."""


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


def examine(location: Location, listing: TableListing, *, deep: bool = False) -> Examination:  # noqa: ARG001  # until footers are read
    """Looks at one table.

    It lists nothing unless a suspect has to be looked at again. A damage is no error: it is among the notes.

    Args:
        location: of the table.
        listing: all of its own objects, those of its log among them.
        deep: whether the footers of data files and the vectors are read, too.

    Raises:
        StorageUnavailable, StorageRefused: an object could not be read.
    """
    sizes = dict(zip(listing.keys, listing.sizes, strict=True))
    try:
        state = replay(location)
        notes = notes_on(location, sizes, lambda found: unknown_features(found.protocol))
    except (Corrupt, Unsupported) as error:
        return Examination(None, (), verdict_of((), opens=False, catalog=False), error=error.message)
    catalog = state is not None and not OF_CATALOGS.isdisjoint(features_of(state.protocol))
    return Examination(state, tuple(notes), verdict_of(notes, opens=state is not None, catalog=catalog))
