"""Change files: rows with how each of them changed, beside the data files, for readers of Delta's change data feed.

They say what a commit did to rows where its data files do not: a file that is replaced has rows that stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakewarden.base.clock import NewId
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import parquet_of, partition_keys, scope_keys
from lakewarden.delta.parquet.schema import file_schema
from lakewarden.delta.partitions import NO_PARTITION, Partition, directory, divided
from lakewarden.storage.open import open_store

FOLDER: Final = "_change_data"
"""Where Delta has them, in directories of partitions as the data files are."""

CHANGE_TYPE: Final = "_change_type"
INSERT: Final = "insert"
PREIMAGE: Final = "update_preimage"
POSTIMAGE: Final = "update_postimage"
DELETED: Final = "delete"


@dataclass(frozen=True)
class ChangeFile:
    """A written change file that no commit names yet; `size` in bytes."""

    path: str
    size: int
    rows: int
    partition: Partition = NO_PARTITION


def change_type() -> pa.Field[Any]:
    return pa.field(CHANGE_TYPE, pa.string())


def with_type(rows: pa.Table, types: str | Sequence[str]) -> pa.Table:
    """The rows with how they changed: one word for all, or one for each."""
    column = pa.repeat(types, rows.num_rows) if isinstance(types, str) else pa.array(types, pa.string())
    return rows.append_column(change_type(), pa.chunked_array([column]))


def write_changes(target: ScopeTarget, rows: pa.Table, new_id: NewId) -> list[ChangeFile]:
    """Writes rows (the newest schema's columns, `_seq` and `_change_type`, in any order) as one file for each partition."""
    parts = divided(rows, target.schema.partition_by)
    return [_written(target, partition, part, new_id) for partition, part in parts if part.num_rows]


def _written(target: ScopeTarget, partition: Partition, rows: pa.Table, new_id: NewId) -> ChangeFile:
    schema = file_schema(target.schema).append(change_type())
    ordered = pa.Table.from_arrays([rows.column(name) for name in schema.names], schema=schema)
    data, _ = parquet_of(ordered, target, scope_keys(target) | partition_keys(target, partition))
    path = f"{FOLDER}/{directory(partition)}cdc-{new_id()}.parquet"
    open_store(target.location).write(path, memoryview(data))
    return ChangeFile(path, data.size, rows.num_rows, partition)
