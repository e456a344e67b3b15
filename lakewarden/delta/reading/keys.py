"""Primary keys in memory: looks rows up by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.delta.partitions import Partition, divided
from lakewarden.log.record import SEQ

Key = tuple[object, ...]
"""The values of the primary key's columns, as Arrow gives them to Python."""

_Integers = NDArray[np.integer[Any]]

_FEW = 400
"""Rows up to which Python is faster than calls of Arrow's: a dozen, for a key of several columns in a dictionary; or three, each
of which costs more than a look at so many values."""

_MOST = 500_000
"""Rows up to which a dictionary is made for many look-ups: some 100 MB."""

_NUMBERS: Mapping[int, Any] = {
    pa.int16().id: pa.int16(),
    pa.int32().id: pa.int32(),
    pa.int64().id: pa.int64(),
    pa.date32().id: pa.int32(),
    pa.timestamp("us").id: pa.int64(),
}
"""By the id of a type, the numbers that its values are."""


def key_values(rows: pa.Table, primary_key: Sequence[str]) -> list[Key]:
    """The key of each row."""
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in primary_key]
    return list(zip(*columns, strict=True))


def few_with(rows: pa.Table, values: Mapping[str, object]) -> pa.Table | None:
    """As `rows_with`. None of many rows, and of other values than whole numbers and texts: a day may be beyond Python's years."""
    if rows.num_rows > _FEW or not {*map(type, values.values())} <= {int, str}:
        return None
    names, wanted = [*values], [*values.values()]
    one = len(names) == 1  # its values are compared as they are, without a tuple for each
    keys: list[Any] = rows.column(names[0]).to_pylist() if one else key_values(rows, names)
    key = wanted[0] if one else tuple(wanted)
    number = keys.count(key)
    if number > 1:
        return rows.take(pa.array([place for place, each in enumerate(keys) if each == key], pa.int64()))
    return rows.slice(keys.index(key) if number else 0, number)


def rows_with(rows: pa.Table, values: Mapping[str, object]) -> pa.Table:
    """The rows that have these values in these columns."""
    if (found := few_with(rows, values)) is not None:
        return found
    for name, value in values.items():
        rows = rows.filter(pc.equal(rows.column(name), pa.scalar(value, rows.schema.field(name).type)))
    return rows


@dataclass(frozen=True)
class Keys:
    """Rows, by whose primary keys others are looked up."""

    rows: pa.Table
    primary_key: Sequence[str]
    few: int = _FEW
    """Up to this many rows, a dictionary is used."""
    often: bool = False
    """Whether small parts of others are looked up one after the other: Arrow hashes all of these rows for each."""

    @classmethod
    def newest(cls, rows: pa.Table, primary_key: Sequence[str], few: int = _FEW) -> Keys:
        """Those of the newest row of each key. `_seq` is one row's own within a scope."""
        every = cls(rows, primary_key, few)
        if every.are_distinct():
            return every
        by_key = pa.table({"key": every._numbered[1], "seq": rows.column(SEQ)}).group_by("key", use_threads=False)
        newest = by_key.aggregate([("seq", "max")])
        return cls(rows.filter(pc.is_in(rows.column(SEQ), value_set=newest.column("seq_max"))), primary_key, few)

    def places(self, others: pa.Table) -> Any:
        """For each of the other rows, the index of the first of these with its key; NULL where there is none, and where a part
        of its key is NULL (as only rows of other writers have it)."""
        if len(others) < len(self.rows) and (found := self._sorted) is not None:
            column = others.column(self.primary_key[0])
            if not column.null_count:
                return found.places(_numbers(column))
        if len(others) <= self._most_by_dictionary:
            return pa.array([self._first.get(key) for key in self._tuples(others)], pa.int32())
        numbering, known = self._numbered
        numbers: Any = others.column(self.primary_key[0])
        for each in numbering:
            numbers = each.of(numbers, others)
        return pc.index_in(numbers, value_set=known, skip_nulls=True)

    def are_distinct(self) -> bool:
        """Whether no two rows have the same."""
        found: int = len(self._first) if self._is_short else pc.count_distinct(self._numbered[1]).as_py()
        return found == len(self.rows)

    @property
    def _is_short(self) -> bool:
        return len(self.primary_key) > 1 and len(self.rows) <= self.few

    @property
    def _most_by_dictionary(self) -> int:
        """Up to so many others are found faster in a dictionary; -1 where none are."""
        if self._is_short:
            return self.few
        return len(self.rows) - 1 if self.often and len(self.rows) <= _MOST else -1

    @cached_property
    def _first(self) -> dict[tuple[object, ...], int]:
        """The index of the first row of each key without a NULL."""
        return {key: place for place, key in reversed([*enumerate(self._tuples(self.rows))]) if None not in key}

    @cached_property
    def _sorted(self) -> _Sorted | None:
        """The keys in order, where they are numbers: for few others that is quicker than to hash all of these each time."""
        column = self.rows.column(self.primary_key[0])
        if len(self.primary_key) > 1 or column.null_count or column.type.id not in _NUMBERS:
            return None
        return _Sorted.of(_numbers(column))

    def _tuples(self, rows: pa.Table) -> Iterable[tuple[object, ...]]:
        return zip(*(_plain(rows.column(name)) for name in self.primary_key), strict=True)

    @cached_property
    def _numbered(self) -> tuple[Sequence[_Numbering], Any]:
        """One column whose values are equal where the whole keys are, and how it was made."""
        first, *others = self.primary_key
        numbers: Any = self.rows.column(first)
        numbering = []
        for name in others:
            numbering.append(_Numbering(name, pc.unique(numbers), pc.unique(self.rows.column(name))))
            numbers = numbering[-1].of(numbers, self.rows)
        return numbering, numbers


