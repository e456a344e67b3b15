"""`optimize_job`: packs each scope's files to the target size, or clusters them by columns."""

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import option_values, takes_options
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, WithLook, declined, job_of, job_tags
from lakewarden.dagster.mount import Mount


@takes_options("optimize")
class OptimizeConfig(WithLook):
    """Which scopes to optimize, and how. A rewrite that is not worth its bytes is skipped, and the run shows why."""


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Optimize the scopes, and book one event for each.")
def optimize(
    context: dg.OpExecutionContext, config: OptimizeConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        reports = lake.run("optimize", *config.tables, scheduled=True, **option_values(config, "optimize"))
        book(context, lake, mount, reports)


optimize_job = job_of(optimize, job_tags("optimize", -5, SPARK), "Packs each scope's files to the target size.")
