"""Encoded rows of one user: before they are appended to a log, and their place in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from lakewarden.base.commit_metadata import MOST_BYTES

Payload = bytes | memoryview


class Chunk(NamedTuple):
    """Rows of one user to be appended to the log."""

    user: str
    rows: int
    data: Payload


class RowRange(NamedTuple):
    """Where a chunk is, and what a reader needs. A tuple, because planning creates one per scope and segment."""

    key: str
    put_id: str
    user: str
    rows: int
    offset: int
    length: int
    first_seq: int
    schema_version: int
    stored_at: int

    @property
    def last_seq(self) -> int:
        return self.first_seq + self.rows - 1


# A caller's metadata of a write stands behind the rows of its chunk: it goes wherever they go, and when they go.
#
# Readers of rows read past it. A message of Arrow has a multiple of eight bytes; with metadata a chunk has four more.

_MARK = b"\xffLWm"
_LENGTH_BYTES = 4
_BEHIND = _LENGTH_BYTES + len(_MARK)
_WORD, _ODD = 8, 4
MOST_BEHIND = MOST_BYTES + _WORD + _BEHIND + _ODD
"""Bytes that hold what stands behind a chunk's rows at most; as odd as the chunk is."""

_KEY = b"lakewarden.commit_metadata"
"""Of the schema of rows that a flush reads: pairs of a chunk's last `_seq` and its metadata."""


def with_metadata(chunks: Sequence[Chunk], text: str) -> Sequence[Chunk]:
    """The chunks, each with this metadata behind its rows; they themselves where there is none."""
    if not text:
        return chunks
    data = text.encode()
    # So that the chunk's length is four beyond a multiple of eight: rows alone never have that, and so the length tells
    # (docs/decisions/0123-metadata-goes-with-its-rows.md).
    filled = data + b" " * ((_ODD - len(data)) % _WORD)
    behind = filled + len(data).to_bytes(_LENGTH_BYTES, "little") + _MARK
    return [Chunk(chunk.user, chunk.rows, b"".join((chunk.data, behind))) for chunk in chunks]


def is_odd(size: int) -> bool:
    """Whether a chunk of this many bytes has more than rows."""
    return size % _WORD == _ODD


def metadata_behind(chunk: Payload) -> str:
    """The metadata behind a chunk's rows, or behind the end of one of such a size; empty where there is none."""
    if not is_odd(len(chunk)) or bytes(chunk[-len(_MARK) :]) != _MARK:
        return ""
    size = int.from_bytes(chunk[-_BEHIND : -len(_MARK)], "little")
    start = len(chunk) - _BEHIND - size - (_ODD - size) % _WORD
    return bytes(chunk[start : start + size]).decode()


def noted(rows: pa.Table, data: Sequence[Payload], where: Sequence[RowRange]) -> pa.Table:
    """The rows of chunks, with the metadata behind them; `taken` returns it."""
    found = [[each.last_seq, text] for chunk, each in zip(data, where, strict=True) if (text := metadata_behind(chunk))]
    return rows.replace_schema_metadata({_KEY: json.dumps(found)}) if found else rows


def taken(rows: pa.Table, watermark: int) -> list[str]:
    """What `noted` kept of the chunks that have rows beyond the watermark, in their order."""
    kept = (rows.schema.metadata or {}).get(_KEY)
    # A write whose rows the table has already (a flush died before it settled) adds nothing to the next commit.
    return [] if kept is None else [text for last, text in json.loads(kept) if last > watermark]


def bare(rows: pa.Table) -> pa.Table:
    """The rows without it, as they are written to files."""
    return rows.replace_schema_metadata(None) if rows.schema.metadata else rows
