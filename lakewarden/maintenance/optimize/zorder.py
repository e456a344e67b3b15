"""Z-order: sorts rows so that rows close in several columns are close together, and files can be skipped by each of them.

Each column's values are replaced by their rank, spread over the same number of bits, and the bits of the columns are
interleaved, highest first. Ranks make it independent of types and of skewed values. NULL comes after all values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import Clock, random_id
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import check_held
from lakewarden.delta.parquet.files import DataFile, NewFile, compact_name, write_files
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.errors import InvalidArgument
from lakewarden.storage.steps import Steps

_BITS = 63
"""Bits of a Z-value: those of a signed 64-bit number that is not negative."""

_MAX_COLUMNS = 16
"""More columns leave fewer than four bits each, too few to order by."""

_WITHOUT_ORDER = {"JSON", "FILE"}
"""Types whose text order means nothing."""


def check_columns(schema: TableSchema, columns: Sequence[str]) -> None:
    """Raises:
    InvalidArgument: a column does not exist, is named twice, is a partition column, or has a type without an order; or
        there are too many.
    """
    if len(columns) > _MAX_COLUMNS:
        raise InvalidArgument(f"ZORDER BY {len(columns)} columns: the order can use at most {_MAX_COLUMNS}")
    for position, name in enumerate(columns):
        column = schema.column(name)
        if column is None:
            raise InvalidArgument(f"ZORDER BY {name}: there is no such column; the table has {', '.join(schema.names)}")
        if name in columns[:position]:
            raise InvalidArgument(f"ZORDER BY names {name} twice")
        if name in schema.partition_by:
            raise InvalidArgument(f"ZORDER BY {name}: a partition column has one value in a file; choose another column")
        if column.type.name in _WITHOUT_ORDER:
            raise InvalidArgument(f"ZORDER BY {name}: values of type {column.type} have no order; choose another column")


def z_ordered(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows, sorted by their Z-value; equal ones keep their order."""
    return rows.take(pc.sort_indices(z_values([rows.column(name) for name in columns])))


def z_values(columns: Sequence[pa.ChunkedArray[Any]]) -> pa.Array[Any]:
    """Returns one whole number a row. The first column has the highest bit of each round."""
    bits = _BITS // len(columns)
    z: pa.Array[Any] = pa.repeat(pa.scalar(0, pa.int64()), len(columns[0]))
    ranks = [_spread(column, bits) for column in columns]
    for bit in range(bits - 1, -1, -1):
        for rank in ranks:
            z = pc.bit_wise_or(pc.shift_left(z, 1), pc.bit_wise_and(pc.shift_right(rank, bit), 1))
    return z


def _spread(column: pa.ChunkedArray[Any], bits: int) -> pa.Array[Any]:
    """Dense ranks spread over the whole range of the given bits, so that the columns' highest bits count the same."""
    ranks = pc.rank(column.combine_chunks(), sort_keys="ascending", tiebreaker="dense").cast(pa.int64())
    ranks = pc.subtract(ranks, 1)
    highest = (pc.max(ranks).as_py() or 0) if len(ranks) else 0
    if highest == 0:
        return ranks
    needed = highest.bit_length()
    if needed > bits:
        return pc.shift_right(ranks, needed - bits)
    step = ((1 << bits) - 1) // highest
    return pc.multiply(ranks, step)


# Rewrites one bin of an optimize by itself: in a task of Spark's, where a scope has too many bytes for one after the other.


@dataclass(frozen=True)
class BinTask:
    """Files of one partition, to be written again. Picklable. `target` has the schema that the table has now."""

    target: ScopeTarget
    group: FileGroup
    zorder: tuple[str, ...]
    planned_at: datetime
    clock: Clock


def write_bin(task: BinTask) -> Steps[tuple[NewFile, ...]]:
    """Returns the new files, which are durable where they were written.

    Raises:
        TooLate: the plan is too old.
    """
    made: list[NewFile] = []
    for part in cut(task.group.read(), task.zorder, task.group.files, task.target):
        check_held(f"the optimize of {task.target.scope}", task.planned_at, task.clock())
        made += write_files(task.target, part, partial(compact_name, random_id))
    yield task.target.uri
    return tuple(made)


def cut(rows: pa.Table, zorder: tuple[str, ...], files: tuple[DataFile, ...], target: ScopeTarget) -> Iterator[pa.Table]:
    """The rows of a bin, which was these files, as those of new files: of one, or in Z-order of several of the target size."""
    if not zorder:
        return (each for each in (rows,) if each.num_rows)
    ordered = z_ordered(rows, zorder)
    step = max(1, -(-ordered.num_rows // outputs(sum(file.size for file in files), target)))
    return (ordered.slice(start, step) for start in range(0, ordered.num_rows, step))


def outputs(size: int, target: ScopeTarget) -> int:
    """How many files this many bytes become."""
    return max(1, -(-size // target.target_file_size))
