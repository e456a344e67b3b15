"""Reads the checksum of a version, `N.crc`: what its writer said of the version in one object, all of its files among it.

Source: Delta's protocol, "Version Checksum File". Spark's Delta writes one behind each commit since its version 4, with the files
of tables that have few. It saves a survey the checkpoint and the commits behind it, and where these are read, it is a witness of
what they had. It is not the log:

- it may be missing, or without files (larger tables, some features);
- it may be of a commit that was overwritten, since no writer replaces a checksum. The listing shows that where the commit is
  younger than its checksum;
- a log that was damaged later shows in the listing where what was touched is younger than the checksum. In a table that was
  copied all times are those of the copy: there the checksum is believed;
- what only commits say is not in it: who wrote them, what they removed, actions that are not known.

So it is for a survey alone. Nothing is ever deleted, committed or opened by it, no table of our own is read by it, and a look
that is asked to read files (`deep`) reads the log instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from lakewarden.delta.examination.figures import vector_rows
from lakewarden.delta.examination.file_notes import partition_columns
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.features import features_of
from lakewarden.delta.replay.actions import AddFile, DomainMetadata, Metadata, Protocol, Transaction
from lakewarden.delta.replay.checkpoints import Checkpoint
from lakewarden.delta.replay.live_files import of_adds, pc, whole
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LOG, SIDECARS, LogObjects, commit_name, version_of
from lakewarden.delta.replay.log_state import LogState, Reconciliation
from lakewarden.delta.replay.paths import root_of
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing

_MOST = 16 << 20
"""Bytes of one: Spark writes files into those of tables with at most 50."""

_CHECKSUM_FOLLOWS = timedelta(seconds=15)
"""How long after its commit a checksum may be written. One that is younger may have been overwritten."""

_CHECKPOINT_FOLLOWS = timedelta(seconds=15)
"""How long after a version's checksum its checkpoint may be finished: it has 50 files at most, else the checksum names none. What
damages it as soon as that is not seen."""


_SIDECAR = re.compile(rf"{SIDECARS}/(\d{{20}})\.checkpoint\.(\d{{10}})\.(\d{{10}})\.")
"""As Spark names the parts of a checkpoint; other writers don't count them."""


