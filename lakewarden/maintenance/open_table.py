"""Opens the client of a table, with the flush that a direct overwrite begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Conflict
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush.selection import Only
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.storage.steps import Steps
from lakewarden.tables.client.client import TableClient
from lakewarden.tables.fanout import SizedWork, in_process
from lakewarden.tables.warehouse import Warehouse

T = TypeVar("T")
R = TypeVar("R")


def open_table(warehouse: Warehouse, table: Table) -> TableClient:
    """The client of one table, as the operator's."""
    return TableClient(warehouse, table, warehouse.log(table), flush_pending)


def flush_pending(warehouse: Warehouse, table: TableName) -> None:
    """Flushes a SHARED table in this process.

    Raises:
        Conflict: rows stayed in the log.
    """
    for report in flush_scopes(warehouse, _here, _too_large, Only({Scope(table, None)})):
        if report.fault is not None:
            raise Conflict(f"the pending rows of {table} have to be flushed before an overwrite: {report.reason}")


def _here(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
    return in_process(work, items, lambda _done: None)


def _too_large(task: FlushTask) -> ScopeReport:
    raise Conflict(f"{task.target.scope} has {task.pending.bytes} bytes pending, which need Spark: flush the table first")