@dataclass(frozen=True)
class _Sorted:
    """Numbers in ascending order, and where each stood before."""

    values: _Integers
    order: _Integers

    @classmethod
    def of(cls, values: _Integers) -> _Sorted:
        order = np.argsort(values, kind="stable")
        return cls(values[order], order)

    def places(self, others: _Integers) -> Any:
        """For each of the others, the first place of that number, or NULL."""
        found = np.minimum(np.searchsorted(self.values, others), len(self.values) - 1)
        return pa.array(self.order[found].astype(np.int32), mask=self.values[found] != others)


@dataclass(frozen=True)
class _Numbering:
    """Gives each pair of a number so far and a column's value a number of its own; NULL where one of the two is not known.

    Numbers so far are made dense first, so that the product stays below the square of how many rows there are, and fits 64 bits.
    """

    column: str
    before: Any
    """The distinct numbers so far."""
    values: Any
    """The distinct values of the column."""

    def of(self, numbers: Any, rows: pa.Table) -> Any:
        dense = pc.index_in(numbers, value_set=self.before, skip_nulls=True)
        values = pc.index_in(rows.column(self.column), value_set=self.values, skip_nulls=True)
        return pc.add(pc.multiply(dense, pa.scalar(len(self.values), pa.int64())), values)


def _numbers(column: pa.ChunkedArray[Any]) -> _Integers:
    """The numbers that the values are, of a type in `_NUMBERS` and without NULL."""
    values: Any = column.combine_chunks()
    return cast("_Integers", values.view(_NUMBERS[column.type.id]).to_numpy())


def _plain(column: pa.ChunkedArray[Any]) -> list[Any]:
    """The values; moments as numbers: Python's are slow to make, and end with the year 9999."""
    values: Any = column.combine_chunks()
    if (number := _NUMBERS.get(column.type.id)) is not None:
        values = values.view(number)
        if not values.null_count:
            return cast("list[Any]", values.to_numpy().tolist())
    return cast("list[Any]", values.to_pylist())


# The keys of a batch, as the files of each partition are compared with them.
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

_OFTEN = 8
"""Files from which a dictionary of the keys is worth its making."""

_NUMBER = "number in the batch"
"""A column beside those of the key; no column of a table has such a name."""


@dataclass(frozen=True)
class SomeKeys:
    """Keys of the batch, and the number of each in it."""

    keys: Keys
    numbers: Numbers


@dataclass(frozen=True)
class BatchKeys:
    """The keys of a batch, as the files of a partition are compared with them: in ten thousand partitions, each file with all
    of them took minutes."""

    fixed: tuple[str, ...]
    """Partition columns that are in the key: a file has only keys with the values of its own partition."""
    parts: Mapping[Partition, SomeKeys]
    """By the values of `fixed`."""

    @classmethod
    def of(cls, hot: Keys, partition_by: Sequence[str], files: int) -> BatchKeys:
        """`files` are compared with them."""
        key = hot.primary_key
        fixed = tuple(name for name in partition_by if name in key)
        if not fixed:
            often = replace(hot, often=files > _OFTEN)
            return cls((), {(): SomeKeys(often, np.arange(hot.rows.num_rows, dtype=np.int64))})
        numbered = hot.rows.select(key).append_column(_NUMBER, pa.array(np.arange(hot.rows.num_rows, dtype=np.int64)))
        parts = {
            partition: SomeKeys(Keys(rows, key), rows.column(_NUMBER).to_numpy()) for partition, rows in divided(numbered, fixed)
        }
        return cls(fixed, parts)

    def within(self, partition: Partition) -> SomeKeys:
        """Those that files of the partition may have."""
        return self.parts[tuple(pair for pair in partition if pair[0] in self.fixed)]
