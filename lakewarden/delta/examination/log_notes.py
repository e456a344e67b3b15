"""What is wrong with a log beside the version that it leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.examination.file_notes import column_names
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.examination.newest_version import MOST_VERSIONS, LogWalk, NewestVersion
from lakewarden.delta.examination.version_checksum import VersionChecksum, differing_files
from lakewarden.delta.features import features_of
from lakewarden.delta.replay.checkpoints import read_checkpoint
from lakewarden.delta.replay.log_objects import (
    LAST_VERSION,
    LOG,
    MOST_LOG,
    LogFiles,
    LogObjects,
    Pointer,
    commit_name,
    compaction_name,
    leading_version,
    version_named,
)
from lakewarden.delta.replay.log_state import PASSED_OVER, LogState, Note, unreadable
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import ObjectStore

_MOST_COMPARED = 32 << 20
"""Bytes of the commits below a checkpoint that are read to compare it with them, but for a deep look."""

_ODD_COMMIT = re.compile(rf"{LOG}/(?!\d{{20}}\.)(\d{{1,30}})\.json")


def checkpoint_parts(listing: TableListing) -> Iterator[Note]:
    """A checkpoint of which only some parts are there, or an empty one below the one that is read. Readers pass over it."""
    files = listing.log_files
    empty = [each.version for each in files.checkpoints if not all(listing.log[name].size for name in each.names)]
    read = max((each.version for each in files.checkpoints if each.version not in empty), default=-1)
    for version in sorted(files.partial - {each.version for each in files.checkpoints}):
        yield Note(PASSED_OVER, f"parts of the checkpoint of version {version} are missing", (version,))
    for span in files.compactions:
        if not listing.log[compaction_name(*span)].size:
            yield Note("torn-commit", f"{compaction_name(*span)} is empty", span)
    for version in sorted(each for each in empty if each < read):
        yield Note(PASSED_OVER, f"the checkpoint of version {version} is empty", (version,))


def without_emptied(listing: TableListing, store: ObjectStore) -> TableListing:
    """The same without the commits that were emptied below a fence (`delta.lifecycle.fence`): a drop or an erasure of ours leaves
    their names, and they are as gone as those that a cleanup removes."""
    empty = sorted(version for version in listing.log_files.commits if not listing.log[commit_name(version)].size)
    if not empty or empty != [*range(len(empty))]:
        return listing
    with suppress(Corrupt):
        if CommitLog(store).is_fenced(len(empty)):
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
    newest checkpoint, without whose commit Delta's kernel opens no table. And those that Spark takes for a version and no other
    reader does, by the digits of their names."""
    files = listing.log_files
    for found in filter(None, map(_ODD_COMMIT.fullmatch, listing.log)):
        yield Note(
            "log-gap", f"commit {int(found[1])} has the name {found[0]}, by which most readers don't find it", (int(found[1]),)
        )
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


def of_pointer(said: Pointer | None, listing: TableListing, found: NewestVersion | None) -> Iterator[Note]:
    """It leads to a checkpoint that is not there, or nowhere, or counts other files: readers that trust it are misled.

    Args:
        found: what its files are compared with; None where something else is wrong with the table, which may be why they differ.
    """
    if said is None:
        return
    version, wrong = version_named(said), ""
    there = {len(each.names) for each in listing.log_files.checkpoints if each.version == version}
    if version is None:
        wrong = "is no JSON with a version"
    elif not there:
        wrong = f"names version {version}, which has no checkpoint"
    elif (parts := said.get("parts")) is not None and parts not in there:
        wrong = f"names {str(parts)[:20]} parts of version {version}, which has {max(there)}"
    elif found is not None and version == found.base.version and _counts_others(said, found):
        wrong = f"counts {said['numOfAddFiles']} files of version {version}, whose checkpoint has {found.base.rows}"
    if wrong:
        yield Note("last-checkpoint-wrong", f"_last_checkpoint {wrong}", () if version is None else (version,))


def _counts_others(said: Pointer, found: NewestVersion) -> bool:
    files = said.get("numOfAddFiles")
    return type(files) is int and files != found.base.rows


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
    if (checksum is not None and checksum.differs(found.state)) or _is_touched(listing, start.version):
        return True
    if pointer is None or pointer.get("version") != start.version:
        return False
    # of a checkpoint with sidecars it is the sum, and a classic one may stand beside those
    size = pointer.get("sizeInBytes") if start.kind != "UUID-named" and "v2Checkpoint" not in pointer else None
    there = sum(listing.log[name].size for name in start.names)
    return _counts_others(pointer, found) or (type(size) is int and size != there)


