"""Copies a scope's table elsewhere: with its history, for an export, or byte for byte, for a move.

An export takes the log up to one version, and the files that it names: all that any reader of Delta may need of it, data and
change files, deletion vectors, checkpoints with their sidecars. A move takes the directory, and checks the copy. There nothing is
ever written over and nothing that others made is deleted at the target: a copier that slept, and wakes when the scope lives
there already, does no harm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.quantities import portions
from lakewarden.base.threads import at_once
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.committing import Committer, TooLate, check_held
from lakewarden.delta.commit_log.kept_versions import NAME as MANIFEST
from lakewarden.delta.parquet.files import CHANGE_FOLDER
from lakewarden.delta.replay.actions import Vector
from lakewarden.delta.replay.checkpoints import Checkpoint, read_checkpoint, sidecar_name
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LOG, LogObjects, commit_name
from lakewarden.delta.replay.paths import OutsideTable, check_inside, key_of, root_of
from lakewarden.delta.replay.vectors import vector_key
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, InUse
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject
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
        if (data := _read(store, path, live)) is not None:
            reach("export:read")
            copied.append(put_copy(target, f"{folder}/{path}", data))
    return copied


def _read(store: ObjectStore, name: str, live: Collection[str]) -> bytes | None:
    """A file of the table; None of an older version's that a vacuum took. Raises `Conflict` where one of those that are `live` is
    gone, and `OutsideTable` at a link that leads out of the table."""
    try:
        return store.get(check_inside(name, name, store.uri))
    except Missing:
        if name in live:
            raise Conflict(f"{store.uri}/{name} vanished while it was copied; try again") from None
        return None


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


# A move: all that is there, byte for byte.

_VERSION = re.compile(r"(?<!\d)\d{20}(?!\d)")
_DERIVED = frozenset({MANIFEST, LAST_CHECKPOINT})
"""Made anew at the target: the one at once, the other with the next checkpoint."""

_IN_HAND = 256 << 20
"""Bytes of files that are held in memory at once, if it is not a single one that is larger."""

_PART = 32 << 20
"""Bytes that are read back at once."""


@dataclass(frozen=True)
class CopiedFiles:
    """Files that lie at the target, read back and compared; `bytes` of them."""

    files: tuple[str, ...] = ()
    bytes: int = 0


def copy_data(source: Location, target: Location, by: Committer, reach: Reach = no_faults) -> CopiedFiles:
    """Copies the data files that are there now, whatever version needs them: they never change. One that vanishes is left.

    Raises:
        Conflict: others have ended the move meanwhile (`TooLate`).
        InUse: something else is at the target.
    """
    found = [found for found in open_store(source).list("") if found.key.endswith(".parquet") and not _hidden(found.key)]
    with _Copier(source, target, by, reach) as copier:
        return copier.copy(found)


def copy_frozen(
    source: ScopeTarget, target: Location, version: int, done: Collection[str], by: Committer, reach: Reach = no_faults
) -> CopiedFiles:
    """Copies all that a frozen scope has, with its log up to `version`, but for what is `done` already.

    Raises:
        Corrupt: a file that this version needs is not there.
        Conflict: it vanished while it was copied; or others have ended the move meanwhile (`TooLate`).
        InUse: something else is at the target.
    """
    table = open_scope(source, version)
    if table is None:
        raise Corrupt(f"{source.uri}: version {version} was frozen and is not there any more")
    listing = open_store(source.location).list("")
    live = frozenset(path for path in (file.path for file in table.files()) if "://" not in path)
    if lost := live.difference(found.key for found in listing):
        raise Corrupt(f"{source.uri}: {len(lost)} files of version {version} are not there, as {min(lost)}; nothing is moved")
    wanted = [found for found in listing if _belongs(found.key, version) and found.key not in done]
    log = [found for found in wanted if found.key.startswith(f"{LOG}/")]
    with _Copier(source.location, target, by, reach, version, live) as copier:
        data = copier.copy([found for found in wanted if found not in log])
        last = copier.copy(log)  # it never names what is not there yet
    check_arrived(table, target)
    return CopiedFiles(data.files + last.files, data.bytes + last.bytes)


def check_arrived(table: ScopeTable, target: Location) -> None:
    """Raises Corrupt: the data at the target is not this version of the table."""
    arrived = ScopeTable.open(target)
    if arrived is None or (arrived.version, arrived.files()) != (table.version, table.files()):
        found = "no table" if arrived is None else f"version {arrived.version} with {len(arrived.files())} files"
        raise Corrupt(
            f"{target} shows {found}, and {table.uri} version {table.version} with {len(table.files())}; nothing is moved"
        )


def _belongs(name: str, version: int) -> bool:
    last = name.rpartition("/")[2]
    if name in _DERIVED or last.startswith("."):  # Hadoop's checksums, and what a crash left
        return False
    return not name.startswith(f"{LOG}/") or all(int(found) <= version for found in _VERSION.findall(last))


def _hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.removeprefix(f"{CHANGE_FOLDER}/").split("/"))


@dataclass
class _Copier:
    """Copies files of one scope, some at once. At its end it looks whether the move has gone on without it."""

    _source: Location
    _target: Location
    _by: Committer
    _reach: Reach
    _version: int = -1
    """The last that is copied, -1 as long as none is."""
    _live: frozenset[str] = frozenset()
    """The files of that version, which must not be missing."""
    _made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._from, self._to = open_store(self._source), open_store(self._target)

    def __enter__(self) -> _Copier:
        return self

    def __exit__(self, *_: object) -> None:
        """Others may have ended the move while this slept, and have emptied the place since: what came too late goes again.

        A place that is moved to has no fence but one that came along, so no reader needs what was made beside another.
        """
        if not self._made:
            return
        table = None
        with suppress(Corrupt):  # half of a log, where this failed
            table = ScopeTable.open(self._target)
        if table is not None and table.version > self._version and table.is_fenced:
            self._to.delete(self._made)
            raise TooLate(f"the move to {self._target} was ended by another process meanwhile; nothing is left of this one")

    def copy(self, found: Sequence[StoredObject]) -> CopiedFiles:
        sizes = chain.from_iterable(
            at_once(lambda each: self._copy(each.key), some) for some in portions(found, lambda each: each.size, _IN_HAND)
        )
        done = [(each.key, size) for each, size in zip(found, sizes, strict=True) if size is not None]
        return CopiedFiles(tuple(name for name, _ in done), sum(size for _, size in done))

    def _copy(self, name: str) -> int | None:
        """Its bytes; None where it is gone. Raises as `_read`."""
        if (data := _read(self._from, name, self._live)) is None:
            return None
        self._reach("move:read")
        check_held(f"the copy of {self._from.uri}", self._by.since, self._by.clock())
        size, digest = len(data), hashlib.sha256(data).digest()
        self._put(name, data)
        del data
        if _digest(self._to, name, size) != digest:
            raise InUse(f"{self._to.uri}/{name} is not what was copied there: it has another checksum; remove it")
        return size

    def _put(self, name: str, data: bytes) -> None:
        """Writes it where nothing is; what is there comes from an earlier try, as the look at it shows."""
        try:
            self._to.create(name, data)
        except AlreadyThere:
            return
        self._made.append(name)


def _digest(store: ObjectStore, name: str, size: int) -> bytes:
    """Of all that is there. One byte more is requested: another file may begin with the same."""
    digest = hashlib.sha256()
    for start in range(0, size + 1, _PART):
        digest.update(store.get_range(name, start, min(_PART, size + 1 - start)))
    return digest.digest()