class _Checksum(msgspec.Struct, frozen=True, rename="camel"):
    num_files: int
    table_size_bytes: int
    num_deleted_records_opt: int | None = None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    all_files: tuple[AddFile, ...] | None = None
    set_transactions: tuple[Transaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None

    @property
    def domains(self) -> dict[str, str | None] | None:
        said = self.domain_metadata
        return None if said is None else {each.domain: each.configuration for each in said if not each.removed}


_decode = msgspec.json.Decoder(_Checksum).decode


@dataclass(frozen=True)
class VersionChecksum:
    """What a checksum says of the newest version."""

    _said: _Checksum | None
    """None where it is garbled: it proves nothing then, and readers pass over it."""
    state: LogState | None = None
    """What it names; None where it does not stand for the log."""
    is_doubtful: bool = False
    """Whether something of the log is younger, or a checkpoint that Spark should have written is not there."""

    @property
    def files(self) -> int:
        return self._said.num_files if self._said else 0

    @property
    def has_head(self) -> bool:
        """Whether it says what protocol and metadata its version has."""
        return self._said is not None and None not in (self._said.protocol, self._said.metadata)

    def differs(self, state: LogState) -> str:
        """In what it differs from that version by the log; empty where it does not."""
        said = self._said
        if said is None:
            return ""
        size = pc.sum(whole(state.files, "size")).as_py() or 0
        pairs: dict[str, tuple[object, object]] = {
            "files": (state.files.num_rows, said.num_files),
            "bytes": (size, said.table_size_bytes),
            "rows that vectors delete": (vector_rows(state.files), said.num_deleted_records_opt),
            "features": (features_of(state.protocol), said.protocol and features_of(said.protocol)),
            "metadata": (state.metadata, said.metadata),
            "domains": (state.domains, said.domains),
        }
        found = next((f"{mine} {what}, not {theirs}" for what, (mine, theirs) in pairs.items() if theirs not in (None, mine)), "")
        added = None if found or said.all_files is None else of_adds(said.all_files, root_of(state.location))
        others = [] if added is None else differing_files(added, state)
        return f"live files, one of them {others[0]}, not such" if others else found


def differing_files(one: pa.Table, other: LogState) -> list[str]:
    """Keys of the files that only one of them has, or has so."""
    names = partition_columns(other.metadata)
    left, right = _identities(one, names), _identities(other.files, names)
    found: list[str] = []
    for mine, theirs, files in ((left, right, one), (right, left, other.files)):
        alone = pc.invert(pc.is_in(mine, value_set=theirs))
        found += whole(files, "key").filter(alone).to_pylist()
    return sorted({*found})


def _identities(files: pa.Table, names: Iterable[str]) -> Any:
    """One text a file, of its path, its vector, its size and its partition: writers copy all of them."""
    values = (pc.map_lookup(whole(files, "partitionValues"), query_key=name, occurrence="first") for name in names)
    texts = whole(files, "key"), whole(files, "vectorId"), whole(files, "size").cast(pa.string()), *values
    return pc.binary_join_element_wise(*texts, "\0", null_handling="replace", null_replacement="")


def read_checksum(log: LogObjects, listing: TableListing, *, alone: bool) -> VersionChecksum | None:
    """That of the newest version, in one request. None where it is missing, or cannot stand for the log.

    Args:
        alone: whether it may stand for the log.
    """
    version = listing.log_files.newest
    name = "" if version is None else f"{LOG}/{version:020d}.crc"
    if version is None or name not in listing.log or not listing.log[name].size or not _is_whole(listing, version):
        return None
    late = _later(listing, name, version)
    try:
        said = _decode(log.read(name, _MOST))
    except (Missing, Unsupported, Corrupt, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return VersionChecksum(None)
    lacks = _lacks_checkpoint(said.metadata, listing, version)
    if said.all_files is None:
        return VersionChecksum(said, is_doubtful=lacks or late is not None)
    if (said.num_files, said.table_size_bytes) != (len(said.all_files), sum(each.size or 0 for each in said.all_files)):
        return VersionChecksum(None)  # it contradicts itself
    state = _state(said, log, listing, version) if alone else None
    stands = not _is_touched(listing, name, version)
    if late is not None:
        stands = state is not None and _is_copy(state, listing, late)
    return VersionChecksum(said, state if stands else None, lacks or not stands)


def _is_whole(listing: TableListing, version: int) -> bool:
    """Whether the log has what leads to its newest version, and nothing that is empty, as far as names and sizes show."""
    files = listing.log_files
    start = max((each.version for each in files.checkpoints), default=-1)
    commits = range(start + 1, version + 1)
    if version not in files.commits or any(each not in files.commits for each in commits):
        return False
    sidecars = {name for name in listing.log if name.startswith(f"{SIDECARS}/")}
    parts = {found.groups() for found in map(_SIDECAR.match, sidecars) if found and int(found[1]) == start}
    if any(len({number for _, number, of in parts if of == count}) < int(count) for _, _, count in parts):
        return False
    pointed = {LAST_CHECKPOINT} & listing.log.keys()
    with_sidecars = sum(each.kind == "UUID-named" for each in files.checkpoints)
    if (pointed and not files.checkpoints) or len(sidecars) < with_sidecars:
        return False
    own = {name for name in listing.log if version_of(name) is not None}
    return all(listing.log[name].size for name in own | sidecars | pointed)


def _lacks_checkpoint(metadata: Metadata | None, listing: TableListing, version: int) -> bool:
    """Whether the newest checkpoint that Spark would have written is missing. Other writers write fewer, or others."""
    said = "" if metadata is None else metadata.property("delta.checkpointInterval")[:9]
    every = (int(said) if said.isdecimal() else 0) or 10  # as Delta has it where a table says nothing
    return max((each.version for each in listing.log_files.checkpoints), default=version) < version - version % every


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


def _is_touched(listing: TableListing, name: str, version: int) -> bool:
    """Whether the checksum is the youngest object of the table, and was not written right behind its commit. In a table that was
    copied, others are younger."""
    written, commit = listing.log[name].modified, listing.log[commit_name(version)].modified
    return max(listing.modified) == written and (
        written > commit + _CHECKSUM_FOLLOWS or any(commit < each < written for each in listing.modified)
    )


def _state(said: _Checksum, log: LogObjects, listing: TableListing, version: int) -> LogState | None:
    files, known = listing.log_files, {each.app_id: each.version for each in said.set_transactions or ()}
    added = of_adds(said.all_files or (), root_of(log.location))
    base = Checkpoint(version, said.protocol, said.metadata, known, said.domains or {}, [added])
    with suppress(Corrupt):
        return Reconciliation(base, log.location).state(version, files, files.checkpoints[0] if files.checkpoints else None, ())
    return None


def _is_copy(state: LogState, listing: TableListing, late: datetime) -> bool:
    """Whether the times of a listing are those of a copy: a live file is younger than all of the log, and so than the commit that
    named it, which no writer's is."""
    live = {*state.files.column("key").to_pylist()}
    written = (modified for key, modified in zip(listing.keys, listing.modified, strict=True) if key in live)
    return max(written, default=late) > late
