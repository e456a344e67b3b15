"""The lowest and the highest value of a column, computed from its rows or taken from a Parquet footer, which costs a tenth."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_FLOATING = frozenset({pa.float32().id, pa.float64().id})
_TEMPORAL = frozenset({pa.date32().id, pa.timestamp("us").id})
_BOXED = frozenset({pa.string().id, pa.decimal128(1).id})
"""Types of which Parquet holds an end as bytes."""

Value: TypeAlias = int | float | str | date | datetime | Decimal
"""As statistics have it; moments are in UTC."""

Bounds: TypeAlias = tuple[Sequence[Value | None], Sequence[Value | None]]
"""The lowest and the highest value of a column in each file, None where that is unknown."""


class Ends(NamedTuple):
    """The lowest and the highest value, in Python's type.

    A date is its day since 1970, a timestamp its microsecond: Python has no moments beyond the year 9999.
    """

    low: Any
    high: Any


class ColumnFacts(NamedTuple):
    """What is known of a column's values. `ends` and `nulls` (how many are NULL) are None where they are unknown."""

    name: str
    type: pa.DataType
    ends: Ends | None
    nulls: int | None


def of_rows(column: pa.ChunkedArray[Any]) -> Ends | None:
    """None where all values are NULL, and where one is NaN: readers disagree on whether it is the greatest value or none."""
    kind = column.type
    if column.null_count == len(column) or (kind.id in _FLOATING and pc.any(pc.is_nan(column)).as_py()):
        return None
    ends: Any = pc.min_max(column)
    if kind.id in _TEMPORAL:
        return Ends(ends["min"].value, ends["max"].value)
    return Ends(ends["min"].as_py(), ends["max"].as_py())


def of_written(rows: pa.Table, file: pq.FileMetaData) -> list[ColumnFacts]:
    """What is known of the columns of a file that holds exactly these rows."""
    # of floating numbers and of long texts, the footer says nothing
    return [
        one if one.ends else one._replace(ends=of_rows(column), nulls=column.null_count)
        for one, column in zip(of_file(file, rows.schema), rows.columns, strict=True)
    ]


def of_file(file: pq.FileMetaData, schema: pa.Schema) -> list[ColumnFacts]:
    """What a file's footer tells of its columns, which are those of `schema`."""
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    kinds = zip(schema.names, schema.types, strict=True)
    return [_facts([group.column(at) for group in groups], name, kind) for at, (name, kind) in enumerate(kinds)]


def _facts(chunks: Sequence[pq.ColumnChunkMetaData], name: str, kind: pa.DataType) -> ColumnFacts:
    nulls, found = 0, []
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is None or (count := statistics.null_count) is None:  # values are long, or the writer was set to write none
            return ColumnFacts(name, kind, None, None)
        nulls += count
        if count < chunk.num_values:
            found.append(_ends(statistics, kind))
    known = [ends for ends in found if ends is not None]
    return ColumnFacts(name, kind, _widest(known) if known and len(known) == len(found) else None, nulls)


def _widest(found: Sequence[Ends]) -> Ends:
    return found[0] if len(found) == 1 else Ends(min(one.low for one in found), max(one.high for one in found))


def _ends(statistics: pq.Statistics, kind: pa.DataType) -> Ends | None:
    """None where Parquet has none, as for types without an order; and where there may be a NaN, which it does not tell."""
    if kind.id in _FLOATING or not statistics.has_min_max:
        return None
    return Ends(statistics.min, statistics.max) if kind.id in _BOXED else Ends(statistics.min_raw, statistics.max_raw)
