"""Reads one data file under the newest schema. Columns are found by id, not by name, so a rename needs no rewrite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.scope import Scope
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.failures import file_errors
from lakewarden.delta.parquet.files import (
    COLUMNS_KEY,
    PARTITION_KEY,
    SETTLED_KEY,
    TABLE_KEY,
    USER_KEY,
    VERSION_KEY,
    NewFile,
    columns_sum,
    new_file,
)
from lakewarden.delta.parquet.schema import SEQ, constant, field_id, file_schema, fitted
from lakewarden.delta.parquet.stats import of_file
from lakewarden.delta.partitions import NO_PARTITION, Partition
from lakewarden.delta.replay.paths import check_inside
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

# Reads the footer of a data file: its own properties, and those of a file that Spark wrote.

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_MAGIC = b"PAR1"
_ENDING = 8
"""A footer's length and the magic bytes, at the very end."""

_TAIL = 64 << 10
"""Bytes that are read at first: the footer of a few dozen columns and row groups."""

_MOST_FOOTER = 64 << 20


@dataclass(frozen=True)
class Footer:
    """What a data file tells about itself: whose rows it holds, and of which schema version. A file of others says neither."""

    rows: int
    schema_version: int | None
    table: str | None = None
    user: str | None = None
    """None in files of a SHARED table too."""
    settled_upto: int | None = None
    """The last possible `_seq` of what the flush that wrote it took from the log: its rows survived all deletions up to there."""
    partition: Mapping[int, str | None] = field(default_factory=dict)
    """The values of its partition columns as the log spells them, by the columns' ids."""

    def of_another(self, scope: Scope) -> bool:
        """Whether it says that it is another scope's. A file of others says nothing."""
        return self.table is not None and (self.table, self.user) != (str(scope.table), scope.user)


def footer_of(metadata: pq.FileMetaData) -> Footer:
    keys = metadata.metadata or {}
    version, table, user, settled = (_said(keys, key) for key in (VERSION_KEY, TABLE_KEY, USER_KEY, SETTLED_KEY))
    upto = None if settled is None else int(settled)
    partition: dict[int, str | None] = dict(json.loads(keys.get(PARTITION_KEY, b"[]")))
    return Footer(metadata.num_rows, None if version is None else int(version), table, user, upto, partition)


def spark_file(target: ScopeTarget, path: str, size: int) -> NewFile:
    """A file of the newest schema's columns and `_seq` that Spark wrote, by one read of its end, or two.

    Raises:
        Corrupt: it has not these columns, or is no Parquet.
    """
    metadata = read_footer(open_store(target.location), path, size)
    schema = file_schema(target.schema)
    with file_errors(path):
        found = metadata.schema.to_arrow_schema()
    if [(field.name, field.type) for field in found] != [(field.name, field.type) for field in schema]:
        raise Corrupt(
            f"Spark wrote {path} with the columns {found.to_string(show_field_metadata=False)}, not with the requested ones"
        )
    return new_file(target, path, size, metadata.num_rows, of_file(metadata, schema))


def _said(keys: Mapping[bytes, bytes], key: bytes) -> str | None:
    found = keys.get(key)
    return _spark_key(keys, key.decode()) if found is None else found.decode()


def _spark_key(keys: Mapping[bytes, bytes], name: str) -> Any:
    """Spark's writer takes no keys of ours, but keeps what a column's metadata say: they stand with `_seq`."""
    schema = json.loads(keys[_SPARK_SCHEMA]) if _SPARK_SCHEMA in keys else {"fields": []}
    return next((field["metadata"].get(name) for field in schema["fields"] if field["name"] == SEQ), None)


def read_footer(store: ObjectStore, path: str, size: int) -> pq.FileMetaData:
    """What the footer of a file of this many bytes says, by one read of its end, or two.

    Raises:
        Missing: it is not there.
        Corrupt: it is no Parquet file.
    """
    tail = store.get_range(path, max(0, size - _TAIL), min(max(size, _ENDING), _TAIL))
    length = int.from_bytes(tail[-_ENDING:-4], "little")
    if tail[-4:] != _MAGIC or not 0 < length <= min(size - _ENDING, _MOST_FOOTER):
        raise Corrupt("its end is not that of a Parquet file")
    if length + _ENDING > len(tail):
        tail = store.get_range(path, size - length - _ENDING, length + _ENDING)
    with file_errors(path):
        return pq.read_metadata(pa.BufferReader(_MAGIC + tail))


