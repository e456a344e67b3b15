"""Reads scopes in a task: the log is looked at once, and each scope's table is opened by what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Catalog, Table
from lakewarden.log.stream import read_stream
from lakewarden.log.view import LogView
from lakewarden.spark.source.columns import Owned
from lakewarden.spark.source.connection import SparkConnection
from lakewarden.tables.reading.freshness import Freshness
from lakewarden.tables.reading.scope import ReadSelection, place_of, read_cold, read_strong, read_undrained
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class ScopeRead:
    """What a task needs to know to read scopes. Picklable."""

    connection: SparkConnection
    table: Table
    wanted: ReadSelection
    freshness: Freshness

    def rows(self, users: Sequence[str | None]) -> Iterator[Owned]:
        """The rows of these scopes, each as of some moment after the call."""
        warehouse = self.connection.open()
        if self.table.schema.append_only:
            yield from self._streams(warehouse, [user for user in users if user is not None])
            return
        catalog = warehouse.catalog.read()
        require_active(catalog, self.table.name)
        warehouse.read_ahead(self.table, users)
        log = warehouse.log(self.table)
        names = frozenset(user or "" for user in users)
        view = None if self.freshness == "eventual" else log.view(names)
        pending = frozenset() if view is None else frozenset(view.pending_of(names))
        for user in users:
            if self.freshness != "oltp_only" or (user or "") in pending:
                yield user, self._scope(warehouse, catalog, user, view if (user or "") in pending else None)

    def _scope(self, warehouse: Warehouse, catalog: Catalog, user: str | None, view: LogView | None) -> pa.Table:
        """`view` has pending rows of the user; None where there are none."""
        place = place_of(warehouse, catalog, self.table, user)
        if view is None:
            return read_cold(place, self.wanted)
        read = read_undrained if self.freshness == "oltp_only" else read_strong
        return read(place, warehouse.log(self.table), self.wanted, None, view)

    def _streams(self, warehouse: Warehouse, users: Sequence[str]) -> Iterator[Owned]:
        ttl = self.table.options.ttl_seconds
        assert ttl is not None, "a STREAM table has a TTL"
        for user in users:
            yield user, read_stream(warehouse.log(self.table), user, self.table.schemas, ttl, warehouse.clock())
