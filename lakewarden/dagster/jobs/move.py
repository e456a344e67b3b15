"""`move_job`: moves a table to another storage."""

import dagster as dg
from pydantic import Field

from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import option_values, takes_options
from lakewarden.dagster.jobs.runs import SPARK, job_of, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun


@takes_options("move")
class MoveConfig(dg.Config):
    """Which table to move, and where to. Repeat it to continue an interrupted move."""

    table: str = Field(description="The table as namespace.table, with all its users.")
    to: str = Field(description="The id of the storage to move to.")


@warehouse_op("Move the table, and book one event per scope.", kind="spark")
def move(run: WarehouseRun, config: MoveConfig) -> None:
    book(run, run.lake.run("move", config.table, **option_values(config, "move")))


move_job = job_of(move, job_tags("move", 5, SPARK), "Moves a table to another storage, while reads and writes continue.")
