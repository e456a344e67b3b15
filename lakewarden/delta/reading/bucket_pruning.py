"""Which files to read for rows within bounds: by statistics, and by the buckets of the keys that the bounds name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from math import prod

import pyarrow as pa

from lakewarden.catalog.buckets import bucket_named, bucket_of
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.reading.bounds import Bound, Value, files_within
from lakewarden.delta.table import ScopeTable

_MOST_KEYS = 1_000
"""With more keys than this, few buckets would be left out."""


def files_to_read(table: ScopeTable, bounds: Sequence[Bound], schema: TableSchema, buckets: int) -> list[DataFile]:
    """The live files that may have a row within all bounds, in their order. A file without a bucket in its name may.

    Args:
        buckets: into how many files the rows of a partition are divided by the key of `schema`.
    """
    files = files_within(table, bounds)
    numbers = buckets_within(schema, bounds, buckets)
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
