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
from lakewarden.ingest.templates.object_file import COLUMNS, UNPACKED_BYTES, VALUE_BYTES
from lakewarden.ingest.templates.template import Columns


# What reading one object may take. What passes a bound rejects the object.
@dataclass(frozen=True)
class ReadBounds:
    """The kernel holds memory, processor time and the bytes written; the process that waits holds the time that passes."""

    memory_bytes: int = 512 << 20
    """Above what a worker takes when it is idle. A block of text with its columns takes a tenth of it."""
    cpu_seconds: float = 30.0
    cpu_seconds_per_gib: float = 300.0
    """More for each GiB of the object: reading text takes a tenth of that."""
    wall_seconds: float = 120.0
    wall_seconds_per_gib: float = 1200.0
    """Of these, the time that the store takes does not count."""
    rows: int = 1 << 28
    """As many as get consecutive numbers at once (`log.position.WHOLE`)."""
    output_bytes: int = 16 << 30
    """Of rows in Arrow's form."""
    unpacked_bytes: int = UNPACKED_BYTES
    value_bytes: int = VALUE_BYTES
    """Of one value, and of one record of text."""
    columns: int = COLUMNS

    def cpu(self, size: int) -> float:
        """Seconds of processor time for an object of this many bytes."""
        return self.cpu_seconds + self.cpu_seconds_per_gib * size / (1 << 30)

    def wall(self, size: int) -> float:
        """Seconds for an object of this many bytes."""
        return self.wall_seconds + self.wall_seconds_per_gib * size / (1 << 30)

    def fetched(self, size: int) -> int:
        """Bytes that a template may request of an object of this many bytes: it may read it some times, and not for ever."""
        return (64 << 20) + 8 * size


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
