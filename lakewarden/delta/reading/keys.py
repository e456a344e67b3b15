"""Looks rows up by their primary keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.delta.parquet.schema import SEQ


@dataclass(frozen=True)
class Keys:
    """Rows, by whose keys others are looked up. `numbers` are one column whose values are equal where the whole keys are."""

    rows: pa.Table
    first: str
    numbering: tuple[_Numbering, ...]
    numbers: Any

    @classmethod
    def of(cls, rows: pa.Table, primary_key: Sequence[str]) -> Keys:
        first, *others = primary_key
        numbers: Any = rows.column(first)
        numbering = []
        for name in others:
            numbering.append(_Numbering(name, pc.unique(numbers), pc.unique(rows.column(name))))
            numbers = numbering[-1].of(numbers, rows)
        return cls(rows, first, tuple(numbering), numbers)

    @classmethod
    def newest(cls, rows: pa.Table, primary_key: Sequence[str]) -> Keys:
        """Those of the newest row of each key. `_seq` is one row's own within a scope."""
        every = cls.of(rows, primary_key)
        if pc.count_distinct(every.numbers).as_py() == rows.num_rows:
            return every
        by_key = pa.table({"key": every.numbers, "seq": rows.column(SEQ)}).group_by("key", use_threads=False)
        newest = by_key.aggregate([("seq", "max")])
        return cls.of(rows.filter(pc.is_in(rows.column(SEQ), value_set=newest.column("seq_max"))), primary_key)

    def places(self, others: pa.Table) -> Any:
        """For each of the other rows, the index of the first of these with its key; NULL where there is none, and where a part
        of its key is NULL (as only rows of other writers have it)."""
        numbers: Any = others.column(self.first)
        for each in self.numbering:
            numbers = each.of(numbers, others)
        return pc.index_in(numbers, value_set=self.numbers, skip_nulls=True)


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
