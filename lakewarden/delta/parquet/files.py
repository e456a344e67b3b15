"""Data files and change files: their properties, their names, and how they are written."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.clock import NewId
from lakewarden.base.quantities import grouped
from lakewarden.catalog.buckets import bucket_named, divided_by_bucket, in_bucket
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.schema import SEQ, file_schema
from lakewarden.delta.parquet.stats import ColumnFacts, of_rows, of_written, stats_text
from lakewarden.delta.partitions import NO_PARTITION, Partition, directory, divided
from lakewarden.delta.replay.actions import Vector
from lakewarden.storage.open import open_store

VERSION_KEY = b"lakewarden.schema_version"
MIN_KEY = b"lakewarden.min_seq"
MAX_KEY = b"lakewarden.max_seq"
TABLE_KEY = b"lakewarden.table"
USER_KEY = b"lakewarden.user"
"""Whose rows they are, wherever the file is copied to. Not in files of SHARED tables."""
PARTITION_KEY = b"lakewarden.partition"
"""The values of its partition columns, which are no columns of the file: a JSON list of column id and spelling."""
SETTLED_KEY = b"lakewarden.settled_upto"
"""In a flush's files: the last possible `_seq` of what it took from the log. Its rows survived what was deleted up to there."""
COLUMNS_KEY = b"lakewarden.columns"
"""The checksum of the columns' ids, names and types: pages have checksums of their own, and a footer has none."""

_ZSTD_LEVEL = 1
_DICTIONARY_ROWS = 4096
"""Rows from which dictionaries are tried: below, building them costs more time than the bytes are worth (0.09 of 0.21 ms)."""


@dataclass(frozen=True)
class NewFile:
    """A written data file that no version names yet. `stats` is Delta's JSON."""

    path: str
    size: int
    rows: int
    stats: str
    min_seq: int | None
    max_seq: int | None
    schema_version: int
    partition: Partition = NO_PARTITION

    def live(self, modified_ms: int = 0) -> DataFile:
        """The same as a live file."""
        seqs = self.min_seq, self.max_seq
        return DataFile(self.path, self.size, self.rows, modified_ms, *seqs, self.schema_version, self.partition)


class LoggedName(NamedTuple):
    """How a log names a file: its path as it is spelled there, and the vector that deletes rows of it."""

    path: str
    vector: Vector | None


class DataFile(NamedTuple):
    """A live data file. None means unknown: another program wrote the file.

    A tuple, because a scope that was never compacted has hundreds at every flush: made in a third of a dataclass's time.
    """

    path: str
    size: int
    rows: int | None
    modified_ms: int
    min_seq: int | None
    max_seq: int | None
    schema_version: int | None = None
    partition: Partition = NO_PARTITION
    logged: LoggedName | None = None
    """Where the log names it otherwise than we name files."""

    @property
    def age(self) -> tuple[int, str]:
        """Sorts files by their newest row; files of other writers, whose `_seq` is unknown, come first."""
        return (-1 if self.max_seq is None else self.max_seq, self.path)


def by_partition(files: Iterable[DataFile]) -> dict[Partition, tuple[DataFile, ...]]:
    """The files of each partition, in their order; all under one where there are no partition columns."""
    return grouped(files, lambda file: file.partition)


Place = tuple[Partition, int | None]
"""A partition, and the bucket of tables that have some."""


def place_of(file: DataFile) -> Place:
    return file.partition, bucket_named(file.path)


def by_place(files: Iterable[DataFile]) -> dict[Place, tuple[DataFile, ...]]:
    """The files of each bucket of each partition, in their order: those that a rewrite may put together."""
    return grouped(files, place_of)


def batch_name(number: int, new_id: NewId) -> str:
    """The name of a flush's file; `number` is one more than that of the scope's last batch."""
    return f"batch-{number}-{new_id()}.parquet"


def batch_folder(number: int, new_id: NewId) -> str:
    """The directory of a flush's files where Spark gives them their names."""
    return f"batch-{number}-{new_id()}"


def compact_name(new_id: NewId) -> str:
    return f"compact-{new_id()}.parquet"


def direct_name(new_id: NewId) -> str:
    """The name of a file of a direct write."""
    return f"direct-{new_id()}.parquet"


SHUFFLE = re.compile(r"shuffle-[0-9a-f]{32}\.arrow")
"""Names files with rows of several partitions that are yet to be written as data files (tables/direct/outputs.py)."""


def shuffle_name(new_id: NewId) -> str:
    return f"shuffle-{new_id()}.arrow"


def write_files(
    target: ScopeTarget, rows: pa.Table, name_of: Callable[[], str], settled_upto: int | None = None
) -> list[NewFile]:
    """Writes rows (the newest schema's columns and `_seq`, in any order) as one data file for each partition and bucket.

    Args:
        name_of: names a file within the directory of its partition.
        settled_upto: what a flush says under `SETTLED_KEY`.
    """
    parts = divided(rows, target.schema.partition_by)
    return [file for partition, own in parts for file in write_partition(target, partition, own, name_of, settled_upto)]


