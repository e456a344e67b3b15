"""Values of partition columns: as Delta's log spells them, and the directories that they give to data files.

The log is what counts: readers take a value from a file's `partitionValues`, and a directory's name says the same for people
and for programs that only look at names. Delta has no empty text there: readers take it for NULL, so it is one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Partition = tuple[tuple[str, str | None], ...]
"""A file's partition columns in the table's order, each with its value as the log spells it; None for NULL."""

Value = bool | int | str | date | datetime | Decimal

NO_PARTITION: Partition = ()
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LONGEST = 200
"""Bytes of a value in a directory's name; with the column's name it stays below the 255 that file systems allow."""

_SHORTENED = 100
"""Bytes of the beginning of a longer value."""

_FAR_YEAR = re.compile(r"\s*(?:[+-]?\d{5}|[+-]\d{4}|0000)-")
"""Below 1 or above 9999; Spark writes a plus before those of dates."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def divided(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Partition, pa.Table]]:
    """The rows of each partition, in the order of their first rows; all of them where there are no partition columns."""
    if not columns:
        yield NO_PARTITION, rows
        return
    texts = {name: spelled(rows.column(name)) for name in columns}
    numbers = np.zeros(rows.num_rows, np.int64)
    for column in texts.values():
        found = column.dictionary_encode(null_encoding="encode")
        pairs = numbers * len(found.dictionary) + found.indices.to_numpy(zero_copy_only=False)
        numbers = np.unique(pairs, return_inverse=True)[1]
    _, firsts = np.unique(numbers, return_index=True)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers)) if rows.num_rows else np.zeros(0, np.int64)
    ordered = rows if len(firsts) < 2 else rows.take(order)  # once: each take of a column in several chunks joins them all
    for number in np.argsort(firsts):
        first = int(firsts[number])
        part: Partition = tuple((name, texts[name][first].as_py()) for name in columns)
        start = int(ends[number - 1]) if number else 0
        yield part, ordered.slice(start, int(ends[number]) - start)


def spelled(column: pa.ChunkedArray[Any]) -> Any:
    """Each value as Delta's log spells it: an array of text, with NULL for NULL and for empty text."""
    kind = column.type
    if pa.types.is_string(kind):
        return _whole(pc.if_else(pc.equal(column, pa.scalar("")), pa.scalar(None, pa.string()), column))
    if pa.types.is_timestamp(kind):
        return _whole(pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ"))
    return _whole(column.cast(pa.string()))


def respelled(texts: Sequence[str | None], delta_type: str) -> list[str | None]:
    """Values as another writer's log spells them, as ours does; one that is not of its type stays as it is."""
    if delta_type == "string":
        return [text or None for text in texts]
    return [_respelled(text, delta_type) for text in texts]


@lru_cache(maxsize=4096)
def _respelled(text: str | None, delta_type: str) -> str | None:
    value = value_of(text, delta_type)
    if value is None:
        return text or None
    made: Any = pa.array
    column = pa.chunked_array([made([value], _KINDS.get(delta_type))])
    found: str | None = spelled(column)[0].as_py()
    return found


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def directory(partition: Partition) -> str:
    """The directory of a file with these values, with a slash at its end; empty where there are none."""
    return "".join(f"{name}={_escaped(value)}/" for name, value in partition)


def _escaped(value: str | None) -> str:
    """All but letters, digits, `_`, `.` and `-` as `%` and two hex digits, as Spark's and delta-rs's escapes read too."""
    if value is None:
        return _NULL
    text = _UNSAFE.sub(_hex, value)
    if len(text) <= _LONGEST and text != _NULL:
        return text
    return f"{_beginning(value)}~{hashlib.sha256(value.encode()).hexdigest()}"


def _hex(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _beginning(value: str) -> str:
    """As many whole characters as fit: readers that take the value from here could not read a part of one."""
    escapes = [_UNSAFE.sub(_hex, character) for character in value[:_SHORTENED]]
    fitting = takewhile(lambda end: end <= _SHORTENED, accumulate(map(len, escapes)))
    return "".join(escapes[: len(list(fitting))])


def value_of(text: str | None, delta_type: str) -> Value | None:
    """The value that a spelling means. None for NULL, and where it is not one of this type.

    Args:
        delta_type: as Delta's schema names it, as `long` or `decimal(10,2)`.
    """
    if not text:
        return None
    read: Callable[[str], Value] | None = Decimal if delta_type.startswith("decimal(") else _READERS.get(delta_type)
    try:
        return None if read is None else read(text)
    except (ValueError, ArithmeticError):
        return None


def filled(text: str | None, count: int, kind: pa.DataType) -> pa.Array[Any]:
    """The column of a file with the value that a spelling means; NULL for empty text.

    Raises:
        pa.ArrowException, ValueError, OverflowError: it is not a value of the type.
    """
    value: Any = _scalar(text, kind) if text else pa.scalar(None, kind)
    column: pa.Array[Any] = pa.repeat(value, count)
    return column


def _scalar(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_temporal(kind) and _FAR_YEAR.match(text):  # which neither Python nor Arrow reads
        found: Any = np.datetime64(text.strip().removesuffix("Z"), "us")
        return pa.scalar(found).cast(kind)
    if isinstance(kind, pa.TimestampType):
        return pa.scalar(moment_of(text) if kind.tz else datetime.fromisoformat(text).replace(tzinfo=None), kind)
    if pa.types.is_binary(kind):
        return pa.scalar(text.encode(), kind)
    return pa.scalar(text if pa.types.is_string(kind) else text.strip()).cast(kind)


def moment_of(text: str) -> datetime:
    """In UTC, which counts where the text names no zone."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _flag(text: str) -> bool:
    return text.lower() == "true"


_READERS: Mapping[str, Callable[[str], Value]] = {
    "boolean": _flag,
    "short": int,
    "integer": int,
    "long": int,
    "string": str,
    "date": date.fromisoformat,
    "timestamp": moment_of,
}

_KINDS: Mapping[str, pa.DataType] = {"timestamp": pa.timestamp("us", "UTC"), "date": pa.date32()}
"""Of the types that Arrow would take for others."""
