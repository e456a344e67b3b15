"""A scope's directory copied to another storage, byte for byte, and looked at there.

Nothing is ever written over and nothing deleted at the target: a copier that slept, and wakes when the scope lives there
already, does no harm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.connection import Location
from lakewarden.delta.commits import LOG
from lakewarden.delta.manifest import NAME as MANIFEST
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, InUse
from lakewarden.report import ScopeTarget
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.open import open_store

_VERSION = re.compile(r"(?<!\d)\d{20}(?!\d)")
_DERIVED = frozenset({MANIFEST, f"{LOG}/_last_checkpoint"})
"""Made anew at the target: the one at once, the other with the next checkpoint."""


@dataclass(frozen=True)
class Copied:
    """Files that lie at the target, read back and compared; `bytes` of them."""

    files: tuple[str, ...] = ()
    bytes: int = 0


def copy_data(source: Location, target: Location) -> Copied:
    """Copies the data files that are there now, whatever version needs them: they never change. One that vanishes is left."""
    store = open_store(source)
    names = [found.key for found in store.list("") if found.key.endswith(".parquet") and not _hidden(found.key)]
    return _copied(store, open_store(target), names, frozenset())


def copy_frozen(source: ScopeTarget, target: Location, version: int, done: Collection[str]) -> Copied:
    """Copies all that a frozen scope has, with its log up to `version`, but for what is `done` already.

    Raises:
        Corrupt: a file that this version needs is not there.
        Conflict: it vanished while it was copied; try again.
        InUse: something else lies at the target.
    """
    table = ScopeTable.open(source.location, version)
    if table is None:
        raise Corrupt(f"{source.uri}: version {version} was frozen and is not there any more")
    store = open_store(source.location)
    names = [found.key for found in store.list("")]
    live = frozenset(path for path in (file.path for file in table.files()) if "://" not in path)
    if lost := live.difference(names):
        raise Corrupt(f"{source.uri}: {len(lost)} files of version {version} are not there, as {min(lost)}; nothing is moved")
    wanted = [name for name in names if _belongs(name, version) and name not in done]
    wanted.sort(key=lambda name: name.startswith(f"{LOG}/"))  # the log last: it never names what is not there yet
    copied = _copied(store, open_store(target), wanted, live)
    check_arrived(table, target)
    return copied


def check_arrived(table: ScopeTable, target: Location) -> None:
    """Raises:
    Corrupt: what lies at the target is not this version of the table.
    """
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
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _copied(source: ObjectStore, target: ObjectStore, names: Collection[str], live: Collection[str]) -> Copied:
    done: list[str] = []
    size = 0
    for name in names:
        try:
            data = source.get(name)
        except Missing:
            if name in live:
                raise Conflict(f"{source.uri}/{name} vanished while it was copied; try again") from None
            continue  # an old version's, which a vacuum took
        _put(target, name, data)
        done.append(name)
        size += len(data)
    return Copied(tuple(done), size)


def _put(target: ObjectStore, name: str, data: bytes) -> None:
    """Writes it where nothing lies, and reads it back.

    Raises:
        InUse: other bytes lie there.
    """
    with suppress(AlreadyThere):  # from an earlier try, as the look at it tells
        target.create(name, data)
    there = target.get(name)
    if hashlib.sha256(there).digest() != hashlib.sha256(data).digest():
        raise InUse(f"{target.uri}/{name} is not what was copied there: {len(there)} bytes with another checksum; remove it")
