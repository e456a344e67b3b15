"""A write by tasks that becomes visible at once: they stage their rows beside the log, and the driver publishes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from lakewarden.base.scope import Scope
from lakewarden.catalog.access import OPERATOR
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Table
from lakewarden.errors import Conflict, NotFound, Unsupported
from lakewarden.log.once import Resume, StagedPiece, Staging, WriterBatch
from lakewarden.log.record import OP, UPSERT, LogBatch, log_batch
from lakewarden.spark.connection import SparkConnection, called_by_spark
from lakewarden.spark.options import WriteOptions
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.effects import Keep
from lakewarden.tables.direct.identities import transaction_app
from lakewarden.tables.direct.run import DirectRun, resume
from lakewarden.tables.dynamic import LEASE_SECONDS, StreamPlace, take_place, writing
from lakewarden.tables.files import check_batch
from lakewarden.tables.images import check_newest
from lakewarden.tables.intake import TableIntake
from lakewarden.tables.warehouse import Warehouse, find_table

_PATIENCE = 2 * LEASE_SECONDS
"""Enough to learn whether another stream that has the place lives."""


class StagedRows(WriterCommitMessage):
    """What a task staged, for the driver."""

    def __init__(self, staging: Staging, pieces: tuple[StagedPiece, ...], place: StreamPlace | None) -> None:
        self.staging = staging
        self.pieces = pieces
        self.place = place
        """As its batch had it when it was planned."""


@dataclass(frozen=True)
class StagedWrite:
    """A write that was begun. Picklable: it is sent to the tasks."""

    connection: SparkConnection
    options: WriteOptions
    table: Table
    staging: Staging
    at_once: bool = False
    """Whether rows are visible as soon as a task has written them: the streams of a table whose log is `eventual`."""
    place: StreamPlace | None = None
    """The stream's place as the table's one streaming writer, where it takes one alone."""

    @classmethod
    def begin_stream(cls, connection: SparkConnection, options: WriteOptions) -> StagedWrite:
        """A batch of a stream, which takes its place first (FL-40).

        Raises:
            Conflict: another stream writes to the table; and as `begin`.
        """
        begun = cls.begin(connection, options)
        dynamic = begun.table.dynamic
        if dynamic is None or options.stream_id is None:
            return begun
        place = take_place(connection.open(), begun.table, options.stream_id, patience=_PATIENCE)
        return replace(begun, at_once=dynamic.log_consistency == "eventual", place=place)

    @classmethod
    def begin(cls, connection: SparkConnection, options: WriteOptions) -> StagedWrite:
        """Raises:
        NotFound, FailedPrecondition: the table does not exist; or it has no schema yet, or its engine is disabled.
        InvalidArgument: the table's type does not go with the options' user.
        Unsupported: the warehouse is of an older format.
        """
        warehouse = connection.open()
        catalog = warehouse.catalog.read()
        table = find_table(catalog, options.table)
        require_active(catalog, table.name.namespace)
        _intake(warehouse, table).owner(options.user, options.user_column)
        return cls(connection, options, table, warehouse.log(table).begin_batch())

    def stage(self, batches: Iterable[pa.RecordBatch]) -> StagedRows:
        """Checks the rows of a task and stages them, in pieces of about a segment each; or writes them `at_once`: a task that
        runs again writes the same rows by the same keys.

        Raises:
            ConstraintViolation, InvalidArgument: a row does not fit the table.
            LostPlace: another stream took over.
            StorageUnavailable: the store failed.
        """
        warehouse = self.connection.open()
        log, limits = warehouse.log(self.table), warehouse.settings.log
        pieces: list[StagedPiece] = []
        for rows in _gathered(batches, limits.segment_max_rows, limits.segment_max_bytes):
            batch = self._batch(warehouse, rows)
            if self.at_once:
                with writing(self.place, warehouse):
                    log.append(batch)
            else:
                pieces += log.stage(self.staging, batch)
        return StagedRows(self.staging, tuple(pieces), self.place)

    def publish(self, messages: Sequence[StagedRows], once: WriterBatch | None) -> None:
        """Makes the rows of all tasks visible, in the order of the tasks. With an identity, a batch that is there stays as it is.

        Raises:
            FailedPrecondition: a repair left uncertain whether it is there; the option `resume` says how to go on.
            Conflict: the tasks' rows are of several writes.
            LostPlace: another stream took over since the batch was planned.
            SchemaChanged: the table was altered since they were staged; write them again.
            LakewardenError: as `TableLog.publish`, or as a direct write; nothing is visible unless the message says so.
        """
        stagings = {each.staging for each in messages}
        if len(stagings) > 1:
            raise Conflict("the tasks' rows are of several writes: nothing was written; write them again")
        warehouse = self.connection.open()
        with writing(next((each.place for each in messages), self.place), warehouse):
            self._publish(warehouse, next(iter(stagings), self.staging), messages, once)

    def _publish(self, warehouse: Warehouse, staging: Staging, messages: Sequence[StagedRows], once: WriterBatch | None) -> None:
        pieces = [piece for each in messages for piece in each.pieces]
        log = warehouse.log(self.table)
        if once is not None and self.options.resume is not None:
            self._resume(warehouse, once, self.options.resume)
        if not pieces:
            log.abandon(staging)
        elif self._through_log:
            TableReader(warehouse, self.table, log).appending.publish(staging, pieces, once)
        else:
            check_newest(self.table, *(piece.schema_version for piece in pieces))
            rows = (each.drop_columns([OP]) for each in log.staged_rows(staging, pieces, self.table.schemas))
            self._append_past_log(warehouse, rows, once)
            log.abandon(staging)

    def abandon(self, messages: Iterable[StagedRows]) -> None:
        """Removes what was staged of a write that failed."""
        log = self.connection.open().log(self.table)
        with suppress(NotFound):  # a dropped table takes no segment
            # A commit whose answer was lost may still be on its way, to a position that it does not get behind this.
            log.take_position()
        for staging in {self.staging, *(each.staging for each in messages)}:
            log.abandon(staging)

    def _resume(self, warehouse: Warehouse, once: WriterBatch, how: Resume) -> None:
        """`skip` leaves this batch out, where it is not known which one was the last."""
        if self._through_log:
            warehouse.log(self.table).resume(once.writer, how, once.batch)
        else:
            resume(warehouse, self.table, once.writer, how, once.batch)

    @property
    def _through_log(self) -> bool:
        return self.table.schema.keyed or self.table.schema.append_only

    def _batch(self, warehouse: Warehouse, rows: pa.Table) -> LogBatch:
        intake = _intake(warehouse, self.table)
        if self._through_log:
            batch = intake.upserts(rows, self.options.user, self.options.user_column)
            assert isinstance(batch, LogBatch), "only a dict becomes a plain row"
        else:
            batch = log_batch(self.table.schema, intake.completed(rows, None), "", UPSERT)
        check_batch(
            self.table.schema, batch, lambda user: warehouse.target(warehouse.catalog.recent(), Scope(self.table.name, user))
        )
        return batch

    def _append_past_log(self, warehouse: Warehouse, rows: Iterator[pa.Table], once: WriterBatch | None) -> None:
        identity = None if once is None else replace(once, writer=transaction_app(self.table.id, once.writer))
        DirectRun(warehouse, self.table, DirectWrite("WRITE", Keep(), rows, {"mode": "Append"}, identity)).run()


def _intake(warehouse: Warehouse, table: Table) -> TableIntake:
    """The last row of a key counts: a table of Spark has no order in which a second one would be refused."""
    return TableIntake(table, warehouse.clock, warehouse.new_id, OPERATOR.user, repeats=True)


def _gathered(batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


class _Writer:
    """What a writer of a job and one of a stream do alike."""

    _begin = StagedWrite.begin

    def __init__(self, connection: SparkConnection, options: WriteOptions) -> None:
        with called_by_spark():
            self._write = self._begin(connection, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with called_by_spark():
            return self._write.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803  # Spark's name
        options = self._write.options
        with called_by_spark():
            self._write.publish(staged(messages), options.once(options.batch_id if batchId is None else batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803  # as above
        with called_by_spark():
            self._write.abandon(staged(messages))


class BatchWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc]  # `write`, as pyspark's own does
    """`df.write.format("lakewarden").mode("append")`: one atomic call for each job. Made where Spark plans the write, and sent to
    the tasks and to where the job is committed."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]  # as above
    """`df.writeStream.format("lakewarden")`: each batch of a stream once, whoever repeats it. Made anew for each batch where
    Spark plans it, and once more where it is committed: the tasks say what they staged."""

    # The number of a batch comes with its commit. So its rows are staged first, and the segment that makes them visible carries
    # the stream's id and the number: whether a batch is there is read from the log itself, also after its rows were flushed.

    _begin = StagedWrite.begin_stream


def check_append(*, overwrite: bool) -> None:
    """Raises Unsupported: the mode is not `append`."""
    if overwrite:
        raise Unsupported('the source only appends, and replaces rows by their keys: use .mode("append") or outputMode("append")')


def staged(messages: list[WriterCommitMessage | None]) -> list[StagedRows]:
    """Those of the tasks that ended."""
    return [each for each in messages if isinstance(each, StagedRows)]
