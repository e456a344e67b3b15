"""`compact_job`: folds each scope's newest small files into one."""

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import option_values, takes_options
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, WithLook, declined, job_of, job_tags
from lakewarden.dagster.mount import Mount


@takes_options("compact")
class CompactConfig(WithLook):
    """Which scopes to compact. A scope whose tail has too few small files is skipped."""


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Compact the scopes, and book one event for each.")
def compact(
    context: dg.OpExecutionContext, config: CompactConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        reports = lake.run("compact", *config.tables, scheduled=True, **option_values(config, "compact"))
        book(context, lake, mount, reports)


compact_job = job_of(compact, job_tags("compact", 0, SPARK), "Folds each scope's newest small files into one.")
