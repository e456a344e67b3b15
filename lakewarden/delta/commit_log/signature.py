"""The form in which a version is kept: a part of manifest.json, signed under the scope's own key.

The key follows from the warehouse's, and from the scope's location, log and user (`Erasures.derived_key`). So text of another
place, scope, log or warehouse does not verify, and neither does text that is cut off or forged. That it verifies says that a
process of this warehouse once wrote it, not that it is the newest: kept_versions.py finds that out.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

import msgspec

from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.commit_log.snapshot import Snapshot
from lakewarden.delta.parquet.files import DataFile

_BEGIN, _END = b', "mac": "', b'"}\n'
_DIGITS = 64
_LENGTH = len(_BEGIN) + _DIGITS + len(_END)


class _Kept(msgspec.Struct, frozen=True):
    """What a manifest holds besides the list of files. `digest` and `transactions` are those of the snapshot."""

    table: TableHead
    transactions: dict[str, int | None]
    digest: str


class _Segment(msgspec.Struct, frozen=True):
    """A live file, as the manifest lists it."""

    path: str
    row_count: int | None
    size_bytes: int
    schema_version: int
    min_seq: int | None
    max_seq: int | None
    created_at: int
    stats: str | None = None
    partition: dict[str, str | None] = {}


class _Manifest(msgspec.Struct, frozen=True):
    delta_version: int
    segments: list[_Segment]
    snapshot: _Kept


_decoder = msgspec.json.Decoder(_Manifest)


def kept_part(snapshot: Snapshot) -> bytes:
    """Returns what is kept of the snapshot besides its files, as JSON."""
    return msgspec.json.encode(_Kept(snapshot.head, dict(snapshot.transactions), snapshot.digest))


def sign(text: bytes, key: str) -> bytes:
    """Closes a JSON object, of which `text` is all but the last brace, with its MAC."""
    return text + _BEGIN + _mac(text, key) + _END


def verified(text: bytes, key: str, app_id: str) -> Snapshot | None:
    """Returns the version that a manifest keeps; None where it keeps none under this key. `app_id` is the watermark's."""
    body, end = text[:-_LENGTH], text[-_LENGTH:]
    if not key or not hmac.compare_digest(end, _BEGIN + _mac(body, key) + _END):
        return None
    try:
        found = _decoder.decode(text)
    except msgspec.DecodeError:  # a later release's
        return None
    files = tuple(_file(each) for each in found.segments)
    stats: Mapping[str, str] = {each.path: each.stats for each in found.segments if each.stats is not None}
    kept = found.snapshot
    return Snapshot(found.delta_version, kept.table, files, stats, app_id, kept.transactions, kept.digest)


def _file(each: _Segment) -> DataFile:
    partition = tuple(each.partition.items())
    return DataFile(
        each.path, each.size_bytes, each.row_count, each.created_at, each.min_seq, each.max_seq, each.schema_version, partition
    )


def _mac(text: bytes, key: str) -> bytes:
    return hmac.digest(key.encode(), text, "sha256").hex().encode()
