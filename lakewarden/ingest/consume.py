"""Takes the messages of a topic into a table: what is committed there now, each message once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import TableName
from lakewarden.errors import FailedPrecondition, NotFound
from lakewarden.ingest.pipelines.rejects import rejects_table
from lakewarden.ingest.record_fit import Fit, MessageFit, Misfit
from lakewarden.ingest.record_formats import decoder
from lakewarden.ingest.topic_report import ConsumeReport, PartitionReport
from lakewarden.log.once import Resume, WriterBatch
from lakewarden.log.record import OP, USER, LogBatch
from lakewarden.maintenance.open_table import open_table
from lakewarden.storage.kafka_topics import MessageBatch, OffsetRange, Topic, partitions_of, reading, topic_id
from lakewarden.tables.client import TableClient
from lakewarden.tables.dynamic import StreamPlace, holding_place, writing
from lakewarden.tables.warehouse import Warehouse, find_table


@dataclass(frozen=True)
class TopicLanding:
    """Takes the batches of one partition, each once by the offsets that it covers: through the write log, which keeps these
    beside the rows; of a table without a primary key by one Delta commit, which carries them."""

    client: TableClient
    app: str

    @property
    def _is_direct(self) -> bool:
        table = self.client.table
        return table.type == "SHARED" and not table.schema.keyed

    def taken_upto(self) -> int | None:
        """Returns the offset behind the last batch; None before the first.

        Raises:
            FailedPrecondition: it is uncertain since a repair.
        """
        return self.client.direct.last_once(self.app) if self._is_direct else self.client.log.published(self.app)

    def resume(self, how: Resume, end: int) -> None:
        """Says from where to go on where a repair left that uncertain. `end`: behind the last message that there is now."""
        (self.client.direct if self._is_direct else self.client.log).resume(self.app, how, end)

    def take(self, batch: LogBatch, once: WriterBatch) -> bool:
        """Takes a batch, unless others were taken since `once.above`; returns whether it did.

        Raises:
            BeingErased: rows are of a user who is being erased; nothing was taken.
            Conflict, StorageUnavailable: try again; nothing was taken, or all of it.
        """
        if self._is_direct:
            return not self.client.direct.append([batch.rows.drop_columns([OP, USER])], once=once).repeated
        return self.client.reader.appending.append_once(batch, once) is not None


@dataclass(frozen=True)
class ConsumeRequest:
    """An ingest of a topic as it was requested."""

    table: TableName
    topic: Topic
    value_format: str = "debezium-json"
    user: str | None = None
    user_column: str | None = None
    skip_lost: bool = False
    """Go on although messages expired before they were taken."""
    batch_messages: int = 10_000
    resume: Resume | None = None
    """How to go on where a repair left uncertain what was taken."""


@dataclass(frozen=True)
class Consumer:
    """An ingest of a topic that goes on. Created by `consuming`. For one thread."""

    warehouse: Warehouse
    request: ConsumeRequest
    place: StreamPlace | None
    """As the one streaming writer of a dynamic table."""
    reach: Reach

    def look(self, resume: Resume | None = None) -> ConsumeReport:
        """Takes what the topic has behind the last ingest. Others may do the same at the same time.

        Args:
            resume: how to go on where a repair left uncertain what was taken.

        Raises:
            LostPlace: another stream writes to the table: open another consumer when that one ended.
            NotFound: the table or the topic does not exist.
            InvalidArgument: a bad format, or whose the rows are does not fit the table.
            FailedPrecondition: messages expired before they were taken; `skip_lost` goes on without them. Or a repair left
                uncertain which were taken; `resume` says how to go on.
            BeingErased: rows are of a user who is being erased; try again when that is over.
            Conflict, StorageUnavailable: try again: what was taken is not taken twice.
        """
        warehouse, request, reach = self.warehouse, replace(self.request, resume=resume), self.reach
        with writing(self.place, warehouse):
            table = find_table(warehouse.catalog.read(), request.table)
            client = open_table(warehouse, table)
            fit = Fit.of(client, decoder(request.value_format), request.user, request.user_column)
            partitions = partitions_of(request.topic)
            if partitions is None:
                raise NotFound(f"Kafka at {request.topic.broker.servers} has no {request.topic}")
            source = f"kafka/{topic_id(request.topic)}"
            with reading(request.topic) as reader:
                each = (
                    PartitionConsumer(client, request, fit, reader, f"{source}/{number}", number, reach, self.place)
                    for number in range(partitions)
                )
                taken = [one.take() for one in each]
            return ConsumeReport(table.name, request.topic.name, tuple(taken))


@contextmanager
def consuming(warehouse: Warehouse, request: ConsumeRequest, reach: Reach = no_faults) -> Iterator[Consumer]:
    """Opens the ingest of a topic: into a dynamic table, it is a stream, and has its place while it is open.

    Raises:
        NotFound: the table does not exist.
        Conflict: another stream writes to the dynamic table.
    """
    table = find_table(warehouse.catalog.read(), request.table)
    with holding_place(warehouse, table, str(request.topic)) as place:
        yield Consumer(warehouse, request, place, reach)


class MessageReader(Protocol):
    """What a consumer asks of a topic (`TopicReader`)."""

    def bounds(self, partition: int, /) -> OffsetRange: ...

    def read(self, partition: int, first: int, most: int, upto: int, /) -> MessageBatch: ...


@dataclass(frozen=True)
class PartitionConsumer:
    """One pass over one partition of a topic."""

    client: TableClient
    request: ConsumeRequest
    fit: Fit
    reader: MessageReader
    app: str
    """The topic's own id and the partition: a topic that takes the place of a deleted one is another source."""
    number: int
    reach: Reach
    place: StreamPlace | None = None

    def take(self) -> PartitionReport:
        bounds, landing = self.reader.bounds(self.number), TopicLanding(self.client, self.app)
        if self.request.resume is not None:
            landing.resume(self.request.resume, bounds.high)
            self._rejects().direct.resume(self._rejects_app, self.request.resume, bounds.high)
        report = PartitionReport(self.number, 0, 0, 0, 0, 0, 0)
        at = self._first(landing.taken_upto(), bounds)
        while at < bounds.high:
            batch = self.reader.read(self.number, at, self.request.batch_messages, bounds.high)
            # By the offsets that it covers: from `above`, below its number.
            fitted = self._land(landing, batch, WriterBatch(self.app, batch.next_offset, at))
            if fitted is None:
                at = self._first(landing.taken_upto(), bounds)  # another ingest took some of them
            else:
                at = batch.next_offset
                report = replace(
                    report,
                    messages=report.messages + len(batch.messages),
                    written=report.written + fitted.written,
                    removed=report.removed + fitted.removed,
                    rejected=report.rejected + len(fitted.misfits),
                )
        return replace(report, next_offset=at, lag=max(0, self.reader.bounds(self.number).high - at))

    def _first(self, taken_upto: int | None, bounds: OffsetRange) -> int:
        """Where to go on.

        Raises:
            FailedPrecondition: messages from there on are gone.
        """
        if taken_upto is None or bounds.low <= taken_upto <= bounds.high or self.request.skip_lost:
            return bounds.low if taken_upto is None else min(max(taken_upto, bounds.low), bounds.high)
        raise FailedPrecondition(
            f"{self.client.table.name} has partition {self.number} of {self.request.topic} up to offset {taken_upto}, and the"
            f" broker now has {bounds.low} to {bounds.high}: messages expired before they were taken, or were lost;"
            " go on without them with skip_lost (--skip-lost)"
        )

    def _land(self, landing: TopicLanding, batch: MessageBatch, once: WriterBatch) -> MessageFit | None:
        """Rejects first: what comes again after a death is known there by its offset. None where the batch was taken before."""
        fitted = self.fit.fit(batch.messages)
        if not batch.messages:
            return fitted  # the end of transactions, which stands for no row
        if self.place is not None:
            self.place.check(self.client.warehouse)
        if fitted.misfits:
            self._reject(fitted.misfits, batch.next_offset)
        self.reach("consume:rejected")
        if not landing.take(fitted.batch, once):
            return None
        self.reach("consume:taken")
        return fitted

    def _reject(self, misfits: Sequence[Misfit], next_offset: int) -> None:
        rejects, app = self._rejects(), self._rejects_app
        while True:
            known = rejects.direct.last_once(app) or 0
            rows = [self._reject_row(each) for each in misfits if each.offset >= known]
            if not rows:
                return
            added = rejects.completed(rows, user=None)
            if not rejects.direct.append([added], once=WriterBatch(app, next_offset, known)).repeated:
                return

    def _rejects(self) -> TableClient:
        warehouse = self.client.warehouse
        return open_table(warehouse, rejects_table(warehouse, self.client.table.name))

    @property
    def _rejects_app(self) -> str:
        return f"{self.app}/rejects"

    def _reject_row(self, misfit: Misfit) -> dict[str, object]:
        return {
            "object": f"{self.request.topic.name}/{self.number}/{misfit.offset}",
            "etag": self.app,
            "error": misfit.reason,
            "at": self.client.warehouse.clock(),
            "size": misfit.size,
        }
