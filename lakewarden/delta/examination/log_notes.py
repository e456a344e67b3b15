"""What is wrong with a log beside the version that it leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.examination.file_notes import stored_names
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.examination.newest_version import MOST_VERSIONS, NewestVersion, by_commits
from lakewarden.delta.examination.version_checksum import VersionChecksum
from lakewarden.delta.features import features_of
from lakewarden.delta.replay.actions import read_commit
from lakewarden.delta.replay.live_files import pc, whole
from lakewarden.delta.replay.log_objects import (
    LAST_CHECKPOINT,
    LAST_VERSION,
    MOST_COMMIT,
    LogFiles,
    LogObjects,
    commit_name,
    leading_version,
)
from lakewarden.delta.replay.log_state import PASSED_OVER, LogState, Note
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing, ObjectStore

_MOST_COMPARED = 32 << 20
"""Bytes of the commits below a checkpoint that are read to compare it with them, but for a deep look."""

_MOST_HINT = 1 << 20
"""Bytes of `_last_checkpoint`; some writers put the schema of the checkpoint into it."""


def checkpoint_parts(files: LogFiles) -> Iterator[Note]:
    """A checkpoint of which only some parts are there. Readers pass over it."""
    whole = {each.version for each in files.checkpoints}
    for version in sorted(files.partial - whole):
        yield Note(PASSED_OVER, f"parts of the checkpoint of version {version} are missing", (version,))


def without_emptied(location: Location, listing: TableListing, store: ObjectStore) -> TableListing:
    """The same without the commits that were emptied below a fence (`delta.lifecycle.fence`): a drop or an erasure of ours leaves
    their names, and they are as gone as those that a cleanup removes."""
    empty = sorted(version for version in listing.log_files.commits if not listing.log[commit_name(version)].size)
    if not empty or empty != [*range(len(empty))]:
        return listing
    with suppress(Missing, Corrupt):
        above = len(empty)
        stamp = CommitStamp.of(read_commit(above, LogObjects(location, store).read(commit_name(above), MOST_COMMIT)))
        if stamp is not None and stamp.fences:
            gone = {commit_name(version) for version in empty}
            every = zip(listing.keys, listing.sizes, listing.modified, strict=True)
            keys, sizes, modified = zip(*(line for line in every if line[0] not in gone), strict=True)
            return TableListing([*keys], [*sizes], [*modified])
    return listing


def below_checkpoint(listing: TableListing) -> Iterator[Note]:
    """Versions that can't be read any more, between others that can. Normal where commits are missing: old ones go, by some
    unevenly. An empty one is not: few looks read it."""
    files = listing.log_files
    newest = max((each.version for each in files.checkpoints), default=-1)
    below = sorted(version for version in files.commits if version <= newest)
    if empty := tuple(version for version in below if not listing.log[commit_name(version)].size):
        detail = f"commit {empty[0]} is empty; versions from it to {newest - 1} can't be read"
        yield Note("torn-commit", detail, empty[:MOST_VERSIONS])
    gaps = tuple(one + 1 for one, other in pairwise([*below, newest]) if other > one + 1)
    if gaps:
        detail = f"commits are missing from version {gaps[0]} on; only versions between them can't be read"
        yield Note("history-gap", detail, gaps[:MOST_VERSIONS], damaging=False)


def lost_commits(listing: TableListing) -> Iterator[Note]:
    """Commits of which only what is written behind them is left: a checksum or a compaction above the newest version, or the
    newest checkpoint, without whose commit Delta's kernel opens no table."""
    files = listing.log_files
    if files.newest is None or files.staged:  # a catalog publishes commits later than it has them
        return
    checksums = [leading_version(name) or 0 for name in listing.log if name.endswith(".crc")]
    lost = max([*checksums, *(last for _, last in files.compactions)], default=0)
    if files.newest < lost <= LAST_VERSION:
        detail = f"commit {lost} is missing: its checksum or a compaction is there, and {files.newest} is the newest"
        yield Note("log-gap", detail, (lost,))
    start = max((each.version for each in files.checkpoints), default=files.newest)
    if start not in files.commits:
        yield Note("log-gap", f"commit {start} is missing: there is the checkpoint of its version", (start,))


Pointer = Mapping[str, object]
"""What `_last_checkpoint` says. Source: Delta's protocol, "Last Checkpoint File"."""


def read_pointer(log: LogObjects, listing: TableListing) -> Pointer | None:
    """None where it is not there; empty where it is no JSON object."""
    if LAST_CHECKPOINT not in listing.log:
        return None
    try:
        said = msgspec.json.decode(log.read(LAST_CHECKPOINT, _MOST_HINT))
    except Missing:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Unsupported):
        return {}
    return said if isinstance(said, dict) else {}


