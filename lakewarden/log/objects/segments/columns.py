"""The chunks of an object with many users, in columns: nothing here loops over users."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.base.arrays import numbers, texts, values
from lakewarden.log.chunk import RowRange
from lakewarden.log.position import NOTHING

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

MANY = 1024
"""Chunks from which columns cost less than a tuple of `RowRange`."""


@dataclass(frozen=True, eq=False)
class Columns(Sequence[RowRange]):
    """Chunks of one object. As a sequence it makes each `RowRange` when it is taken out."""

    key: str
    put_id: str
    users: pa.Array[Any]
    rows: Numbers
    offsets: Numbers
    lengths: Numbers
    first_seqs: Numbers
    schema_versions: Numbers
    stored_ats: Numbers

    @classmethod
    def of(cls, key: str, put_id: str, ranges: Sequence[RowRange]) -> Columns:
        if isinstance(ranges, Columns):
            return ranges
        fields = list(zip(*ranges, strict=True))[2:] if ranges else [()] * 7
        return cls(key, put_id, texts(fields[0]), *(np.array(each, np.int64) for each in fields[1:]))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RowRange]:
        columns = (each.tolist() for each in self._numbers)
        users = cast("list[str]", self.users.to_pylist())
        rows, *others = columns
        return map(RowRange._make, zip(repeat(self.key), repeat(self.put_id), users, rows, *others, strict=False))

    @overload
    def __getitem__(self, index: int) -> RowRange: ...
    @overload
    def __getitem__(self, index: slice) -> Columns: ...
    def __getitem__(self, index: int | slice) -> RowRange | Columns:
        if isinstance(index, slice):
            return self.taken(np.arange(len(self))[index])
        at = range(len(self))[index]
        return RowRange(self.key, self.put_id, str(self.users[at].as_py()), *(int(each[at]) for each in self._numbers))

    @property
    def last_seqs(self) -> Numbers:
        return self.first_seqs + self.rows - 1

    @property
    def _numbers(self) -> tuple[Numbers, ...]:
        """The columns behind the user's, in the order of `RowRange`."""
        return self.rows, self.offsets, self.lengths, self.first_seqs, self.schema_versions, self.stored_ats

    def taken(self, which: Numbers | Mask) -> Columns:
        """The chunks at these indices, or where the mask is true."""
        at = np.asarray(np.flatnonzero(which) if which.dtype == np.bool_ else which, np.int64)
        if len(at) == len(self) and which.dtype == np.bool_:
            return self
        return Columns(self.key, self.put_id, self.users.take(numbers(at)), *(each[at] for each in self._numbers))

    def of_users(self, users: Collection[str]) -> Columns:
        """Those users' chunks."""
        return self.taken(self.has_user(users))

    def has_user(self, users: Collection[str]) -> Mask:
        """Where a chunk is one of these users'."""
        return values(pc.is_in(self.users, value_set=texts(users)))

    def settled(self, marks: Mapping[str, int]) -> Mask:
        """Where a chunk is at or below its user's mark."""
        if not marks:
            return np.zeros(len(self), np.bool_)
        found = pc.index_in(self.users, value_set=texts(marks.keys())).fill_null(len(marks)).cast(pa.int64())
        upto = np.array([*marks.values(), NOTHING], np.int64)[values(found)]
        return np.asarray(self.last_seqs <= upto)
