"""manifest.json: the live segments of a scope, beside its Delta table, for readers without Delta support.

It is derived. Every commit rewrites it; if it is lost, late or broken, it is rebuilt from the Delta log, and from the
Parquet footers if the table has had several schema versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lakewarden.clock import to_millis
from lakewarden.connection import Location
from lakewarden.delta.commit_log.commits import CommitLog, checkpoint_name, is_fence
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.scope import open_place
from lakewarden.delta.snapshot import Snapshot
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.target import ScopeTarget

NAME = "manifest.json"

_NULL = "null"
_quoted = json.JSONEncoder().encode


def write_manifest(target: ScopeTarget, snapshot: Snapshot, *, last_batch: int, now: datetime) -> None:
    """Writes the manifest of `snapshot`. `last_batch` is the number of the scope's last batch file, -1 before the first.

    If another commit has come since, its process may have written first, and this call has just undone that: then the newer
    manifest is written again. So the last of all writers leaves the newest version. A fenced scope keeps no manifest and no
    checkpoint of this version.
    """
    store, made = open_store(target.location), snapshot.version
    log = CommitLog(store)
    _write(target, snapshot, last_batch, now)
    while log.has(snapshot.version + 1) and (table := open_place(target)) and table.version > snapshot.version:
        if _is_fence(table):
            store.delete([NAME, checkpoint_name(made)])  # it may also have been written after the fence's removal
            return
        snapshot = table.snapshot(target.app_id)
        _write(target, snapshot, table.next_batch() - 1, now)


def _write(target: ScopeTarget, snapshot: Snapshot, last_batch: int, now: datetime) -> None:
    store = open_store(target.location)
    known = _schema_versions(store, target, snapshot.files)
    segments = ",\n".join(_segment(file, known[file.path]) for file in snapshot.files)
    head = {
        "table_id": f"{target.scope.table.namespace}:{target.scope.table.name}",
        "user_id": target.scope.user,
        "version": snapshot.version + 1,
        "delta_version": snapshot.version,
        "created_at": snapshot.created_ms,
        "updated_at": to_millis(now),
        "last_sequence_number": last_batch,
    }
    store.replace(NAME, f'{json.dumps(head)[:-1]}, "segments": [\n{segments}\n]}}\n'.encode())


def refresh_manifest(target: ScopeTarget, table: ScopeTable, now: datetime) -> bool:
    """Writes the manifest of a table if another commit, or a crash, left it stale; returns whether that was needed."""
    store = open_store(target.location)
    if _read(store).get("delta_version") == table.version or _is_fence(table):
        return False
    write_manifest(target, table.snapshot(target.app_id), last_batch=table.next_batch() - 1, now=now)
    return True


@dataclass(frozen=True)
class Manifest:
    """The contents of a manifest: its Delta version, and the size of each live file by path."""

    version: int
    files: Mapping[str, int]


def read_manifest(location: Location) -> Manifest | None:
    """Reads the manifest beside a table; None when it is missing or cannot be read."""
    found = _read(open_store(location))
    version, segments = found.get("delta_version"), found.get("segments")
    if not isinstance(version, int) or not isinstance(segments, list):
        return None
    try:
        return Manifest(version, {str(segment["path"]): int(segment["size_bytes"]) for segment in segments})
    except (KeyError, TypeError, ValueError):
        return None


def _is_fence(table: ScopeTable) -> bool:
    commit = None if table.files() else CommitLog(open_store(table.location)).read(table.version)
    return commit is not None and is_fence(commit)


def _segment(file: DataFile, schema_version: int) -> str:
    # by hand: a scope of many files is listed at every flush, and this takes a fifth of json.dumps's time
    path = _quoted(file.path)
    rows, first, last = (_NULL if number is None else number for number in (file.rows, file.min_seq, file.max_seq))
    return (
        f'{{"id": {path}, "path": {path}, "row_count": {rows}, "size_bytes": {file.size}, '
        f'"schema_version": {schema_version}, "status": "committed", "min_seq": {first}, '
        f'"max_seq": {last}, "created_at": {file.modified_ms}}}'
    )


def _schema_versions(store: ObjectStore, target: ScopeTarget, files: tuple[DataFile, ...]) -> dict[str, int]:
    """Returns the schema version of each file: known, or from the last manifest, or from the footer."""
    if len(target.schemas) == 1:
        return dict.fromkeys((file.path for file in files), target.schema.version)
    known = _recorded(_read(store)) | {file.path: file.schema_version for file in files if file.schema_version is not None}
    return {file.path: known.get(file.path) or _from_footer(store, file.path) for file in files}


def _from_footer(store: ObjectStore, path: str) -> int:
    # another writer's file has no schema version; kalamdb.md 2.1: a missing schema_version is 1
    return open_file(store, path).footer.schema_version or 1


def _read(store: ObjectStore) -> dict[str, object]:
    try:
        found = json.loads(store.get(NAME))
    except (Missing, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _recorded(manifest: dict[str, object]) -> dict[str, int]:
    segments = manifest.get("segments")
    if not isinstance(segments, list):
        return {}
    return {
        segment["path"]: segment["schema_version"]
        for segment in segments
        if isinstance(segment, dict) and isinstance(segment.get("path"), str) and isinstance(segment.get("schema_version"), int)
    }
