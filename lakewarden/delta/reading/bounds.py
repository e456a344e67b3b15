"""Bounds on columns, by which rows are passed over: whole files by their statistics, then the rows of the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.quantities import grouped
from lakewarden.catalog.buckets import bucket_named, bucket_of
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.partitions import Partition, divided, value_of
from lakewarden.delta.reading.keys import few_with

if TYPE_CHECKING:
    from lakewarden.delta.parquet.files import DataFile
    from lakewarden.delta.table import ScopeTable


Value = int | str | date | datetime | Decimal
"""As statistics and Arrow's rows have it; moments are in UTC."""


@dataclass(frozen=True)
class Bound:
    """Rows below `low` or above `high` are not wanted, nor those where the column is null; None is no bound."""

    column: str
    low: Value | None = None
    high: Value | None = None
    among: tuple[Value, ...] = ()
    """Where there are some, other values are not wanted either. Partitions are passed over by it."""


def files_within(table: ScopeTable, bounds: Sequence[Bound]) -> list[DataFile]:
    """The live files that may have a row within all bounds, in their order. Without statistics, a file may."""
    files = list(table.files())
    if not bounds or not files:
        return files
    places: Sequence[int] = range(len(files))
    if table.head.partition_columns:
        inside = {partition for partition in {file.partition for file in files} if may_have_within(table, partition, bounds)}
        places = [place for place in places if files[place].partition in inside]
    return [files[place] for place in _places_within(table, places, bounds)]


def may_hold(table: ScopeTable, keys: pa.Table, primary_key: Sequence[str]) -> tuple[DataFile, ...]:
    """The live files whose key ranges overlap that of `keys` in every key column, in their order; an unknown range overlaps all.

    Where partition columns are in the key, only the files of a key's own partition are compared with it.
    """
    files = table.files()
    fixed = [name for name in table.head.partition_columns if name in primary_key]
    places = grouped(range(len(files)), lambda place: tuple(pair for pair in files[place].partition if pair[0] in fixed))
    there = ((places[partition], rows) for partition, rows in divided(keys, fixed) if partition in places)
    found = (_places_within(table, some, key_bounds(primary_key, rows)) for some, rows in there)
    return tuple(files[place] for place in sorted(chain.from_iterable(found)))


def _places_within(table: ScopeTable, places: Sequence[int], bounds: Sequence[Bound]) -> Sequence[int]:
    """Of the live files at these places, those that by their statistics may have a row within all bounds."""
    for bound in bounds:
        known = None if bound.column in table.head.partition_columns else table.bounds(bound.column)
        if known is not None:
            least, most = known
            places = [place for place in places if not _beyond(bound, least[place], most[place])]
    return places


def _outside(bound: Bound, value: object) -> bool:
    """Whether rows with this value of a partition column are not wanted."""
    # With the type, since Python holds 1, 1.0 and True for equal; of values of another type nothing is known here.
    wanted = {(type(each), each) for each in bound.among}
    other = bool(wanted) and type(value) in {kind for kind, _ in wanted} and (type(value), value) not in wanted
    return value is None or _beyond(bound, value, value) or other


def may_have_within(table: ScopeTable, partition: Partition, bounds: Sequence[Bound]) -> bool:
    """Whether a partition, of which the table need not have files, may have a row within all bounds."""
    kinds = {column.name: column.type for column in table.columns}
    values = {name: value_of(text, kinds[name]) for name, text in partition if name in kinds}
    return not any(_outside(bound, values[bound.column]) for bound in bounds if bound.column in values)


def rows_within(rows: pa.Table, bounds: Sequence[Bound]) -> pa.Table:
    """The rows within all bounds; all of them where that would leave most."""
    if not (rows.num_rows and bounds):
        return rows
    pinned = {bound.column: bound.low for bound in bounds if bound.low is not None and bound.low == bound.high}
    if len(pinned) == len(bounds) and (found := few_with(rows, pinned)) is not None:
        return found
    tests = [test for bound in bounds for test in _tests(rows.column(bound.column), bound)]
    if not tests:
        return rows
    inside = reduce(pc.and_, tests)
    # A filter copies what it keeps: where that is most of the rows, it costs more than it spares. The query compares again.
    return rows if 2 * (pc.sum(inside).as_py() or 0) > rows.num_rows else rows.filter(inside)


def key_bounds(primary_key: Sequence[str], rows: pa.Table) -> tuple[Bound, ...]:
    """Where rows with the keys of these may be."""
    return tuple([bound for name in primary_key if (bound := bound_of(name, rows.column(name))) is not None])


