"""The one streaming writer of a dynamic table: a lease in the catalog, which is renewed while the stream lives (FL-40).

Flushes, batch writes and maintenance do not need it. No clock is compared with another machine's: who waits counts the lease as
expired once it saw no renewal for its whole duration.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.base.clock import Pause, wait
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes import leases
from lakewarden.catalog.changes.leases import grant, renew
from lakewarden.catalog.model import Lease
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import Conflict

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
        seen, since = catalog.read().leases.get(name), monotonic()
        begun, lives = since, False
        while True:
            held = catalog.read().leases.get(name)
            if held != seen:
                lives = seen is not None and held is not None
                seen, since = held, monotonic()
            expired = held is not None and monotonic() - since >= held.seconds
            own = held is not None and held.owner == owner
            if held is None or own or expired:
                change = renew(held) if held is not None and own else grant(name, owner, float(seconds), held)
                with suppress(Conflict):
                    return cls(table, catalog.change(change).leases[name], replaced=held is not None)
            elif lives or monotonic() - begun >= patience:
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
