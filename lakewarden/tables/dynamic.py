"""What a dynamic table has beside its rows: the place of its one streaming writer (FL-40), and its topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from lakewarden.base.clock import Pause, wait
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes import leases
from lakewarden.catalog.changes.leases import grant, renew
from lakewarden.catalog.locks import LeaseWatch, renewing
from lakewarden.catalog.model import Lease, Table
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import Conflict, LostPlace, StorageUnavailable
from lakewarden.log.once import check_fence, fenced
from lakewarden.storage.kafka_publisher import Position, made_or_undone, unmake_topic
from lakewarden.storage.kafka_topics import TOPIC, Topic, check_free, topic_of
from lakewarden.tables.direct.barrier import pass_direct_writes
from lakewarden.tables.warehouse import Warehouse

# The one streaming writer of a dynamic table: a lease in the catalog, which is renewed while the stream lives (FL-40).
#
# Flushes, batch writes and maintenance do not need it.

LEASE_SECONDS = 60.0


@dataclass(frozen=True)
class StreamingWriter:
    """The right of one stream to write to a table. Picklable without its catalog: `take` and `renew` are given one."""

    table: TableName
    lease: Lease
    replaced: bool = False
    """Whether it was taken from a stream that had not given it back; or may have been, by a process of this stream before."""

    @classmethod
    def take(
        cls,
        catalog: CatalogStore,
        table: TableName,
        owner: str,
        *,
        seconds: float = LEASE_SECONDS,
        patience: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Pause = wait,
    ) -> StreamingWriter:
        """Takes the lease, or renews it where the stream (`owner`) has it: so a restart of the same stream goes on at once.

        Args:
            patience: seconds to wait for another stream's lease to be given back or to expire. A lease that is renewed
                meanwhile is that of a stream that lives, and is not waited for.

        Raises:
            Conflict: another stream writes to the table.
        """
        name = lease_name(table)
        watch, begun = LeaseWatch(catalog, name, monotonic), monotonic()
        while True:
            held = watch.look()
            own = held is not None and held.owner == owner
            if held is None or own or watch.is_free:
                change = renew(held) if held is not None and own else grant(name, owner, float(seconds), held)
                with suppress(Conflict):
                    return cls(table, catalog.change(change).leases[name], replaced=held is not None)
            elif watch.lives or monotonic() - begun >= patience:
                raise Conflict(
                    f"{table} has a streaming writer already, {held.owner}: a dynamic table takes one at a time; stop that one,"
                    f" or try again {held.seconds:g} seconds after it has died"
                )
            pause(min(1.0, max(0.05, patience / 20)))

    def renew(self, catalog: CatalogStore) -> None:
        """Renews the lease; call it at each batch, and right before the batch is published.

        Raises:
            Conflict: another stream has taken it over; this one must write nothing more.
        """
        catalog.change(renew(self.lease))

    def release(self, catalog: CatalogStore) -> None:
        """Gives the lease back, if this stream still has it."""
        with suppress(Conflict):
            catalog.change(leases.give_back(self.lease))


def give_back(catalog: CatalogStore, table: TableName, owner: str) -> None:
    """Gives back the lease of a stream that ended, if it has it."""
    held = catalog.read().leases.get(lease_name(table))
    if held is not None and held.owner == owner:
        StreamingWriter(table, held).release(catalog)


def holder_of(catalog: CatalogStore, table: TableName) -> str | None:
    """The stream that has the place now."""
    held = catalog.read().leases.get(lease_name(table))
    return None if held is None else held.owner


def lease_name(table: TableName) -> str:
    return f"stream of {table}"


@dataclass(frozen=True)
class StreamPlace:
    """Picklable: tasks write under it, too."""

    table: Table
    writer: StreamingWriter

    @contextmanager
    def writing(self, warehouse: Warehouse) -> Iterator[None]:
        """What this thread writes to the table in the block is refused once another stream has taken over.

        Raises:
            LostPlace: it was refused; the message names the other stream.
        """
        with fenced(self.writer.lease.token), self._explained(warehouse.catalog):
            yield

    def check(self, warehouse: Warehouse) -> None:
        """Raises LostPlace: another stream has taken over."""
        with self._explained(warehouse.catalog):
            check_fence(warehouse.log(self.table).fence(), self.writer.lease.token)

    @contextmanager
    def _explained(self, catalog: CatalogStore) -> Iterator[None]:
        try:
            yield
        except LostPlace as error:
            holder = holder_of(catalog, self.table.name)
            raise LostPlace(
                f"{self.writer.lease.owner} gave no sign of life for {self.writer.lease.seconds:g} seconds and lost its place as"
                f" the streaming writer of {self.table.name} to {holder or 'another stream, which has ended since'}: nothing of"
                " this batch was written; stop that one before this one starts again"
            ) from error


def writing(place: StreamPlace | None, warehouse: Warehouse) -> AbstractContextManager[None]:
    """As `StreamPlace.writing`; without a place, nothing."""
    return nullcontext() if place is None else place.writing(warehouse)


def take_place(
    warehouse: Warehouse, table: Table, stream: str, *, seconds: float = LEASE_SECONDS, patience: float = 2 * LEASE_SECONDS
) -> StreamPlace | None:
    """The place of the stream, which it takes or has; None where the table takes any number of streams.

    Args:
        patience: as of `StreamingWriter.take`: enough to learn whether the holder lives.

    Raises:
        Conflict: another stream has the place; the message names it.
    """
    if table.dynamic is None:
        return None
    writer = StreamingWriter.take(warehouse.catalog, table.name, stream, seconds=seconds, patience=patience)
    log = warehouse.log(table)
    if log.fence() < writer.lease.token:  # also where the process died that took it
        log.raise_fence(writer.lease.token, replaces=writer.replaced)
        if writer.replaced and not table.schema.keyed:
            pass_direct_writes(warehouse, warehouse.target_of(warehouse.catalog.read(), table, None))
    return StreamPlace(table, writer)


@contextmanager
def holding_place(
    warehouse: Warehouse, table: Table, stream: str, *, seconds: float = LEASE_SECONDS, patience: float = 2 * LEASE_SECONDS
) -> Iterator[StreamPlace | None]:
    """Has the place of a stream that lives in this process: renews it in the block, also while nothing is written, and gives it
    back. Arguments and errors as of `take_place`."""
    place = take_place(warehouse, table, stream, seconds=seconds, patience=patience)
    if place is None:
        yield None
        return

    def again() -> StreamPlace | None:
        return take_place(warehouse, table, stream, seconds=seconds, patience=0)

    try:
        with renewing(place.writer.lease.name, seconds, again):
            yield place
    finally:
        # Only behind the last renewal: one that came later would take the place anew, for a stream that has ended.
        with suppress(StorageUnavailable):  # it expires
            give_back(warehouse.catalog, table.name, stream)


# The topic of a dynamic table with `log.system` kafka: made and deleted with the table, one partition for each bucket.
def with_topic(table: Table) -> Table:
    """The table with the name of its topic among its options, so that it stays.

    Raises:
        InvalidArgument: Kafka takes no topic of that name.
    """
    topic = topic_of_table(table)
    if topic is None or table.dynamic is None:
        return table
    return replace(table, dynamic=replace(table.dynamic, kafka={**table.dynamic.kafka, TOPIC: topic.name}))


def topic_of_table(table: Table) -> Topic | None:
    """The topic that the table's changes go to by its options; None of another table."""
    if table.dynamic is None or table.dynamic.log_system != "kafka":
        return None
    return topic_of(str(table.name), table.dynamic.kafka)


def check_topic(table: Table) -> None:
    """Raises:
    AlreadyExists: the table would need a topic that is there.
    StorageUnavailable, StorageRefused, InvalidArgument, Unsupported: as `Broker.reaching`.
    """
    topic = topic_of_table(table)
    if topic is not None:
        check_free(topic)


def make_table_topic(table: Table, seq: int | None) -> None:
    """Raises as `check_topic`; nothing is left where the broker answers.

    Args:
        seq: the `_seq` behind which the topic has the table's changes; None where it begins with the rows that there are.
    """
    topic = topic_of_table(table)
    if topic is not None and table.dynamic is not None:
        made_or_undone(topic, Position(table.id, seq), table.dynamic.bucket, table.dynamic.log_retention)


def unmake_table_topic(table: Table) -> None:
    """Raises:
    StorageUnavailable, StorageRefused: the broker is away; try again.
    """
    topic = topic_of_table(table)
    if topic is not None:
        unmake_topic(topic, table.id)
