"""manifest.json: the live segments of a scope, beside its Delta table, for readers without Delta support. Of more than
`MOST_LISTED` it has a summary alone.

It is derived. Every commit rewrites it; if it is lost, late or broken, it is rebuilt from the Delta log, and from the
Parquet footers if the table has had several schema versions. It also keeps what a later commit or read needs of the version
(`delta.commit_log.kept_versions`).
"""

from __future__ import annotations

import json
from datetime import datetime

import msgspec

from lakewarden.base.clock import to_millis
from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.kept_versions import (
    KEPT_VERSIONS,
    NAME,
    ListedSegment,
    kept_part,
    parsed_manifest,
    sign,
    verified,
)
from lakewarden.delta.commit_log.version import Snapshot
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.replay.log_objects import checkpoint_name
from lakewarden.delta.scope import open_place
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

_KEPT = ("snapshot", "mac")
"""What no other module needs: it is not shown, nor are a segment's `stats`."""

MOST_LISTED = 1000
"""Files that a manifest lists: some 450 KB, which every commit writes and the next one reads."""


def write_manifest(target: ScopeTarget, snapshot: Snapshot, *, now: datetime) -> None:
    """Writes the manifest of `snapshot`.

    If another commit has come since, its process may have written first, and this call has just undone that: then the newer
    manifest is written again. So the last of all writers leaves the newest version. A fenced scope keeps no manifest and no
    checkpoint of this version.
    """
    store, made = open_store(target.location), snapshot.version
    log = CommitLog(store)
    _write(target, snapshot, now)
    while log.has(snapshot.version + 1) and (table := open_place(target)) and table.version > snapshot.version:
        if table.is_fenced:
            store.delete([NAME, checkpoint_name(made)])  # it may also have been written after the fence's removal
            KEPT_VERSIONS.forget(target.manifest_key)
            return
        snapshot = table.snapshot(target.app_id)
        _write(target, snapshot, now)


def _write(target: ScopeTarget, snapshot: Snapshot, now: datetime) -> None:
    store = open_store(target.location)
    keeps, many = _is_kept(target, snapshot), len(snapshot.files) > MOST_LISTED
    text = _summary(target, snapshot, now) if many else _listing(store, target, snapshot, now)
    text = sign(text + b', "snapshot": ' + kept_part(snapshot), target.manifest_key) if keeps and not many else text + b"}\n"
    store.replace(NAME, text)
    if keeps and (many or local_path(target.uri) is None):
        KEPT_VERSIONS.put(target.manifest_key, snapshot, len(snapshot.files) + 1)
    else:
        KEPT_VERSIONS.forget(target.manifest_key)


def _is_kept(target: ScopeTarget, snapshot: Snapshot) -> bool:
    return bool(target.manifest_key and snapshot.digest) and snapshot.stats is not None


def _listing(store: ObjectStore, target: ScopeTarget, snapshot: Snapshot, now: datetime) -> bytes:
    """A manifest with its segments, but for its end."""
    known = _schema_versions(store, target, snapshot.files)
    stats = (snapshot.stats if _is_kept(target, snapshot) else None) or {}
    segments = [_segment(file, known[file.path], stats.get(file.path)) for file in snapshot.files]
    return f'{_head(target, snapshot, now)}, "segments": '.encode() + msgspec.json.encode(segments)


def _summary(target: ScopeTarget, snapshot: Snapshot, now: datetime) -> bytes:
    """The same in numbers."""
    state = snapshot.state
    summary = {"segments": state.files, "row_count": state.rows, "size_bytes": state.bytes}
    return f'{_head(target, snapshot, now)}, "summary": {json.dumps(summary)}'.encode()


def _head(target: ScopeTarget, snapshot: Snapshot, now: datetime) -> str:
    head = {
        "table_id": f"{target.scope.table.namespace}:{target.scope.table.name}",
        "user_id": target.scope.user,
        "version": snapshot.version + 1,
        "delta_version": snapshot.version,
        "created_at": snapshot.head.created_ms or 0,
        "updated_at": to_millis(now),
        "last_sequence_number": snapshot.last_batch,
    }
    return json.dumps(head)[:-1]


def refresh_manifest(target: ScopeTarget, table: ScopeTable, now: datetime) -> bool:
    """Writes the manifest of a table if another commit, or a crash, left it stale; returns whether that was needed."""
    if table.is_kept or table.is_fenced or _is_right(target, table):
        return False
    write_manifest(target, table.snapshot(target.app_id), now=now)
    return True


def _is_right(target: ScopeTarget, table: ScopeTable) -> bool:
    """Whether the manifest is of this version, and keeps it where it can be kept."""
    text = _text(open_store(target.location))
    found = parsed_manifest(text)
    if found is None or found.delta_version != table.version:
        return False
    if not target.manifest_key or not table.can_be_kept or not table.digest or len(table.files()) > MOST_LISTED:
        return True
    kept = verified(text, target.manifest_key, target.app_id)
    return kept is not None and kept.digest == table.digest


def read_manifest(location: Location) -> tuple[int, dict[str, int]] | None:
    """The Delta version of the manifest beside a table, and the size of each live file by path; None when it is missing, lists no
    files, or cannot be read."""
    found = parsed_manifest(_text(open_store(location)))
    if found is None or found.segments is None:
        return None
    return found.delta_version, {segment.path: segment.size_bytes for segment in found.segments}


def shown_manifest(location: Location) -> str | None:
    """Returns the manifest beside a table without what is kept in it for Lakewarden itself; None when there is none."""
    text = _text(open_store(location))
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    if not isinstance(found, dict) or not any(name in found for name in _KEPT):
        return text.decode(errors="replace")
    segments = found.get("segments")
    for segment in segments if isinstance(segments, list) else ():
        segment.pop("stats", None)
    return json.dumps({name: value for name, value in found.items() if name not in _KEPT})


def _segment(file: DataFile, schema_version: int, stats: str | None) -> ListedSegment:
    figures = file.rows, file.size, schema_version, "committed", file.min_seq, file.max_seq, file.modified_ms
    return ListedSegment(file.path, file.path, *figures, dict(file.partition), stats)


def _schema_versions(store: ObjectStore, target: ScopeTarget, files: tuple[DataFile, ...]) -> dict[str, int]:
    """Returns the schema version of each file: known, or from the last manifest, or from the footer."""
    if len(target.schemas) == 1:
        return dict.fromkeys((file.path for file in files), target.schema.version)
    stamped = {file.path: file.schema_version for file in files if file.schema_version is not None}
    found = parsed_manifest(_text(store))
    known = {each.path: each.schema_version for each in (found and found.segments) or ()} | stamped
    # another writer's file has no schema version; kalamdb.md 2.1: a missing schema_version is 1
    return {file.path: known.get(file.path) or open_file(store, file.path).footer.schema_version or 1 for file in files}


def _text(store: ObjectStore) -> bytes:
    """Empty where it is missing."""
    try:
        return store.get(NAME)
    except Missing:
        return b""
