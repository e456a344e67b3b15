"""Copies a scope's table elsewhere with its history: the log up to one version, and the files that it names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.faults import Reach, no_faults
from lakewarden.delta.commit_log.commits import LOG
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.objects import Missing, ObjectStore, keys_of
from lakewarden.storage.open import open_store

_VERSION = re.compile(rf"{LOG}/(\d{{20}})\.(json|.*parquet)$")
_FILES = "_files"


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
    """
    store = open_store(table.location)
    log = [name for name in keys_of(store, LOG) if (found := _VERSION.match(name)) and int(found[1]) <= table.version]
    live = {file.path for file in table.files()}
    named = sorted(live.union(*(_named(store, name) for name in log)))
    copied = []
    for path in [*named, *keys_of(store, _FILES), *log]:  # the log last: a reader never sees files that are not there yet
        try:
            data = store.get(path)
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


def _named(store: ObjectStore, name: str) -> set[str]:
    """Paths of the files within the table that a commit or a checkpoint names, but for what it removes."""
    try:
        data = store.get(name)
    except Missing:
        return set()
    paths = _of_commit(name, data) if name.endswith(".json") else _of_checkpoint(data)
    return {unquote(path) for path in paths if "://" not in path and not path.startswith("/")}


def _of_commit(name: str, data: bytes) -> Iterator[str]:
    for line in data.splitlines():
        try:
            action = json.loads(line) if line.strip() else {}
        except ValueError as error:
            raise Corrupt(f"{name} is no commit: {error}") from error
        if (file := action.get("add") or action.get("cdc")) is not None:
            yield file["path"]


def _of_checkpoint(data: bytes) -> Iterable[str]:
    with delta_errors("cannot read a checkpoint"):
        adds = pq.read_table(pa.BufferReader(data), columns=["add"]).column("add").to_pylist()
    return [add["path"] for add in adds if add is not None]
