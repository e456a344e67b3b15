"""What the newest flush of a SHARED table did, how long rows have waited for the next, and the table's partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from lakewarden.base.clock import from_millis
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.parquet.files import by_partition
from lakewarden.delta.partitions import Partition
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import LogEntry, walk
from lakewarden.storage.open import open_store
from lakewarden.tables.strong_read import where_it_lies
from lakewarden.tables.warehouse import Warehouse

T = TypeVar("T")

# The size of a SHARED table by its newest commit: nothing is listed, and no row is read.


@dataclass(frozen=True)
class TableSize:
    """Cold rows, data files, and their bytes. Rows that are pending in the log are not counted."""

    version: int | None
    """The newest one; None before the first."""
    rows: int
    files: int
    bytes: int


def table_size(warehouse: Warehouse, table: Table) -> TableSize:
    """Reads what the newest version's commits say of its files.

    Raises:
        Corrupt, StorageUnavailable: the table cannot be opened.
    """

    def size(target: ScopeTarget, found: ScopeTable | None) -> TableSize:
        if found is None:
            return TableSize(None, 0, 0, 0)
        state = found.state(target.app_id)
        return TableSize(state.version, state.rows - found.deleted_rows, state.files, state.bytes)

    return _read(warehouse, table, size)


@dataclass(frozen=True)
class Drain:
    """A flush: the version that it made, and the rows that it took from the log into the table."""

    version: int
    at: datetime
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class PartitionSize:
    """A partition's live files by their commits: no row is read. Files of other writers without a count count no rows."""

    partition: Partition
    files: int
    rows: int
    bytes: int


def last_drain(warehouse: Warehouse, table: Table) -> Drain | None:
    """The newest flush that the Delta log still has; None without one. Reads its commits from the newest on."""

    def newest(target: ScopeTarget, found: ScopeTable | None) -> Drain | None:
        return None if found is None else _newest(walk(open_store(target.location), found.version))

    return _read(warehouse, table, newest)


def waiting_since(warehouse: Warehouse, table: Table) -> datetime | None:
    """When the oldest row that is pending was written; None where none is."""
    oldest = warehouse.log(table).view().counts.oldest
    return from_millis(int(oldest.min()) // 1000) if len(oldest) else None


def partition_sizes(warehouse: Warehouse, table: Table) -> list[PartitionSize]:
    """The partitions with files, in the order of their values; none of a table without partition columns."""

    def sizes(_: ScopeTarget, found: ScopeTable | None) -> list[PartitionSize]:
        groups = {} if found is None or not table.schema.partition_by else by_partition(found.files())
        each_size = (
            PartitionSize(each, len(files), sum(file.rows or 0 for file in files), sum(file.size for file in files))
            for each, files in groups.items()
        )
        return sorted(each_size, key=lambda one: [text or "" for _, text in one.partition])

    return _read(warehouse, table, sizes)


def _read(warehouse: Warehouse, table: Table, of: Callable[[ScopeTarget, ScopeTable | None], T]) -> T:
    """What is read of the table as it is now, at its place; None where it has no version."""
    return where_it_lies(
        lambda: warehouse.target(warehouse.catalog.read(), Scope(table.name, None)),
        lambda target: (of(target, warehouse.cold.tables.open(target)), False),
    )


def _newest(entries: Iterable[LogEntry]) -> Drain | None:
    for entry in entries:
        stamp = entry.stamp
        if stamp is not None and stamp.log_rows is not None and stamp.operation in ("WRITE", "MERGE"):
            return Drain(entry.version, from_millis(entry.at), *_rows(stamp))
    return None


def _rows(stamp: CommitStamp) -> tuple[int, int, int]:
    if stamp.operation == "WRITE":
        return stamp.metrics.get("numOutputRows", 0), 0, 0
    inserted, updated, deleted = (stamp.metrics.get(f"numTargetRows{what}", 0) for what in ("Inserted", "Updated", "Deleted"))
    return inserted, updated, deleted
