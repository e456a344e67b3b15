"""Reads the tables of any writer: at their newest version, or at one of their past.

Nothing is written, and nothing outside of the table's own directory is read (`delta.replay.paths`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.clock import from_millis, to_millis
from lakewarden.base.connection import Location
from lakewarden.delta.failures import file_errors
from lakewarden.delta.features import check_readable
from lakewarden.delta.past import AsOf
from lakewarden.delta.replay.actions import Vector, read_commit
from lakewarden.delta.replay.columns import DeltaColumns
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_objects import MOST_COMMIT, LogObjects
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.delta.replay.paths import check_inside
from lakewarden.delta.replay.segment import LOG, LogFiles, commit_name
from lakewarden.delta.replay.vectors import mask_of
from lakewarden.errors import Corrupt, NotFound
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


@dataclass(frozen=True)
class ForeignTable:
    """One version of a table of any writer; made by `open`."""

    state: LogState

    @classmethod
    def open(cls, location: Location, as_of: AsOf | None = None) -> ForeignTable:
        """Opens the newest version, or that of the past.

        Raises:
            NotFound: there is no Delta table, or no such version.
            Corrupt: its log is damaged.
            Unsupported: it has a feature or a type of column that is not read, or its log is larger than is read.
            OutsideTable: its log leads out of the table's own directory.
        """
        version = None if as_of is None else as_of.version
        if as_of is not None and as_of.moment is not None:
            version = version_at(location, as_of.moment)
        state = replay(location, version)
        if state is None:
            raise NotFound(f"there is no Delta table at {location.uri}")
        check_readable(state)
        return cls(state)

    @cached_property
    def columns(self) -> DeltaColumns:
        """Raises as `DeltaColumns.of`."""
        return DeltaColumns.of(self.state.metadata)

    @property
    def schema(self) -> pa.Schema:
        return self.columns.schema

    def files(self) -> Iterator[LiveFile]:
        """The live files, by their keys."""
        found = self.state.files.sort_by([("key", "ascending"), ("vectorId", "ascending")])
        for part in found.to_batches(max_chunksize=10_000):
            table = pa.Table.from_batches([part])
            partitions = table.column("partitionValues").to_pylist(maps_as_pydicts="lossy")
            named = zip(table.column("key").to_pylist(), table.column("path").to_pylist(), strict=True)
            for (key, path), values, vector in zip(named, partitions, vectors_of(table), strict=True):
                yield LiveFile(str(key), str(path), values or {}, vector)

    def parts(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, some at a time. `names` of columns; None for all.

        Raises:
            InvalidArgument: there is no such column.
            Corrupt: a file or a vector is missing or garbled.
            OutsideTable, Unsupported: as `open`.
        """
        columns = self.columns if names is None else self.columns.only(names)
        store = open_store(self.state.location)
        for file in self.files():
            yield from _rows(file, columns, store, self.state.location)

    def rows(self, names: Sequence[str] | None = None) -> pa.Table:
        """All rows. Raises as `parts`."""
        schema = self.schema if names is None else self.columns.only(names).schema
        return pa.concat_tables([schema.empty_table(), *self.parts(names)])


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
    for key in dict.fromkeys((check_inside(file.key, file.path, location), file.path)):
        try:
            return store.source(check_inside(key, file.path, location))
        except Missing:
            continue
    raise Corrupt(f"hollow: the data file {file.key} of {location.uri} is named by the log and missing")


def version_at(location: Location, moment: datetime) -> int:
    """The version that was the newest at that moment: by the commits' own times where the table keeps them, else by when their
    objects were written ("In-Commit Timestamps").

    Raises:
        NotFound: there was none, or it has left the log.
    """
    store = open_store(location)
    listing = store.list(LOG)
    files = LogFiles.of(found.key for found in listing)
    written = {found.key: to_millis(found.modified) for found in listing}
    reader, limit = LogObjects(location), to_millis(moment)
    for version in sorted(files.commits, reverse=True):
        if _time_of(reader, version, written[commit_name(version)]) <= limit:
            return version
    oldest = min(files.commits, default=None)
    if oldest is None:
        raise NotFound(f"there is no Delta table at {location.uri}")
    first = from_millis(_time_of(reader, oldest, written[commit_name(oldest)]))
    raise NotFound(f"{location.uri} had no version at {moment.isoformat()}: the oldest in its log is of {first.isoformat()}")


def _time_of(log: LogObjects, version: int, written: int) -> int:
    """In milliseconds since the epoch."""
    info = read_commit(version, log.read(commit_name(version), MOST_COMMIT)).info
    said = info.get("inCommitTimestamp")
    return said if isinstance(said, int) else written
