"""Reads the checksum of a version, `N.crc`: what its writer said of the version in one object, all of its files among it.

Source: Delta's protocol, "Version Checksum File". Spark's Delta writes one behind each commit since its version 4, with the files
of tables that have few. It saves a survey the checkpoint and the commits behind it, and is a witness, not the log:

- it may be missing, or without files (larger tables, some features);
- it may be of a commit that was overwritten. The listing shows that where the commit is younger than its checksum;
- a log that was damaged later shows in the listing where what was touched is younger than the checksum. In a table that was
  copied all times are those of the copy: there the checksum is believed;
- what only commits say is not in it: who wrote them, what they removed, actions that are not known.

So it is for a survey alone. Nothing is ever deleted, committed or opened by it, no table of our own is read by it, and a look
that is asked to read files (`deep`) reads the log instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.replay.actions import AddFile, DomainMetadata, Metadata, Protocol, Transaction
from lakewarden.delta.replay.live_files import of_adds, pc, whole
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LOG, SIDECARS, LogObjects, version_of
from lakewarden.delta.replay.log_state import LogState
from lakewarden.delta.replay.paths import root_of
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing

_MOST = 16 << 20
"""Bytes of one: Spark writes files into those of tables with at most 50."""

_CHECKPOINT_FOLLOWS = timedelta(seconds=15)
"""How long after a version's checksum its checkpoint may be finished: it has 50 files at most, else the checksum names none. What
damages it as soon as that is not seen."""


class _Checksum(msgspec.Struct, frozen=True, rename="camel"):
    protocol: Protocol
    metadata: Metadata
    num_files: int
    table_size_bytes: int
    all_files: tuple[AddFile, ...] | None = None
    set_transactions: tuple[Transaction, ...] = ()
    domain_metadata: tuple[DomainMetadata, ...] = ()


_decode = msgspec.json.Decoder(_Checksum).decode


@dataclass(frozen=True)
class VersionChecksum:
    """What a checksum says of the newest version."""

    figures: tuple[int, int] | None
    """How many files and bytes; None where it is garbled."""
    state: LogState | None = None
    """None where it does not name the files."""

    def fits(self, state: LogState) -> bool:
        """Whether that state of the version has as many files and bytes."""
        return self.figures in (None, (state.files.num_rows, pc.sum(whole(state.files, "size")).as_py() or 0))


def read_checksum(log: LogObjects, listing: TableListing) -> VersionChecksum | None:
    """That of the newest version, in one request. None where there is none that can stand for the log."""
    version = listing.log_files.newest
    name = "" if version is None else f"{LOG}/{version:020d}.crc"
    if version is None or name not in listing.log or not listing.log[name].size or not _is_whole(listing, version):
        return None
    late = _later(listing, name, version)
    times = zip(listing.keys, listing.modified, strict=True)
    if late is not None and all(modified <= late for key, modified in times if key not in listing.log):
        return None  # by no file can its times be those of a copy
    try:
        found = _read(log, name, listing, version)
    except (Missing, Unsupported, Corrupt, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return VersionChecksum(None)
    if found.state is None or late is None or _is_copy(found.state, listing, late):
        return found
    return None


def _is_whole(listing: TableListing, version: int) -> bool:
    """Whether the log has what leads to its newest version, and nothing that is empty, as far as names and sizes show."""
    files = listing.log_files
    start = max((each.version for each in files.checkpoints), default=-1)
    commits = range(start + 1, version + 1)
    if version not in files.commits or any(each not in files.commits for each in commits):
        return False
    sidecars = {name for name in listing.log if name.startswith(f"{SIDECARS}/")}
    pointed = {LAST_CHECKPOINT} & listing.log.keys()
    if (pointed and not files.checkpoints) or (not sidecars and any(each.kind == "UUID-named" for each in files.checkpoints)):
        return False
    own = {name for name in listing.log if version_of(name) is not None}
    return all(listing.log[name].size for name in own | sidecars | pointed)


def _later(listing: TableListing, name: str, version: int) -> datetime | None:
    """When the youngest object of the log was written that should be older than the checksum and is not."""
    written = listing.log[name].modified
    own = {part for each in listing.log_files.checkpoints if each.version == version for part in each.names}
    own |= {LAST_CHECKPOINT} if own else set()  # no writer touches the pointer but with a checkpoint
    late = [
        found.modified
        for key, found in listing.log.items()
        if found.modified > written + (_CHECKPOINT_FOLLOWS if key in own else timedelta()) and not key.endswith(".crc")
    ]
    return max(late, default=None)


def _read(log: LogObjects, name: str, listing: TableListing, version: int) -> VersionChecksum:
    found = _decode(log.read(name, _MOST))
    figures = found.num_files, found.table_size_bytes
    if found.all_files is None:
        return VersionChecksum(figures)
    size = sum(each.size or 0 for each in found.all_files)
    if figures != (len(found.all_files), size):  # it contradicts itself
        return VersionChecksum(None)
    location, files = log.location, listing.log_files
    state = LogState(
        location,
        version,
        found.protocol,
        found.metadata,
        of_adds(found.all_files, root_of(location)),
        {each.app_id: each.version for each in found.set_transactions},
        {each.domain: each.configuration for each in found.domain_metadata if not each.removed},
        files,
        None,
        files.checkpoints[0] if files.checkpoints else None,
    )
    return VersionChecksum(figures, state)


def _is_copy(state: LogState, listing: TableListing, late: datetime) -> bool:
    """Whether the times of a listing are those of a copy: a live file is younger than all of the log, and so than the commit that
    named it, which no writer's is."""
    live = {*state.files.column("key").to_pylist()}
    written = (modified for key, modified in zip(listing.keys, listing.modified, strict=True) if key in live)
    return max(written, default=late) > late
