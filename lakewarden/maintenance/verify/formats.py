"""This room's own readers of the formats of Lakewarden and Delta (docs/log.md has the log's format)."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

_LOG_FIXED = {b"LWLOG\x001\n": 32, b"LWLOG\x002\n": 48}
"""By magic, how many bytes of a segment come before its header."""
_OF_FLOORS = {b"storages", b"absorbed", b"summary"}
"""What a floor says besides its columns: positions, names of objects, and the columns' bounds."""
_OF_SURVEYS = ("place", "path", "detail", "error")
_LOG_HEAD = struct.Struct("<8sIB")
_LOG_INDEXED = 1
_LOG_ID = 16
_LOG_NUMBERS = ("rows", "offsets", "lengths", "first_seqs", "schema_versions", "stored_ats")
_PARQUET_MAGIC = b"PAR1"
_SPARK = "org.apache.spark.sql.parquet.row.metadata"


def log_users(data: bytes) -> set[str] | None:
    """The users of a segment or carry object; None where it is neither."""
    start = _LOG_FIXED.get(data[:8])
    if start is None:
        return None
    _, length, kind = _LOG_HEAD.unpack_from(data)
    try:
        if kind == _LOG_INDEXED:
            return set(_indexed_users(data[start:], length))
        return set(json.loads(data[start : start + length])["users"])
    except (ValueError, KeyError, TypeError, pa.ArrowException, OSError):
        return None


def _indexed_users(data: bytes, end: int) -> Iterator[str]:
    """The users in the blocks of an index, whose head ends there with a checksum."""
    types: dict[str, pa.DataType] = {"users": pa.string(), **{name: pa.int64() for name in _LOG_NUMBERS}}
    for size in json.loads(data[: end - 8])["sizes"]:
        block = pa.ipc.read_record_batch(pa.py_buffer(data[end + _LOG_ID : end + size]), pa.schema(types))
        yield from cast("list[str]", block.column(0).to_pylist())
        end += size


def parsed(data: bytes) -> object:
    """A JSON value; None where the text is not JSON."""
    try:
        return cast("object", json.loads(data))
    except ValueError:
        return None


def counts_only(data: bytes) -> bool:
    """Whether a floor holds nothing but columns of a fixed width: keyed hashes, versions, counts, times (docs/decisions/0020)."""
    try:
        schema = pa.ipc.open_stream(pa.BufferReader(data)).schema
    except (pa.ArrowException, OSError):
        return False
    fixed = (pa.types.is_fixed_size_binary, pa.types.is_integer, pa.types.is_boolean)
    return all(any(is_of(column.type) for is_of in fixed) for column in schema) and set(schema.metadata or {}) <= _OF_FLOORS


def surveyed(data: bytes) -> list[str]:
    """The texts in which what is kept of a survey may name anybody: paths, and what is said of them. In a look each row has them
    as JSON, its sums are JSON."""
    if data[:1] == b"{":
        return list(_said(parsed(data), _OF_SURVEYS))
    try:
        rows = pa.ipc.open_stream(pa.BufferReader(data)).read_all().to_pylist()
    except (pa.ArrowException, OSError):
        return []
    found = [text for row in rows for text in _said(parsed(row.get("survey") or b"[]"), _OF_SURVEYS)]
    return found + [text for row in rows if row.get("log") for text in _said(parsed(zlib.decompress(row["log"])))]


def _said(value: object, names: tuple[str, ...] = (), name: str = "") -> Iterator[str]:
    """Every text under one of these names, however deep; of all names where none is given."""
    if isinstance(value, str):
        yield from (value,) if name in names or not names else ()
    elif isinstance(value, list | dict):
        for inner, each in value.items() if isinstance(value, dict) else ((name, each) for each in value):
            yield from _said(each, names, inner)


def field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def footer(data: bytes) -> dict[str, str] | None:
    """The keys and values in a Parquet file's footer; None where it is not Parquet."""
    if not (data.startswith(_PARQUET_MAGIC) and data.endswith(_PARQUET_MAGIC)):
        return None
    try:
        said = pq.read_metadata(pa.BufferReader(data)).metadata or {}
    except (pa.ArrowException, OSError):
        return {}
    own = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in said.items()}
    return _of_columns(own.get(_SPARK, "")) | own


def _of_columns(schema: str) -> dict[str, str]:
    """Spark's own column metadata, which holds our metadata of files that Spark wrote."""
    columns = field(parsed(schema.encode()), "fields")
    said = (field(column, "metadata") for column in columns) if isinstance(columns, list) else ()
    return {key: str(value) for one in said if isinstance(one, dict) for key, value in one.items()}


def footer_bytes(tail: bytes) -> int:
    """How many bytes at a Parquet file's end are its footer, by its last eight bytes; 0 where it is not Parquet."""
    return int.from_bytes(tail[:4], "little") + len(tail) if len(tail) == 8 and tail.endswith(_PARQUET_MAGIC) else 0


def only_footer(tail: bytes) -> bytes:
    """What `footer` reads as well as the whole file."""
    return _PARQUET_MAGIC + tail


def values(data: bytes) -> str:
    """All values of a Parquet file as text, one JSON object a row, so that a search for an id is not defeated by compression."""
    try:
        rows = pq.read_table(pa.BufferReader(data)).to_pylist()
    except (pa.ArrowException, OSError):
        return ""
    return "\n".join(json.dumps(row, default=str, ensure_ascii=False) for row in rows)


def live_files(data: bytes) -> int:
    """How many files a commit or checkpoint of Delta's log adds, whatever its name is."""
    if footer(data) is None:
        return sum(field(parsed(line), "add") is not None for line in data.splitlines() if line)
    table = pq.read_table(pa.BufferReader(data))
    return table.num_rows - table.column("add").null_count if "add" in table.column_names else 0
