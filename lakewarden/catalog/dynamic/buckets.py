"""The bucket of a row: a hash of its key, modulo the number of buckets. The same in this process and in Spark's tasks.

The hash is of a canonical text of the values, so it stays when a column's type becomes wider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.dynamic.murmur import murmur3

_SEED = 42
_NAMED = re.compile(r"b(\d{3,})-")


def bucket_of(rows: pa.Table, key: Sequence[str], buckets: int) -> pa.Array[Any]:
    """The bucket of each row, an int32 from 0.

    Args:
        key: the columns of the primary key; without any, all columns count whose names do not begin with `_`.
    """
    if buckets == 1:
        return pa.array(np.zeros(rows.num_rows, np.int32))
    hashes = murmur3(_canonical(rows, key or [name for name in rows.column_names if not name.startswith("_")]), _SEED)
    return pa.array(((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)).astype(np.int32))


def divided_by_bucket(rows: pa.Table, key: Sequence[str], buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket that has some, in their order."""
    found = bucket_of(rows, key, buckets).to_numpy()
    for bucket in np.unique(found):
        yield int(bucket), rows.filter(pa.array(found == bucket))


def in_bucket(bucket: int, name: str) -> str:
    """The name of a data file of the bucket."""
    return f"b{bucket:03d}-{name}"


def bucket_named(path: str) -> int | None:
    """The bucket that a data file's name says; None for a file of a table without buckets."""
    found = _NAMED.match(path.rpartition("/")[2])
    return None if found is None else int(found[1])


def _canonical(rows: pa.Table, names: Sequence[str]) -> pa.Array[Any]:
    """Of each row the values one after the other: `<bytes>:<value>`, or `-` for NULL."""
    parts = [_spelled(rows.column(name).combine_chunks()) for name in names]
    joined: pa.Array[Any] = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    return joined


def _spelled(column: Any) -> Any:
    text = _text(column).cast(pa.binary())
    length = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
    sized = pc.binary_join_element_wise(length, text, pa.scalar(b":", pa.binary()))
    return pc.if_else(pc.is_valid(text), sized, pa.scalar(b"-", pa.binary()))


def _text(column: Any) -> Any:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column
    return column.cast(pa.string())
