"""The rows of a replayed version: its files by the table's own columns, without the rows that vectors delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.connection import Location
from lakewarden.delta.failures import file_errors
from lakewarden.delta.replay.actions import Vector
from lakewarden.delta.replay.columns import DeltaColumns
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_state import LogState
from lakewarden.delta.replay.paths import check_inside
from lakewarden.delta.replay.vectors import mask_of
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store


@dataclass(frozen=True)
class LiveFile:
    """A file of a version, and which of its rows are deleted."""

    key: str
    path: str
    """As the log has it."""
    partition: dict[str, str | None]
    vector: Vector | None


def row_parts(state: LogState, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows, some at a time. `names` of columns; None for all.

    Raises:
        InvalidArgument: there is no such column.
        Corrupt: a file or a vector is missing or garbled.
        Unsupported: a column has a type that is not read.
        OutsideTable: a file or a vector is not in the table's own directory.
    """
    columns = _columns(state, names)
    store = open_store(state.location)
    for file in _files(state):
        yield from _rows(file, columns, store, state.location)


def all_rows(state: LogState, names: Sequence[str] | None = None) -> pa.Table:
    """All rows. Raises as `row_parts`."""
    return pa.concat_tables([_columns(state, names).schema.empty_table(), *row_parts(state, names)])


def _columns(state: LogState, names: Sequence[str] | None) -> DeltaColumns:
    columns = DeltaColumns.of(state.metadata)
    return columns if names is None else columns.only(names)


def _files(state: LogState) -> Iterator[LiveFile]:
    """The live files, by their keys."""
    found = state.files.sort_by([("key", "ascending"), ("vectorId", "ascending")])
    for part in found.to_batches(max_chunksize=10_000):
        table = pa.Table.from_batches([part])
        partitions = table.column("partitionValues").to_pylist(maps_as_pydicts="lossy")
        named = zip(table.column("key").to_pylist(), table.column("path").to_pylist(), strict=True)
        for (key, path), values, vector in zip(named, partitions, vectors_of(table), strict=True):
            yield LiveFile(str(key), str(path), values or {}, vector)


def _rows(file: LiveFile, columns: DeltaColumns, store: ObjectStore, location: Location) -> Iterator[pa.Table]:
    source = _source(file, store, location)
    with file_errors(file.key):
        reader = pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(source, "r")
        parquet = pq.ParquetFile(reader, pre_buffer=False, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        stored, metadata = columns.stored(parquet.schema_arrow), parquet.metadata
    mask = None if file.vector is None else mask_of(file.vector, metadata.num_rows, store, location)
    first = 0
    for number in range(metadata.num_row_groups):
        with file_errors(file.key):
            found = parquet.read_row_group(number, stored, use_threads=False)
        rows = columns.rows(found, found.num_rows, file.partition)
        yield rows if mask is None else rows.filter(pa.array(~mask[first : first + found.num_rows]))
        first += found.num_rows


def _source(file: LiveFile, store: ObjectStore, location: Location) -> str | bytes:
    """A file by its path, and where that is not there, by what a writer who did not escape it meant."""
    for key in dict.fromkeys((check_inside(file.key, file.path, location.uri), file.path)):
        try:
            return store.source(check_inside(key, file.path, location.uri))
        except Missing:
            continue
    raise Corrupt(f"hollow: the data file {file.key} of {location.uri} is named by the log and missing")
