"""`spark.readStream.format("lakewarden")`: the change feed of a table in micro-batches.

An offset is the table's id, and the `_seq` up to which changes were read; before the snapshot of a full read, the id alone.
What a batch reads follows from its two offsets, so a restart from the checkpoint repeats it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.parquet.files import CHANGE_TYPE
from lakewarden.errors import InvalidArgument
from lakewarden.log.record import USER
from lakewarden.spark.columns import chosen, source_schema
from lakewarden.spark.connection import SparkConnection, called_by_spark
from lakewarden.spark.options import StreamOptions
from lakewarden.spark.packs import packed, part_bytes, scope_packs
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.changes.value import Start

Offset = dict[str, str | int]

_BATCH = 1 << 14
"""The most rows of a batch of Arrow's."""


def stream_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a stream: those of a read, and `_change_type`."""
    return source_schema(schema).append(pa.field(CHANGE_TYPE, pa.string()))


def stream_columns(schema: TableSchema) -> StructType:
    """The same in Spark's types."""
    return from_arrow_schema(stream_schema(schema))


@dataclass(frozen=True)
class StreamPartition(InputPartition):
    """Changes of some users, beyond `after` up to `upto`; without `after`, their rows as of `upto`."""

    users: tuple[str, ...] | None
    table_id: str
    after: int | None
    upto: int


class ChangeStream(DataSourceStreamReader):
    """Made in a process of Spark's driver, and pickled into tasks."""

    def __init__(self, connection: SparkConnection, options: StreamOptions, columns: StructType | None = None) -> None:
        """
        Args:
            columns: those that the query has, where it names them; all by default.
        """
        self._connection = connection
        self._options = options
        with called_by_spark():
            table = streamable(connection, options)
            self._schema = chosen(stream_schema(table.schema), columns)
        self._table_id = table.id
        self._start = options.start or Start.of_table(table)
        self._planned: Offset | None = None
        """Where the batch that was planned last ends. Spark says it with the first batch, and not before."""

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's name
        """Where a query without a checkpoint starts."""
        with called_by_spark():
            seq = self._feed(self._table_id).start(self._start)
            self._planned = self._offset(seq)
            return self._planned

    def latestOffset(self) -> Offset:  # noqa: N802
        """Where the next batch ends: with `max_rows`, about this many rows beyond the last one."""
        with called_by_spark():
            feed, after = self._feed(self._table_id), _seq(self._planned or {})
            return self._offset(feed.end() if after is None else feed.upto(after, self._options.max_rows))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        with called_by_spark():
            self._planned = end
            upto, after, table_id = _seq(end), _seq(start), str(start["table"])
            feed = self._feed(table_id)
            feed.table()  # a query that slept meets another table of the name, and none of its rows
            if upto is None or upto == after:
                return []
            if after is None:
                return [StreamPartition(users, table_id, None, upto) for users in self._snapshot(feed)]
            if feed.table().type == "SHARED":
                return [StreamPartition(None, table_id, first, last) for first, last in self._divided(feed, after, upto)]
            return [StreamPartition(users, table_id, after, upto) for users in self._changed(feed, after, upto)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPartition), "made by `partitions`"
        with called_by_spark():
            feed = self._feed(partition.table_id, partition.users)
            if partition.after is None:
                found: Iterator[pa.Table] = feed.rows_at(partition.upto)
            else:
                found = iter([feed.changes(partition.after, partition.upto).rows])
            for rows in found:
                yield from _shaped(rows, self._schema).combine_chunks().to_batches(_BATCH)

    def _offset(self, seq: int | None) -> Offset:
        return {"table": self._table_id} | ({} if seq is None else {"seq": seq})

    def _feed(self, table_id: str, users: tuple[str, ...] | None = None) -> ChangeFeed:
        options = self._options
        return ChangeFeed(self._connection.open(), options.table, users or options.users, table_id, self._start.at)

    def _snapshot(self, feed: ChangeFeed) -> Sequence[tuple[str, ...] | None]:
        table = feed.table()
        if table.type == "SHARED":
            return [None]
        return scope_packs(self._connection.open(), table, self._options.users, "strong", self._connection.cores)

    def _divided(self, feed: ChangeFeed, after: int, upto: int) -> Iterator[tuple[int, int]]:
        """The parts of a SHARED table's changes: one after the other, each in the order of `_seq`."""
        size = part_bytes(sum(feed.changed(after, upto).values()), self._task_bytes, self._connection.cores)
        return pairwise([after, *feed.divided(after, upto, size)])

    def _changed(self, feed: ChangeFeed, after: int, upto: int) -> Sequence[tuple[str, ...]]:
        changed = feed.changed(after, upto)
        return packed(sorted(changed), changed, self._task_bytes, self._connection.cores)

    @property
    def _task_bytes(self) -> int:
        return self._connection.open().settings.spark.task_bytes


def streamable(connection: SparkConnection, options: StreamOptions) -> Table:
    """The table, if it exists and its engine is enabled."""
    return ChangeFeed(connection.open(), options.table, options.users).table()


def _seq(offset: Mapping[str, str | int]) -> int | None:
    return int(offset["seq"]) if "seq" in offset else None


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns that the query was planned with; later ones are left out.

    Raises:
        InvalidArgument: the table lost one of them.
    """
    if lost := set(schema.names) - set(rows.column_names) - {USER}:
        raise InvalidArgument(f"column {sorted(lost)[0]} was dropped or renamed since the query was started: start it again")
    given = dict(zip(rows.column_names, rows.columns, strict=True))
    columns = [given[name] if name in given else pa.nulls(rows.num_rows, pa.string()) for name in schema.names]
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)
