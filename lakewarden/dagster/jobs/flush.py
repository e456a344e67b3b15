"""`flush_job`: moves pending rows from the write log into the scopes' Delta tables."""

import dagster as dg
from pydantic import Field

from lakewarden.base.scope import Scope, TableName, scopes_by_user
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.runs import SPARK, job_of, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun


class FlushConfig(dg.Config):
    """Which scopes to flush. By default every scope of the warehouse that has pending rows.

    Give `tables` (and one `user`), or exactly these `scopes`, as the flush sensor does.
    """

    tables: list[str] = Field([], description="Tables as namespace.table; empty means all of the warehouse.")
    user: str | None = Field(None, description="Only this user's scope of each of the tables.")
    scopes: dict[str, list[str]] = Field(
        {}, description="Exactly these scopes: users by table, as {chat.messages: [u_1, u_2]}; an empty list for a SHARED table."
    )

    def exact(self) -> list[Scope]:
        return [scope for table, users in self.scopes.items() for scope in scopes_by_user(TableName.parse(table), users)]


@warehouse_op("Flush the scopes, and book one event for each.", kind="spark")
def flush(run: WarehouseRun, config: FlushConfig) -> None:
    book(run, flush_by(run.lake, config))


def flush_by(lake: Lakehouse, config: FlushConfig) -> list[ScopeReport]:
    if config.scopes:
        return lake.flush_scopes(config.exact())
    return lake.flush(*config.tables, user=config.user)


flush_job = job_of(flush, job_tags("flush", 10, SPARK), "Moves pending rows into the Delta tables, now.")
