"""The keys of a batch, as the files of each partition are compared with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakewarden.delta.partitions import Partition, divided
from lakewarden.delta.reading.keys import Keys

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
