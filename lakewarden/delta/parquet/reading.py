"""Reads one data file under the newest schema. Columns are found by id, not by name, so a rename needs no rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.delta.failures import file_errors
from lakewarden.delta.parquet.files import COLUMNS_KEY, columns_sum
from lakewarden.delta.parquet.fitting import constant, field_id, fitted
from lakewarden.delta.parquet.footer import Footer, footer_of
from lakewarden.delta.partitions import NO_PARTITION, Partition
from lakewarden.delta.replay.paths import check_inside
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing, ObjectStore


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
        """Columns as they stand in the file; those of its partition as `fitting.constant` makes them."""
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
