"""The place of a table's one streaming writer (FL-40), as a stream has it: a lease in the catalog, and a fence in the log.

The lease says whose the place is, and who waits for it. Whoever takes it raises the fence, by which writes of the stream before
are refused where they would be appended or committed: none lands between a look at the lease and the write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass

from lakewarden.catalog.locks import renewing
from lakewarden.catalog.model import Table
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import LostPlace, StorageUnavailable
from lakewarden.log.fence import check_fence, fenced
from lakewarden.tables.direct.barrier import pass_direct_writes
from lakewarden.tables.dynamic.writer import LEASE_SECONDS, StreamingWriter, give_back, holder_of
from lakewarden.tables.warehouse import Warehouse


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
        """Raises:
        LostPlace: another stream has taken over.
        """
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

    with renewing(place.writer.lease.name, seconds, again):
        try:
            yield place
        finally:
            with suppress(StorageUnavailable):  # it expires
                give_back(warehouse.catalog, table.name, stream)
