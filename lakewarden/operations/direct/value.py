"""What a direct write is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Batches = Iterable[pa.Table | pa.RecordBatch]
"""Rows with the columns of the newest schema, checked and complete; their `_seq` is given by the write."""


@dataclass(frozen=True)
class Edit:
    """What becomes of the rows of one file."""

    gone: pa.Array[Any]
    """The numbers, from 0, of the rows that leave the file."""
    rows: pa.Table
    """Rows that come: new versions of those that left, or others. Columns as in `Batches`."""


Decide = Callable[[pa.Table], Edit]
"""Takes the rows of one file: the columns of the newest schema, and `_seq`. Called again where a commit lost."""

Within = Callable[[pa.Table], Any]
"""Takes partitions, one a row, with the partition columns; returns a mask of those that are meant."""


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
