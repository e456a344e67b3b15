"""`compact_job`: folds each scope's newest small files into one."""

import dagster as dg
from pydantic import Field

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.booking.book import book
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, WithLook, declined, job_tags
from lakewarden.dagster.mount import Mount


class CompactConfig(WithLook):
    """Which scopes to compact. A scope whose tail has too few small files is skipped."""

    ratio: float | None = Field(
        None,
        description="Leave a file with more than so many times the rows of the newer ones together; 0: none. None: the table's"
        " COMPACTION_RATIO, else the warehouse's compaction.ratio.",
    )
    where: str = Field("", description="A condition on partition columns, in SQL; empty means every partition.")


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Compact the scopes, and book one event for each.")
def compact(
    context: dg.OpExecutionContext, config: CompactConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        where, ratio = config.where or None, config.ratio
        reports = lake.compact(*config.tables, user=config.user, where=where, ratio=ratio, scheduled=True, look=config.look)
        book(context, lake, mount, reports)


@dg.job(
    executor_def=dg.in_process_executor,
    tags=job_tags("compact", 0, SPARK),
    description="Folds each scope's newest small files into one.",
)
def compact_job() -> None:
    compact()