def bound_of(name: str, values: pa.ChunkedArray[Any]) -> Bound | None:
    """Where a column may be equal to one of these; None for values without bounds, and for none."""
    if not any(has_kind(values.type) for has_kind in _BOUNDED):
        return None
    if pa.types.is_integer(values.type) and len(values) > values.null_count == 0:
        numbers = values.to_numpy()  # by numpy, as in `delta.reading.rows.are_upserts`: 6 % of a flush of small scopes
        return Bound(name, int(numbers.min()), int(numbers.max()))
    ends = pc.min_max(values)
    try:
        least, most = ends["min"].as_py(), ends["max"].as_py()
    except (OverflowError, ValueError):
        return None  # a moment behind the year 9999, where Python's end
    return None if least is None else Bound(name, least, most)


_BOUNDED = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal)
"""Kinds of values that have bounds here. A file's statistics of the others are cut off, or compare in another way."""


def are_apart(one: Sequence[Bound], other: Sequence[Bound]) -> bool:
    """Whether no row is within the bounds of both."""
    there = {bound.column: bound for bound in other}
    pairs = ((bound, there[bound.column]) for bound in one if bound.column in there)
    return any(_beyond(bound, beside.low, beside.high) for bound, beside in pairs)


def _tests(column: pa.ChunkedArray[Any], bound: Bound) -> list[Any]:
    """Not of DECIMALs: Arrow compares only those whose digits together fit 38."""
    ends = ((bound.low, pc.greater_equal), (bound.high, pc.less_equal))
    return [compare(column, pa.scalar(value)) for value, compare in ends if value is not None and not isinstance(value, Decimal)]


def _beyond(bound: Bound, least: object, most: object) -> bool:
    return _less(most, bound.low) or _less(bound.high, least)


def _less(one: object, other: object) -> bool:
    """Only values of the same kind compare; text by its bytes in UTF-8, as Parquet and DuckDB do."""
    if type(one) is not type(other):
        return False
    if isinstance(one, str) and isinstance(other, str):
        return one.encode() < other.encode()
    return isinstance(one, (int, date, Decimal)) and bool(one < other)  # type: ignore[operator]  # of one type, as said above


# Which files to read for rows within bounds: by statistics, and by the buckets of the keys that the bounds name.

_MOST_KEYS = 1_000
"""With more keys than this, few buckets would be left out."""


def files_to_read(
    table: ScopeTable, bounds: Sequence[Bound], schemas: tuple[TableSchema, ...], buckets: int = 1
) -> list[DataFile]:
    """The live files that may have a row within all bounds, in their order. A file without a bucket in its name may.

    Args:
        buckets: into how many files the rows of a partition are divided by the key of the newest schema.
    """
    # Bounds are kept by column name: under other names they would pass over files that have the rows.
    bounds = bounds if bounds and table.named_alike(schemas) else ()
    files = files_within(table, bounds)
    numbers = buckets_within(schemas[-1], bounds, buckets)
    return files if numbers is None else [file for file in files if bucket_named(file.path) in {None, *numbers}]


def buckets_within(schema: TableSchema, bounds: Sequence[Bound], buckets: int) -> frozenset[int] | None:
    """The buckets of the keys within all bounds; None for any bucket, where the bounds name no values for a column of the key."""
    key = schema.primary_key
    if buckets == 1 or not key:
        return None
    values = [_values(name, bounds) for name in key]
    named = [each for each in values if each is not None]
    if len(named) < len(key) or prod(map(len, named)) > _MOST_KEYS:
        return None
    kinds = [column.type.arrow for name in key for column in schema.columns if column.name == name]
    if not all(_fits(value, kind) for each, kind in zip(named, kinds, strict=True) for value in each):
        return None
    keys = list(product(*named))
    try:
        columns = [pa.array([each[place] for each in keys], kind) for place, kind in enumerate(kinds)]
    except (pa.ArrowInvalid, OverflowError):  # more digits than the column has
        return None
    found = bucket_of(pa.table(dict(zip(key, columns, strict=True))), key, buckets)
    return frozenset(found.to_numpy().tolist())


def _values(name: str, bounds: Sequence[Bound]) -> Collection[Value] | None:
    """The values that a column can have; None where the bounds do not list them."""
    listed = [each for each in map(_listed, (bound for bound in bounds if bound.column == name)) if each]
    return frozenset.intersection(*listed) if listed else None


def _listed(bound: Bound) -> frozenset[Value]:
    if bound.among:
        return frozenset(bound.among)
    return frozenset() if bound.low is None or bound.low != bound.high else frozenset((bound.low,))


def _fits(value: Value, kind: pa.DataType) -> bool:
    """Whether the column has values of this kind, so that equal ones are spelled alike in the hash."""
    if isinstance(value, datetime):
        return bool(pa.types.is_timestamp(kind))
    if isinstance(value, date):
        return bool(pa.types.is_date(kind))
    if isinstance(value, Decimal):
        return bool(pa.types.is_decimal(kind))
    if isinstance(value, str):
        return bool(pa.types.is_string(kind))
    return not isinstance(value, bool) and bool(pa.types.is_integer(kind))
