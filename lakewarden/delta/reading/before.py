"""Finds the row before each row of the log: an earlier one of the log, or one that was live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.delta.reading.keys import Keys
from lakewarden.log.record import OP, SEQ, UPSERT, USER


@dataclass(frozen=True)
class Before:
    """`rows` are the live ones, then those of the log, with the table's columns."""

    rows: pa.Table
    prior: NDArray[np.int64]
    """For each row of the log, the place in `rows` of the row before it; any where there was none."""
    was: NDArray[np.bool_]
    """For each row of the log, whether there was one."""

    @property
    def aligned(self) -> pa.Table:
        """For each row of the log the row before it, all NULL where there was none."""
        return self.rows.take(pa.array(np.where(self.was, self.prior, 0), pa.int64(), mask=~self.was))


def rows_before(live: pa.Table, rows: pa.Table, primary_key: Sequence[str]) -> Before:
    """
    Args:
        live: before all of them, at most one row for each key; more than those of these keys do no harm.
        rows: of the log, in its order.
    """
    columns = [name for name in rows.column_names if name not in (OP, SEQ, USER)]
    both = pa.concat_tables([live.select(columns).cast(rows.select(columns).schema), rows.select(columns)])
    ops = np.concatenate([np.full(live.num_rows, UPSERT, np.int8), rows.column(OP).to_numpy()])
    prior = _prior(both, primary_key)[live.num_rows :]
    return Before(both, prior, (prior >= 0) & (ops[prior] == UPSERT))


def _prior(rows: pa.Table, primary_key: Sequence[str]) -> NDArray[np.int64]:
    """For each row, the index of the row with its key that stands before it; -1 where there is none."""
    prior = np.full(rows.num_rows, -1, np.int64)
    if not rows.num_rows:
        return prior
    keys: Any = Keys(rows, primary_key).places(rows).fill_null(-1).to_numpy()
    order = np.argsort(keys, kind="stable")
    alike = (keys[order[1:]] == keys[order[:-1]]) & (keys[order[1:]] >= 0)
    prior[order[1:][alike]] = order[:-1][alike]
    return prior