def of_pointer(said: Pointer, listing: TableListing) -> Iterator[Note]:
    """It leads to a checkpoint that is not there, or nowhere: readers that trust it are misled."""
    version = said.get("version")
    if type(version) is not int:
        yield Note("last-checkpoint-wrong", "_last_checkpoint is no JSON with a version")
        return
    there = [each for each in listing.log_files.checkpoints if each.version == version]
    if not there:
        yield Note("last-checkpoint-wrong", f"_last_checkpoint names version {version}, which has no checkpoint", (version,))
    elif (parts := said.get("parts")) is not None and parts not in {len(each.names) for each in there}:
        detail = f"_last_checkpoint names {str(parts)[:20]} parts of version {version}, which has {len(there[0].names)}"
        yield Note("last-checkpoint-wrong", detail, (version,))


def of_checksum(checksum: VersionChecksum, state: LogState, listing: TableListing) -> Iterator[Note]:
    """The log has other figures than its writer noted behind the commit: a line of a commit is lost, or a commit was overwritten,
    whose checksum stays ("Version Checksum File"). One that counts more files than there are came from another table."""
    is_own = checksum.files <= listing.files.is_data.true_count
    if is_own and state.version == listing.log_files.newest and (what := checksum.differs(state)):
        detail = f"version {state.version} has {what[:200]} as its checksum says: a commit lost a line, or another replaced it"
        yield Note("torn-commit", detail, (state.version,))


def is_doubtful(found: NewestVersion, listing: TableListing, pointer: Pointer | None, checksum: VersionChecksum | None) -> bool:
    """Whether what was read of the log anyway has other figures than the checkpoint. That proves nothing, since two writers may
    write the checkpoint of one version; but then the commits that it replaces are worth their requests."""
    if found.state is None or (start := found.state.checkpoint) is None:
        return False
    if checksum is not None and checksum.differs(found.state):
        return True
    if pointer is None or pointer.get("version") != start.version:
        return False
    files, size = pointer.get("numOfAddFiles"), pointer.get("sizeInBytes")
    if type(files) is int and files != found.base.rows:
        return True
    # of a checkpoint with sidecars or parts it is the sum, and a classic one may stand beside those
    is_one = start.kind == "classic" and pointer.keys().isdisjoint({"parts", "v2Checkpoint"})
    return type(size) is int and is_one and size != listing.log[start.names[0]].size


def contradiction(log: LogObjects, found: NewestVersion, listing: TableListing, *, deep: bool) -> Iterator[Note]:
    """The checkpoint says something else than the commits that it replaces, where all of them are there."""
    start = found.state.checkpoint if found.state is not None else None
    if start is None:
        return
    names = [commit_name(version) for version in range(start.version + 1)]
    if not all(name in listing.log for name in names):
        return
    if not deep and sum(listing.log[name].size for name in names) > _MOST_COMPARED:
        return
    commits = by_commits(log, found, start.version)
    if commits is None:
        return
    if isinstance(commits, Note):
        yield commits
        return
    differing = _differing(found.base.files, commits)
    if what := f"{len(differing)} live files: {differing[0]}" if differing else _other_head(found, commits):
        said = f"the checkpoint of version {start.version} and its commits differ in {what}"
        yield Note("checkpoint-contradicts", said, (start.version,))


def _differing(one: pa.Table, other: LogState) -> list[str]:
    """Keys of the files that only one of them has, or has so."""
    names = stored_names(other.metadata)
    left, right = _identities(one, names), _identities(other.files, names)
    found: list[str] = []
    for mine, theirs, files in ((left, right, one), (right, left, other.files)):
        alone = pc.invert(pc.is_in(mine, value_set=theirs))
        found += whole(files, "key").filter(alone).to_pylist()
    return sorted({*found})


def _identities(files: pa.Table, names: Sequence[str]) -> Any:
    """One text a file, of its path, its vector, its size and its partition: writers copy all of them."""
    values = (pc.map_lookup(whole(files, "partitionValues"), query_key=name, occurrence="first") for name in names)
    texts = whole(files, "key"), whole(files, "vectorId"), whole(files, "size").cast(pa.string()), *values
    return pc.binary_join_element_wise(*texts, "\0", null_handling="replace", null_replacement="")


def _other_head(found: NewestVersion, commits: LogState) -> str:
    """In what, beside files, a checkpoint differs from its commits. Schemas are not compared: writers spell them anew."""
    metadata, protocol = found.base.metadata, found.base.protocol
    if metadata is None or protocol is None:
        return ""
    if metadata.partition_columns != commits.metadata.partition_columns:
        return "the partition columns"
    return "" if features_of(protocol) == features_of(commits.protocol) else "the table's features"
