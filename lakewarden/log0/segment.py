"""The bytes of a segment or carry object: a header that says whose rows lie where, then one chunk of rows per scope.

    magic (4) · length of the header (4, little endian) · header · chunks

The header is an Arrow stream, so that ten thousand scopes are read in a millisecond; a chunk is an Arrow record batch
without its schema, which follows from the table's schema version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.errors import Corrupt
from lakewarden.log0.record import USER, LogBatch

_MAGIC = b"LWS1"
_PREFIX = struct.Struct("<4sI")
_PUT = b"put"
_SEAL = b"seal"

_SCOPES = [
    ("user", pa.string()),
    ("rows", pa.int64()),
    ("ordinal", pa.int64()),
    ("offset", pa.int64()),
    ("length", pa.int64()),
    ("schema_version", pa.int32()),
    ("stored_at", pa.int64()),
    ("last_seq", pa.int64()),
]

FIRST_READ = 64 << 10
"""Bytes that a look at a header asks for first: enough for a thousand scopes."""


@dataclass(frozen=True)
class Chunk:
    """One scope's rows in one object. `offset` counts from the object's start; `stored_at` is in microseconds."""

    user: str
    rows: int
    ordinal: int
    offset: int
    length: int
    schema_version: int
    stored_at: int
    last_seq: int
    """Of a carry's chunk; in a segment the position says it."""


@dataclass(frozen=True)
class Header:
    """What an object holds. `put` is the id of the put that made it; a seal ends its log and holds nothing."""

    put: str
    chunks: tuple[Chunk, ...]
    seal: bool = False


@dataclass(frozen=True)
class Piece:
    """A chunk that is yet to be written."""

    user: str
    rows: pa.RecordBatch
    ordinal: int
    schema_version: int
    stored_at: int
    last_seq: int = -1


def pieces_of(batch: LogBatch, stored_at: int) -> list[Piece]:
    """The batch's rows by scope; within a scope they keep their order, which their ordinals then have."""
    rows = batch.rows
    if pc.count_distinct(rows[USER]).as_py() > 1:
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(USER, "ascending")]))
    runs = pc.run_end_encode(rows[USER].combine_chunks())
    content = rows.drop_columns([USER]).combine_chunks().to_batches()
    whole = content[0] if content else pa.RecordBatch.from_pylist([], schema=rows.drop_columns([USER]).schema)
    pieces: list[Piece] = []
    start = 0
    for user, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        pieces.append(Piece(user, whole.slice(start, end - start), start, batch.schema_version, stored_at))
        start = end
    return pieces


def encode(pieces: Sequence[Piece], put: str, *, seal: bool = False) -> bytes:
    """The object's bytes."""
    bodies = [piece.rows.serialize() for piece in pieces]
    header = _header(pieces, [body.size for body in bodies], put, seal)
    return b"".join([_PREFIX.pack(_MAGIC, len(header)), header, *bodies])


def _header(pieces: Sequence[Piece], lengths: list[int], put: str, seal: bool) -> memoryview:
    offsets: list[int] = []
    at = 0
    for length in lengths:
        offsets.append(at)
        at += length
    columns = [
        [piece.user for piece in pieces],
        [piece.rows.num_rows for piece in pieces],
        [piece.ordinal for piece in pieces],
        offsets,
        lengths,
        [piece.schema_version for piece in pieces],
        [piece.stored_at for piece in pieces],
        [piece.last_seq for piece in pieces],
    ]
    schema = pa.schema(_SCOPES, metadata={_PUT: put, _SEAL: "1" if seal else ""})
    arrays = [pa.array(values, kind) for values, (_, kind) in zip(columns, _SCOPES, strict=True)]
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return memoryview(out.getvalue())


def header_size(start: bytes, key: str) -> int:
    """Bytes from the object's start to the end of its header."""
    if len(start) < _PREFIX.size:
        raise Corrupt(f"the log object {key} is cut short: {len(start)} bytes")
    magic, length = _PREFIX.unpack_from(start)
    if magic != _MAGIC:
        raise Corrupt(f"the log object {key} begins with {magic!r}, not {_MAGIC!r}")
    return _PREFIX.size + int(length)


def decode_header(start: bytes, key: str) -> Header:
    """Raises:
    Corrupt: the bytes are no header of this format.
    """
    size = header_size(start, key)
    try:
        with pa.ipc.open_stream(memoryview(start)[_PREFIX.size : size]) as stream:
            table = stream.read_all()
    except pa.ArrowException as error:
        raise Corrupt(f"the header of the log object {key} can't be read: {error}") from error
    metadata = table.schema.metadata or {}
    columns = [table[name].to_pylist() for name, _ in _SCOPES]
    chunks = tuple(
        Chunk(user, rows, ordinal, size + offset, length, version, stored, last)
        for user, rows, ordinal, offset, length, version, stored, last in zip(*columns, strict=True)
    )
    return Header(metadata.get(_PUT, b"").decode(), chunks, metadata.get(_SEAL) == b"1")


def decode_rows(data: bytes, schema: pa.Schema, key: str) -> pa.RecordBatch:
    """A chunk's rows.

    Raises:
        Corrupt: the bytes are no rows of this schema.
    """
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"rows in the log object {key} can't be read: {error}") from error
