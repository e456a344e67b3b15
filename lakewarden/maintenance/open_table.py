"""Opens the client of a table, with the flush that a direct overwrite begins with."""

from __future__ import annotations

from functools import partial

from lakewarden.base.scope import TableName
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.errors import Conflict, Unsupported
from lakewarden.maintenance.engine import WorkEngine, silent
from lakewarden.maintenance.request import new_request
from lakewarden.tables.client.client import TableClient
from lakewarden.tables.warehouse import Warehouse


def flush_pending(warehouse: Warehouse, table: TableName) -> None:
    """Flushes a SHARED table in this process. The write is the job that history has, so no other is recorded.

    Raises:
        Conflict: rows stayed in the log.
        FailedPrecondition: the engine of its namespace is disabled.
    """
    from lakewarden.maintenance.operator import Operator  # brings every operation, which most clients never need

    at = Operator(
        warehouse, WorkEngine(warehouse.settings, silent, None), JobLog(warehouse.state, warehouse.clock, warehouse.new_id)
    )
    try:
        reports = at.run(new_request("flush", [str(table)]), at.new_job_id("flush"))
    except Unsupported as error:  # too many rows for one process
        raise Conflict(f"{error.message}: flush the table first") from error
    for report in reports:
        if report.fault is not None:
            raise Conflict(f"the pending rows of {table} have to be flushed before an overwrite: {report.reason}")


open_table = partial(TableClient.of, flush_pending)
"""The client of one table: `TableClient.of`, with this flush."""
