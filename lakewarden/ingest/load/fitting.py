"""Converts columns of values and keeps apart what does not fit: the other rows of a block are taken, these are rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import reason
from lakewarden.catalog.model import SchemaColumn
from lakewarden.tables.rows.columns import Unfit, repeated, shown

Values = TypeVar("Values", bound="pa.Array[Any] | Sequence[object]")

Convert = Callable[[ColumnType, Values], "pa.Array[Any]"]
"""Converts values, or raises `Unfit` where one does not fit."""


def text_column(name: str) -> SchemaColumn:
    """Stands for a column that the table does not have."""
    return SchemaColumn(0, name, ColumnType.parse("TEXT"), nullable=True, default=None)


@dataclass
class ConvertedBlock:
    """The rows of a block by column, converted. A value that does not fit is NULL here, and its row is in `misfits`."""

    rows: int
    broken: Mapping[int, str] = field(default_factory=dict)
    """Records that are no rows, by their number in the block, and why."""
    columns: dict[str, pa.Array[Any]] = field(default_factory=dict)
    absent: dict[str, pa.Array[Any]] = field(default_factory=dict)
    """By column, which rows do not have it: its default applies."""
    misfits: dict[int, str] = field(default_factory=dict)
    """Why a row is rejected."""

    def reject(self, row: int, why: str) -> None:
        """Notes the first reason only."""
        self.misfits.setdefault(row, why)

    def take(self, column: SchemaColumn, values: Values, convert: Convert[Values]) -> None:
        """Adds a column."""
        bad: dict[int, object] = {}
        parts = list(_parts(column.type, values, convert, 0, bad))
        self.columns[column.name] = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        for row, value in bad.items():
            self.reject(
                row, f"column {column.name!r}: {shown(value)} does not fit {column.type}, which takes {reason(column.type)}"
            )


def _parts(
    type: ColumnType, values: Values, convert: Convert[Values], first: int, bad: dict[int, object]
) -> Iterator[pa.Array[Any]]:
    """Finds misfits by halving: `convert` is quick where all fit."""
    try:
        yield convert(type, values)
    except Unfit as error:
        if len(values) == 1:
            bad[first] = error.value
            yield repeated(None, 1, type)
            return
        middle = len(values) // 2
        yield from _parts(type, _slice(values, 0, middle), convert, first, bad)
        yield from _parts(type, _slice(values, middle, len(values)), convert, first + middle, bad)


def _slice(values: Values, start: int, stop: int) -> Values:
    return cast("Values", values.slice(start, stop - start) if isinstance(values, pa.Array) else values[start:stop])
