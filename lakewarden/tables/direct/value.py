"""What a direct write is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.quantities import portions
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile
from lakewarden.delta.partitions import Partition

Batches = Iterable[pa.Table | pa.RecordBatch]
"""Rows with the columns of the newest schema, checked and complete; their `_seq` is given by the write."""

Reserve = Callable[[int], int]
"""Takes a number of rows, at most `WHOLE` (log/position.py); returns the first of as many consecutive `_seq`. Some may stay
unused. Not for several threads."""


@dataclass(frozen=True)
class TaskFiles:
    """Rows that tasks write to data files, in this process or elsewhere, instead of passing them on."""

    write: Callable[[ScopeTarget, Reserve], Sequence[NewFile]]
    """Returns the files, which are durable where they were written. Called once. If it raises, what it wrote is its own to
    delete; what it returns is committed or deleted."""


Given = Batches | TaskFiles
"""The rows that a direct write adds."""


@dataclass(frozen=True)
class Edit:
    """What becomes of the rows of one file, or of several small ones."""

    gone: pa.Array[Any]
    """The numbers, from 0, of the rows that leave."""
    rows: pa.Table
    """Rows that come: new versions of those that left, or others. Columns as in `Batches`."""

    @classmethod
    def without(cls, rows: pa.Table, gone: Any, names: Sequence[str]) -> Edit:
        """Rows leave, as a mask says, and none come. `names`: the columns of the table."""
        return cls(pc.indices_nonzero(gone).cast(pa.int64()), rows.slice(0, 0).select(names))


Decide = Callable[[pa.Table], Edit]
"""Takes the rows of one file, or of several small ones: the columns of the newest schema, and `_seq`. Called again where a commit
lost."""

Within = Callable[[Collection[Partition]], Collection[Partition]]
"""Of some partitions, those that a write can concern."""


@dataclass(frozen=True)
class DirectResult:
    """What a direct write did. `version` is the table's Delta version then; None when there is no table."""

    version: int | None
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    committed: bool
    """False where no row matched, so that no commit was needed."""
    job_id: str
    last_seq: int
    """The last possible `_seq` of its rows; -1 without a commit."""
    repeated: bool = False
    """Whether the table had the write before, so that nothing was committed (`log.once.WriterBatch`)."""


# Cuts rows that come in batches into parts of about the same size, of which each becomes data files.
def in_parts(batches: Batches, size: int) -> Iterator[pa.Table]:
    """Yields the rows in tables of about `size` bytes in memory; holds no more than one of them and one batch."""
    tables = (batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]) for batch in batches)
    pieces = (piece for table in tables for piece in _pieces(table, size))
    return map(pa.concat_tables, portions(pieces, lambda piece: piece.nbytes, size))


def _pieces(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    if not rows.num_rows:
        return
    # By the mean size of a row; at least one row, however large.
    step = max(1, rows.num_rows * size // max(rows.nbytes, 1))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)
