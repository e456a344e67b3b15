"""Copies a scope's table elsewhere with its history: the log up to one version, and the files that it names.

The copy has what any reader of Delta may need of it: data and change files, deletion vectors, checkpoints with their sidecars.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.replay.actions import Vector
from lakewarden.delta.replay.checkpoints import Checkpoint, read_checkpoint, sidecar_name
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_objects import LogObjects, commit_name
from lakewarden.delta.replay.paths import OutsideTable, check_inside, key_of, root_of
from lakewarden.delta.replay.vectors import vector_key
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

_FILES = "_files"

_Named = tuple[str, str, Vector | None]
"""A file's key, its path as a log has it, and its deletion vector."""


@dataclass(frozen=True)
class CopiedFile:
    """One file of an export; `path` relative to its root, `size` in bytes."""

    path: str
    size: int
    sha256: str


def copy_table(table: ScopeTable, target: ObjectStore, folder: str, reach: Reach = no_faults) -> list[CopiedFile]:
    """Copies the version that was opened, with what is left of its history. A file that is there already is not written.

    Raises:
        Conflict: a live file vanished meanwhile: others rewrote and vacuumed the table; try again.
        Corrupt: a commit of its history is garbled.
        OutsideTable: a live file, or a link in the table's directory, leads out of it. Older versions' files are left out then.
    """
    location, store = table.location, open_store(table.location)
    live = {place for file in table.files() for place in _places((file.path, *(file.logged or (file.path, None))), location)}
    log, named = _history(location, table.version)
    copied = []
    # the log last: a reader never sees files that are not there yet
    for path in [*sorted(live | named), *store.keys(_FILES), *log]:
        try:
            data = store.get(check_inside(path, path, location.uri))
        except Missing:
            if path in live:
                raise Conflict(f"{table.uri}/{path} vanished while it was copied; try again") from None
            continue  # an old version's, vacuumed
        reach("export:read")
        copied.append(put_copy(target, f"{folder}/{path}", data))
    return copied


def put_copy(target: ObjectStore, path: str, data: bytes) -> CopiedFile:
    """Writes a file unless it is there already, byte for byte."""
    file = CopiedFile(path, len(data), hashlib.sha256(data).hexdigest())
    try:
        there = target.get(path)
    except Missing:
        there = None
    if there is None or hashlib.sha256(there).hexdigest() != file.sha256:
        target.put(path, data)
    return file


def _history(location: Location, newest: int) -> tuple[list[str], set[str]]:
    """The objects of the log up to that version, and the files inside of the table that they name, but for what they remove.

    A checkpoint that can't be read is left out, as readers of ours pass it over; others would fail at it.
    """
    files = LogObjects(location).files()
    commits = [version for version in sorted(files.commits) if version <= newest]
    log, named = [*map(commit_name, commits)], set[str]()
    for version in commits:
        named |= _inside(_of_commit(location, version), location)
    for each in files.checkpoints:
        if each.version <= newest:
            with suppress(Corrupt):
                checkpoint = read_checkpoint(LogObjects(location), each)
                log += [*(sidecar_name(sidecar, location) for sidecar in checkpoint.sidecars), *each.names]
                named |= _inside(_of_checkpoint(checkpoint), location)
    return log, named


def _of_commit(location: Location, version: int) -> Iterator[_Named]:
    commit = CommitLog(open_store(location)).read(version)
    for action in () if commit is None else commit.actions:
        if action.add is not None:
            yield key_of(action.add.path, root_of(location)), action.add.path, action.add.deletion_vector
        if action.cdc is not None:
            yield key_of(action.cdc.path, root_of(location)), action.cdc.path, None


def _of_checkpoint(checkpoint: Checkpoint) -> Iterator[_Named]:
    for part in checkpoint.parts:
        yield from zip(part.column("key").to_pylist(), part.column("path").to_pylist(), vectors_of(part), strict=True)


def _inside(named: Iterator[_Named], location: Location) -> set[str]:
    found = set[str]()
    for each in named:
        with suppress(OutsideTable):
            found.update(_places(each, location))
    return found


def _places(named: _Named, location: Location) -> Iterator[str]:
    """Where the file is, and its vector if that is in a file of its own."""
    key, path, vector = named
    yield check_inside(key, path, location.uri)
    if vector is not None and (place := vector_key(vector, location)) is not None:
        yield place
