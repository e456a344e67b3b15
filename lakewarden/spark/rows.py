"""Reads rows in a task: of scopes, and of the partitions of a SHARED table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.quantities import grouped, portions
from lakewarden.catalog.buckets import bucket_named
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.reading.bounds import files_to_read, rows_within
from lakewarden.delta.reading.rows import FileGroup, empty_rows, matches, merged
from lakewarden.delta.scope import open_scope
from lakewarden.log.drain import LogScope, read_hot
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.stream import read_stream
from lakewarden.spark.columns import Owned
from lakewarden.spark.connection import SparkConnection
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.strong_read import ReadSelection, read_cold, read_strong, read_undrained, where_it_lies
from lakewarden.tables.warehouse import Warehouse


# Reads scopes in a task: the log is looked at once, and each scope's table is opened by what is kept of it.
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
        require_active(catalog, self.table.name.namespace)
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
        place = warehouse.place(catalog, self.table, user)
        if view is None:
            return read_cold(place, self.wanted)
        read = read_undrained if self.freshness == "oltp_only" else read_strong
        return read(place, warehouse.log(self.table), self.wanted, None, view)

    def _streams(self, warehouse: Warehouse, users: Sequence[str]) -> Iterator[Owned]:
        for user in users:
            yield user, read_stream(warehouse.log(self.table), self.table, user, warehouse.clock())


_MOST_PENDING = 32 << 20
"""Bytes of pending rows that every task is given; with more, one task reads the table as a whole."""


@dataclass(frozen=True)
class SharedTasks:
    """What tasks read of one version of a table. Picklable."""

    groups: tuple[FileGroup, ...]
    hot: pa.Table | None
    """The pending rows that the version has not, with `_op`; None where there are none."""

    @property
    def count(self) -> int:
        return len(self.groups) + (self.hot is not None)

    def rows(self, number: int, read: ScopeRead) -> Iterator[pa.Table]:
        """The rows of one task: a group of files without what pending rows replace; or, in the last one, the pending rows."""
        key = read.table.schema.primary_key
        if number == len(self.groups):
            assert self.hot is not None, "there is a task for them"
            yield merged(empty_rows(read.table.schema), self.hot, key)
            return
        for each in self.groups[number].singly():
            rows = rows_within(each.read(), read.wanted.bounds)
            yield rows if self.hot is None else rows.filter(pc.invert(matches(rows, self.hot, key)))


def shared_tasks(read: ScopeRead, warehouse: Warehouse, part_bytes: int) -> SharedTasks | None:
    """Finds the newest version and divides it; None where one task has to read all of it.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """
    catalog = warehouse.catalog.read()
    log = warehouse.log(read.table)
    view = None if read.freshness == "eventual" else log.view(("",))
    if view is not None and sum(view.counts.bytes) > _MOST_PENDING:
        return None

    def found(target: ScopeTarget) -> tuple[SharedTasks | None, bool]:
        if view is None:
            return _tasks(_Snapshot(target), read, None, part_bytes), False
        strong = read_hot(lambda: LogScope.of(log, view, "", target.schemas), partial(_Snapshot, target))
        return _tasks(strong.cold, read, strong.rows, part_bytes), False

    return where_it_lies(warehouse.place(catalog, read.table, None), found)


class _Snapshot:
    """The newest version of the table."""

    def __init__(self, target: ScopeTarget) -> None:
        self.target = target
        self.table = open_scope(target)

    def watermark(self) -> int | None:
        return None if self.table is None else self.table.watermark(self.target.app_id)


def _tasks(cold: _Snapshot, read: ScopeRead, hot: pa.Table | None, part_bytes: int) -> SharedTasks | None:
    table, schemas = cold.table, cold.target.schemas
    if table is None or not table.has_files:
        return SharedTasks((), hot)
    if not table.plain:
        return None
    files = files_to_read(table, read.wanted.bounds, schemas, cold.target.buckets)
    columns = read.wanted.with_key(schemas[-1]).columns
    parts = (part for bucket in _by_bucket(files) for part in portions(bucket, lambda file: file.size, part_bytes))
    groups = tuple(FileGroup.of(table, each, schemas, columns) for each in parts)
    return SharedTasks(groups, hot)


def _by_bucket(files: Iterable[DataFile]) -> Iterable[Sequence[DataFile]]:
    """The files of each bucket, which one task reads unless they are many bytes; together those of a table without buckets."""
    return grouped(files, lambda file: bucket_named(file.path)).values()
