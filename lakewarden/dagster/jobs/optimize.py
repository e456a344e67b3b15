"""`optimize_job`: packs each scope's files to the target size, or clusters them by columns."""

import dagster as dg
from pydantic import Field

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.booking.book import book
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, WithLook, declined, job_tags
from lakewarden.dagster.mount import Mount


class OptimizeConfig(WithLook):
    """Which scopes to optimize, and how. A rewrite that is not worth its bytes is skipped, and the run shows why."""

    zorder: list[str] = Field([], description="Columns to cluster by (Z-order); empty means bin-packing only.")
    ratio: float | None = Field(
        None,
        description="Leave a file with more than so many times the bytes of the smaller ones; 0: none. None: as compact_job.",
    )
    where: str = Field("", description="A condition on partition columns, in SQL; empty means every partition.")


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Optimize the scopes, and book one event for each.")
def optimize(
    context: dg.OpExecutionContext, config: OptimizeConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        where = config.where or None
        reports = lake.optimize(
            *config.tables,
            user=config.user,
            zorder=config.zorder,
            where=where,
            ratio=config.ratio,
            scheduled=True,
            look=config.look,
        )
        book(context, lake, mount, reports)


@dg.job(
    executor_def=dg.in_process_executor,
    tags=job_tags("optimize", -5, SPARK),
    description="Packs each scope's files to the target size.",
)
def optimize_job() -> None:
    optimize()
