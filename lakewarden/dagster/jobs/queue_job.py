"""`run_queued_job`: runs the jobs that were enqueued in the warehouse."""

import dagster as dg
from pydantic import Field

from lakewarden.catalog.state.job import Job
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.jobs.runs.failures import RETRIES, declined
from lakewarden.dagster.jobs.runs.tags import SPARK, job_tags


class RunQueuedConfig(dg.Config):
    """Which jobs of the warehouse's job log to run. By default all queued ones, and those whose runner died."""

    jobs: list[str] = Field([], description="Exactly these, by their ids; empty means all.")


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Run the queued jobs, oldest first.")
def run_queued(context: dg.OpExecutionContext, config: RunQueuedConfig, lake: dg.ResourceParam[Lakehouse]) -> None:
    with declined(context):
        ran = lake.run_jobs(config.jobs or None)
    context.add_output_metadata({"jobs": table_value(map(_row, ran)), "ran": len(ran)})
    failed = [job for job in ran if job.status == "failed"]
    if failed:
        raise dg.Failure(
            description=f"{len(failed)} of {len(ran)} jobs failed; the first, {failed[0].job_id}: {failed[0].message}",
            allow_retries=False,  # the runner has tried each as often as the settings say
        )


def _row(job: Job) -> dict[str, str | int]:
    return {
        "job": job.job_id,
        "operation": job.job_type,
        "status": job.status,
        "message": job.message,
        "retries": job.retry_count,
    }


@dg.job(
    executor_def=dg.in_process_executor,
    tags=job_tags("queued", 5, SPARK),
    description="Runs the jobs that were enqueued in the warehouse's job log.",
)
def run_queued_job() -> None:
    run_queued()
