"""The messages between a process and its worker for templates.

A call is a `Task` with the file that takes the rows. The worker answers with any number of `RangeRequest`, each of which gets a
frame with bytes of the object, and with one `ReadOutcome`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.ingest.running.bounds import ReadBounds
from lakewarden.ingest.templates.template import Columns

MOST_BYTES = 16 << 20
"""Of a message; a thousand columns with long names are far below."""

Message = TypeVar("Message")

Typed = tuple[tuple[str, str], ...]
"""Columns by name, each with its type's name."""


@dataclass(frozen=True)
class Task:
    template: str
    options: Mapping[str, object]
    columns: Typed
    key: bytes
    """May be no valid Unicode."""
    size: int
    bounds: ReadBounds


@dataclass(frozen=True)
class RangeRequest:
    """A part of the object."""

    start: int
    length: int


@dataclass(frozen=True)
class ReadOutcome:
    """Rows, or why there are none."""

    rows: int = 0
    size: int = 0
    """Bytes of the rows in Arrow's form."""
    columns: Typed = ()
    code: str = ""
    """Of the error that rejects the object."""
    reason: bytes = b""
    misused: str = ""
    """The class of an error that is about the template or its options, and not about the object."""
    grown: bool = False
    """Whether the worker keeps so much memory that it should be replaced."""


def packed(message: Task | RangeRequest | ReadOutcome) -> bytes:
    return msgspec.msgpack.encode(message)


def unpacked(payload: pa.Buffer, type: type[Message]) -> Message:
    return msgspec.msgpack.decode(payload, type=type)


def typed(columns: Columns) -> Typed:
    return tuple((name, str(each)) for name, each in columns.items())


def columns_of(typed: Typed) -> dict[str, ColumnType]:
    return {name: ColumnType.parse(each) for name, each in typed}