def _is_touched(listing: TableListing, version: int) -> bool:
    """Whether the youngest of all objects are commits that the checkpoint of that version replaces, which no writer touches."""
    latest, replaced = max(listing.modified), {commit_name(each) for each in listing.log_files.commits if each <= version}
    return all(key in replaced for key, modified in zip(listing.keys, listing.modified, strict=True) if modified == latest)


def contradiction(log: LogObjects, found: NewestVersion, listing: TableListing, *, deep: bool) -> Iterator[Note]:
    """The checkpoint says something else than the commits that it replaces, from the first or from an older checkpoint on; and
    what is wrong with these."""
    start = found.state.checkpoint if found.state is not None else None
    below = None if start is None else _below(listing, start.version, MOST_LOG if deep else _MOST_COMPARED)
    if start is None or below is None:
        return
    before = LogWalk(log, below).newest()
    found.trail.older.append(before.trail.removed)
    found.writers.update(before.writers)
    # what is missing now, a cleanup has removed meanwhile
    yield from (note for note in (*before.notes, *before.trail.notes()) if note.kind != "log-gap")
    if before.state is None and not before.notes:
        yield Note("checkpoint-contradicts", f"commits to {start.version} make no version: {before.error}", (start.version,))
    if before.state is None or before.state.version < start.version:
        return
    differing = differing_files(found.base.files, before.state)
    if what := f"{len(differing)} live files: {differing[0]}" if differing else _other_head(found, before.state):
        said = f"the checkpoint of version {start.version} and its commits differ in {what}"
        yield Note("checkpoint-contradicts", said, (start.version,))


def of_features(state: LogState) -> Iterator[Note]:
    """What a feature in use requires of each action and one lacks: Spark then writes no more, or reads no row ids."""
    newest, metadata = state.newest, state.metadata
    dated = metadata.says("delta.enableInCommitTimestamps") and "inCommitTimestamp" in features_of(state.protocol)
    if dated and newest is not None and newest.digest and "inCommitTimestamp" not in newest.info:
        yield Note("torn-commit", f"commit {newest.version} has no inCommitTimestamp", (newest.version,))
    if metadata.says("delta.enableRowTracking") and (count := state.files.column("baseRowId").null_count):
        yield Note("torn-commit", f"{count} live files have no baseRowId, by which rows are tracked")


def older_checkpoints(log: LogObjects, listing: TableListing, found: NewestVersion, *, deep: bool) -> Iterator[Note]:
    """Those below the one that is read which can't be read: Spark passes over them, while commits replace them. Not those with
    sidecars, which a cleanup may remove first."""
    there = listing.log_files.checkpoints if found.state is not None and found.state.checkpoint is not None else ()
    older = [each for each in there if each.version < found.base.version and each.kind != "UUID-named"]
    if sum(listing.log[name].size for each in older for name in each.names) > (MOST_LOG if deep else _MOST_COMPARED):
        return
    for each in older:
        try:
            with suppress(Unsupported):
                read_checkpoint(log, each)
        except Corrupt as error:
            yield unreadable(each, error)


def _below(listing: TableListing, version: int, most: int) -> LogFiles | None:
    """What leads to that version but for its checkpoint; None where something of it is gone, or it has more than `most` bytes."""
    files, first = listing.log_files, version + 1
    while first - 1 in files.commits:
        first -= 1
    starts = [each for each in files.checkpoints if first - 1 <= each.version < version] if first else []
    if first > version or (first and not starts):
        return None
    below = LogFiles(frozenset(range(first, version + 1)), tuple(starts[-1:]))
    names = [*map(commit_name, below.commits), *(name for each in below.checkpoints for name in each.names)]
    return below if sum(listing.log[name].size for name in names) <= most else None


def _other_head(found: NewestVersion, commits: LogState) -> str:
    """In what, beside files, a checkpoint differs from its commits. Schemas are not compared: writers spell them anew."""
    metadata, protocol = found.base.metadata, found.base.protocol
    if metadata is None or protocol is None:
        return ""
    pairs: dict[str, tuple[object, object]] = {
        "the partition columns": (metadata.partition_columns, commits.metadata.partition_columns),
        "the table's features": (features_of(protocol), features_of(commits.protocol)),
        "the domains": (found.base.domains, commits.domains),
    }
    if metadata.id == commits.metadata.id:  # else a tool wrote the checkpoint of a table that it made anew
        pairs["the columns"] = column_names(metadata), column_names(commits.metadata)
        pairs["the table's properties"] = metadata.configuration, commits.metadata.configuration
    return next((what for what, (mine, theirs) in pairs.items() if mine != theirs), "")