def write_partition(
    target: ScopeTarget, partition: Partition, rows: pa.Table, name_of: Callable[[], str], settled_upto: int | None = None
) -> list[NewFile]:
    """The same for rows that are all of one partition."""
    return [_write_part(target, partition, part, name, settled_upto) for name, part in _bucketed(target, rows, name_of)]


def _bucketed(target: ScopeTarget, rows: pa.Table, name_of: Callable[[], str]) -> Iterator[tuple[str, pa.Table]]:
    if target.buckets == 1:
        yield name_of(), rows
        return
    for bucket, part in divided_by_bucket(rows, target.schema.primary_key, target.buckets):
        yield in_bucket(bucket, name_of()), part


def _write_part(target: ScopeTarget, partition: Partition, rows: pa.Table, name: str, settled_upto: int | None) -> NewFile:
    schema = file_schema(target.schema)
    is_so = rows.schema.equals(schema, check_metadata=True)
    ordered = rows if is_so else pa.Table.from_arrays([rows.column(name) for name in schema.names], schema=schema)
    settled = {} if settled_upto is None else {SETTLED_KEY: str(settled_upto)}
    footer = scope_keys(target) | _seq_keys(*seq_range(ordered)) | partition_keys(target, partition) | settled
    data, metadata = parquet_of(ordered, target, footer)
    path = f"{directory(partition)}{name}"
    open_store(target.location).write(path, memoryview(data))
    return new_file(target, path, data.size, ordered.num_rows, of_written(ordered, metadata), partition)


def new_file(
    target: ScopeTarget, path: str, size: int, rows: int, columns: Sequence[ColumnFacts], partition: Partition = NO_PARTITION
) -> NewFile:
    """Describes a written file of this many bytes and rows; `columns` are those of `file_schema`, so `_seq` is the last."""
    first, last = columns[-1].ends or (None, None)
    return NewFile(path, size, rows, stats_text(rows, columns), first, last, target.schema.version, partition)


def partition_keys(target: ScopeTarget, partition: Partition) -> dict[bytes, str]:
    """What a file says of the partition that it is in."""
    if not partition:
        return {}
    ids = {column.name: column.id for column in target.schema.columns}
    return {PARTITION_KEY: json.dumps([[ids[name], text] for name, text in partition])}


def seq_range(rows: pa.Table) -> tuple[int | None, int | None]:
    """The lowest and highest `_seq`, None where no row has one."""
    return of_rows(rows.column(SEQ)) or (None, None)


def _seq_keys(first: int | None, last: int | None) -> dict[bytes, str]:
    return {} if first is None else {MIN_KEY: str(first), MAX_KEY: str(last)}


def scope_keys(target: ScopeTarget) -> dict[bytes, str]:
    """What every data file of the scope says of itself: whose rows they are, and of which schema version."""
    user = {} if target.scope.user is None else {USER_KEY: target.scope.user}
    return {VERSION_KEY: str(target.schema.version), TABLE_KEY: str(target.scope.table)} | user


def columns_sum(schema: pa.Schema) -> str:
    """What a file says under `COLUMNS_KEY`."""
    columns = [f"{(field.metadata or {}).get(b'PARQUET:field_id', b'').decode()} {field.name} {field.type}" for field in schema]
    return f"{zlib.crc32(chr(10).join(columns).encode()):08x}"


def parquet_of(rows: pa.Table, target: ScopeTarget, footer: Mapping[bytes, str]) -> tuple[pa.Buffer, pq.FileMetaData]:
    """The rows as a Parquet file in the table's compression, and what its footer says."""
    out = pa.BufferOutputStream()
    written: list[pq.FileMetaData] = []
    with pq.ParquetWriter(
        out,
        rows.schema,
        compression=target.compression,
        compression_level=_ZSTD_LEVEL if target.compression == "zstd" else None,
        use_dictionary=rows.num_rows >= _DICTIONARY_ROWS,
        metadata_collector=written,
        write_page_checksum=True,  # so that garbled bytes are no other values: every reader may compare them, and ours do
        store_schema=False,  # Arrow's own copy of the schema: the field ids and logical types say the same
    ) as writer:
        writer.write_table(rows)
        said = {**footer, COLUMNS_KEY: columns_sum(rows.schema)}
        writer.add_key_value_metadata({key.decode(): value for key, value in said.items()})
    return out.getvalue(), written[0]


# Change files: rows with how each of them changed, beside the data files, for readers of Delta's change data feed.
#
# They say what a commit did to rows where its data files do not: a file that is replaced has rows that stay.

CHANGE_FOLDER: Final = "_change_data"
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
    path = f"{CHANGE_FOLDER}/{directory(partition)}cdc-{new_id()}.parquet"
    open_store(target.location).write(path, memoryview(data))
    return ChangeFile(path, data.size, rows.num_rows, partition)
