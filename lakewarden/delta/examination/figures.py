"""How a table is: its figures by its log and a listing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakewarden.delta.examination.listing import ListedFiles, TableListing
from lakewarden.delta.examination.newest_version import NewestVersion
from lakewarden.delta.replay.live_files import pc, whole
from lakewarden.delta.replay.log_state import PASSED_OVER, LogState, Note

SMALL = 32 << 20
"""Bytes below which a data file is small: a quarter of what engines aim at."""


@dataclass(frozen=True, kw_only=True)
class TableFigures:
    """How a table is, by its log and its listing. Sizes in bytes; None where it was not read or can't be known."""

    files: int | None = None
    """Live ones."""
    bytes: int | None = None
    small_files: int | None = None
    """Live files of less than `SMALL` bytes."""
    vector_rows: int | None = None
    """Rows that deletion vectors take out."""
    dead_bytes: int | None = None
    """Of listed data files that no live file is."""
    unnamed_files: int | None = None
    """Listed data files that neither a live file nor a `remove` names, in what was read of the log."""
    alien_files: int | None = None
    """Listed objects that no writer of Delta makes, but for hidden ones."""
    tombstones: int | None = None
    """Files that were removed, and that the log still remembers."""
    writers: Mapping[str, int] = field(default_factory=dict)
    """How many of the commits that were read each `engineInfo` made."""
    commits_since_checkpoint: int | None = None
    log_bytes: int | None = None
    log_objects: int | None = None
    oldest_version: int | None = None
    """The oldest that opens, by the names in the log."""


def figures_of(
    state: LogState | None, found: NewestVersion | None, listing: TableListing, notes: tuple[Note, ...]
) -> TableFigures:
    """Args:
    state: the newest version that opens.
    found: what its log has; None where the version's checksum alone was read.
    """
    log_bytes = sum(each.size for each in listing.log.values())
    unread = {version for note in notes if note.kind in (PASSED_OVER, "torn-commit") for version in note.versions}
    unread -= set() if state is None else {state.version}  # which opens, even if its checksum differs
    starts = {*(each.version for each in listing.log_files.checkpoints), *({0} & listing.log_files.commits)} - unread
    oldest = min(starts, default=None)
    listed = TableFigures(
        alien_files=listing.files.alien, log_bytes=log_bytes, log_objects=len(listing.log), oldest_version=oldest
    )
    if state is None:
        return listed
    sizes = whole(state.files, "size")
    dead, dead_bytes = _dead(state, listing.files)
    return replace(
        listed,
        files=state.files.num_rows,
        bytes=pc.sum(sizes).as_py() or 0,
        small_files=len(sizes) - pc.greater_equal(sizes, SMALL).true_count,
        vector_rows=vector_rows(state.files),
        dead_bytes=dead_bytes,
        unnamed_files=_unnamed(dead, found),
        tombstones=None if found is None else found.trail.tombstones,
        writers={} if found is None else dict(found.writers),
        commits_since_checkpoint=state.version - (-1 if state.checkpoint is None else state.checkpoint.version),
    )


def vector_rows(files: pa.Table) -> int:
    column = whole(files, "deletionVector")
    if column.null_count == len(column):
        return 0
    return pc.sum(column.drop_null().field("cardinality")).as_py() or 0


def _dead(state: LogState, listed: ListedFiles) -> tuple[Any, int]:
    """Keys of the data files in the listing that no live file is, and their bytes."""
    keys, paths = whole(state.files, "key"), whole(state.files, "path")
    live = pc.is_in(listed.keys, value_set=keys)
    if not paths.equals(keys):  # what a writer stored without escaping its name
        live = pc.or_(live, pc.is_in(listed.keys, value_set=paths))
    dead = pc.and_not(listed.is_data, live)
    return listed.keys.filter(dead), pc.sum(listed.sizes.filter(dead)).as_py() or 0


def _unnamed(dead: Any, found: NewestVersion | None) -> int | None:
    if not len(dead):
        return 0
    if found is None:
        return None  # whether a commit removed them, a checksum does not say
    return len(dead) - int(pc.is_in(dead, value_set=found.trail.removed).true_count)
