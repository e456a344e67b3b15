"""What only the files themselves show: bytes that changed without a change of size."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.threads import Threads
from lakewarden.delta.examination.file_notes import is_elsewhere
from lakewarden.delta.examination.listing import ListedFiles
from lakewarden.delta.failures import file_errors
from lakewarden.delta.replay.actions import Vector
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_state import LogState, Note
from lakewarden.delta.replay.paths import OutsideTable, check_inside
from lakewarden.delta.replay.vectors import mask_of
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

_AT_ONCE = 16
_BATCH = 10_000
_TAIL = 8
"""Bytes behind a footer: its length and `PAR1` (Parquet format, "File Format")."""
_MOST_FOOTER = 64 << 20
_MOST_ROWS = 1 << 31
_EXAMPLES = 3


def of_contents(state: LogState, listed: ListedFiles) -> Iterator[Note]:
    """Reads the footer of each live file that has the size of the log, and its vector: two requests and one."""
    store = open_store(state.location)
    wrong: dict[str, list[str]] = {}
    with Threads(_AT_ONCE) as threads:
        for batch in state.files.to_batches(max_chunksize=_BATCH):
            table = pa.Table.from_batches([batch])
            sizes = listed.sizes_of(table.column("key")).to_pylist()
            names = zip(*(table.column(name).to_pylist() for name in ("key", "path", "stats")), strict=True)
            files = zip(names, sizes, vectors_of(table), strict=True)
            for kind, detail in threads.map(lambda each: _look(store, state, *each), files):
                if kind:
                    wrong.setdefault(kind, []).append(detail)
    for kind, details in wrong.items():
        more = f"; and {len(details) - _EXAMPLES} more" if len(details) > _EXAMPLES else ""
        yield Note(kind, f"{'; '.join(details[:_EXAMPLES])}{more}")


def _look(
    store: ObjectStore, state: LogState, names: tuple[str, str, str | None], size: int | None, vector: Vector | None
) -> tuple[str, str]:
    """The kind and the detail of what is wrong; empty where nothing is, or where the listing showed it."""
    key, path, stats = names
    if size is None:
        return "", ""
    try:
        check_inside(key, path, state.location.uri)
        rows = _rows(store, key, size)
    except (Missing, OutsideTable):
        return "", ""
    except (Corrupt, Unsupported) as error:
        return "size-differs", f"{key} has the size that the log says, and other bytes: {error.message}"
    said = _said_rows(stats)
    if said is not None and said != rows:
        return "size-differs", f"{key} has the size that the log says, and {rows} rows instead of {said}"
    return ("", "") if vector is None or is_elsewhere(vector) else _look_at_vector(store, state, key, rows, vector)


def _look_at_vector(store: ObjectStore, state: LogState, key: str, rows: int, vector: Vector) -> tuple[str, str]:
    if rows > _MOST_ROWS:
        return "", ""
    try:
        mask_of(vector, rows, store, state.location)
    except OutsideTable:
        return "", ""
    except (Corrupt, Unsupported) as error:
        kind, _, detail = error.message.partition(": ")
        return (kind, detail) if kind.startswith("vector-") else ("vector-short", f"of {key}: {error.message}")
    return "", ""


def _rows(store: ObjectStore, key: str, size: int) -> int:
    """How many rows the file has, by its footer.

    Raises:
        Corrupt: it is no Parquet file.
    """
    tail = store.get_range(key, max(size - _TAIL, 0), _TAIL)
    length = struct.unpack("<I", tail[:4])[0] if len(tail) == _TAIL else 0
    if tail[4:] != b"PAR1" or not 0 < length <= min(size - _TAIL, _MOST_FOOTER):
        raise Corrupt("its end is not that of a Parquet file")
    footer = store.get_range(key, size - _TAIL - length, length)
    with file_errors(key):
        return pq.read_metadata(pa.BufferReader(b"PAR1" + footer + tail)).num_rows


def _said_rows(stats: str | None) -> int | None:
    """`numRecords` of an `add` ("Per-file Statistics"); None where it does not say so."""
    try:
        said: Any = msgspec.json.decode(stats or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    count = said.get("numRecords") if isinstance(said, dict) else None
    return count if type(count) is int else None