class OpenDataFile:
    """A data file whose footer has been read."""

    def __init__(self, path: str, parquet: pq.ParquetFile, footer: Footer, partition: Partition) -> None:
        self._path = path
        self._parquet = parquet
        self._partition = partition
        self.footer = footer

    @cached_property
    def _schema(self) -> pa.Schema:
        with file_errors(self._path):
            found = self._parquet.schema_arrow
            said = (self._parquet.metadata.metadata or {}).get(COLUMNS_KEY)
            if said is not None and said != columns_sum(found).encode():
                raise Corrupt(f"cannot read {self._path}: it is garbled: the checksum of its columns is another one")
            return found

    def read(self, wanted: pa.Schema, column_ids: Mapping[str, int]) -> pa.Table:
        """The wanted columns (a part of `read_schema`), found by id; one that the file has not has its initial value.

        Args:
            column_ids: the Delta table's columns at the version read, for files of others, which carry no ids of ours.
        """
        if self._is_as(wanted):
            return pa.Table.from_arrays(self._stored().columns, names=wanted.names)
        names = self.names(column_ids)
        present = [names[id_] for field in wanted if (id_ := field_id(field)) in names]
        return fitted(self.columns(present, column_ids), wanted, names, self._path)

    def read_with_ids(self, wanted: pa.Schema, column_ids: Mapping[str, int]) -> pa.Table:
        """As `read`; the fields of a file of ours keep their ids, with which it can be written again as it is."""
        return self._stored().replace_schema_metadata() if self._is_as(wanted) else self.read(wanted, column_ids)

    def _is_as(self, wanted: pa.Schema) -> bool:
        """Whether it is a file of ours with exactly these columns, as most files are: garbled ones are others."""
        with file_errors(self._path):
            found = self._parquet.schema_arrow.remove_metadata()
        return found.equals(wanted, check_metadata=True) and self.footer.schema_version is not None

    def columns(self, names: Sequence[str], column_ids: Mapping[str, int], *, use_threads: bool = False) -> pa.Table:
        """Columns as they stand in the file; those of its partition as `schema.constant` makes them."""
        constants = {_constant_name(id_): text for id_, text in self._constants(column_ids).items()}
        stored = self._stored([name for name in names if name not in constants], use_threads=use_threads)
        if stored.num_columns == len(names):
            return stored
        count = self._parquet.metadata.num_rows
        arrays = [constant(constants[name], count) if name in constants else stored.column(name) for name in names]
        return pa.Table.from_arrays(arrays, names=list(names))

    def _stored(self, names: Sequence[str] | None = None, *, use_threads: bool = False) -> pa.Table:
        """All columns of the file itself without `names`. A task has one core, and no use of threads."""
        with file_errors(self._path):
            return self._parquet.read(None if names is None else list(names), use_threads=use_threads)

    def check(self) -> None:
        """Reads every value, a row group at a time.

        Raises:
            Corrupt: the file is garbled.
        """
        names = self._schema.names
        with file_errors(self._path):
            for number in range(self._parquet.num_row_groups):  # `iter_batches` misses what `read` fails at
                self._parquet.read_row_group(number, names, use_threads=False)

    def names(self, column_ids: Mapping[str, int]) -> dict[int, str]:
        """The file's columns by id, with those of its partition; `column_ids` as in `read`."""
        fields = self._schema
        if self.footer.schema_version is not None:
            stored = {field_id(field): field.name for field in fields}
        else:
            stored = {column_ids[field.name]: field.name for field in fields if field.name in column_ids}
        return stored | {id_: _constant_name(id_) for id_ in self._constants(column_ids)}

    def _constants(self, column_ids: Mapping[str, int]) -> Mapping[int, str | None]:
        """The values of its partition columns by id: of our own files from the footer, which says them to every reader."""
        named = self.footer.partition
        return named or {column_ids[name]: text for name, text in self._partition if name in column_ids}


def _constant_name(column_id: int) -> str:
    """No column of a file has such a name."""
    return f"partition {column_id}"


def open_file(store: ObjectStore, path: str, partition: Partition = NO_PARTITION) -> OpenDataFile:
    """Reads a file's footer.

    Args:
        partition: what the log says of the file; those of our own say it themselves.

    Raises:
        Corrupt: it is missing, garbled or no Parquet.
        OutsideTable: the path leads outside the table, as a shallow clone's do.
    """
    try:
        source = store.source(check_inside(path, path, store.uri))
    except Missing:
        raise Corrupt(f"the data file {path} is named by the table and missing") from None
    with file_errors(path):
        # a path would be looked up as one of any file system first: a quarter of what a small file takes
        reader = pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(source, "r")
        parquet = pq.ParquetFile(reader, pre_buffer=False, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        footer = footer_of(parquet.metadata)
    return OpenDataFile(path, parquet, footer, partition)
