"""`move_job`: moves a table to another storage."""

import dagster as dg
from pydantic import Field

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import option_values, takes_options
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, declined, job_of, job_tags
from lakewarden.dagster.mount import Mount


@takes_options("move")
class MoveConfig(dg.Config):
    """Which table to move, and where to. Repeat it to continue an interrupted move."""

    table: str = Field(description="The table as namespace.table, with all its users.")
    to: str = Field(description="The id of the storage to move to.")


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Move the table, and book one event per scope.")
def move(
    context: dg.OpExecutionContext, config: MoveConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        book(context, lake, mount, lake.run("move", config.table, **option_values(config, "move")))


move_job = job_of(move, job_tags("move", 5, SPARK), "Moves a table to another storage, while reads and writes continue.")
