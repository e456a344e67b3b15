"""A run that waits says which runs hold its slots."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from lakewarden.dagster.jobs.compact import compact_job
from lakewarden.dagster.jobs.evict import evict_job
from lakewarden.dagster.jobs.optimize import optimize_job
from lakewarden.dagster.jobs.runs import QUEUED_BEHIND
from lakewarden.dagster.mount import Mount
from tests.dagster.orchestration.test_sensors import tick
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


@pytest.fixture
def instance(shipped_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    return shipped_instance


def test_a_waiting_run_names_the_runs_that_hold_its_slots(chat: str, instance: dg.DagsterInstance) -> None:
    def run(job: dg.JobDefinition, status: dg.DagsterRunStatus) -> str:
        origin = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("lakewarden"), "__repository__"), job.name)
        tags = {**job.tags, **Mount(chat).tags}
        return instance.create_run_for_job(job, tags=tags, status=status, remote_job_origin=origin).run_id

    assert tick("queue_sensor", chat, instance)[1] == "no run waits"
    holder = run(compact_job, dg.DagsterRunStatus.STARTED)
    waiting, free = run(optimize_job, dg.DagsterRunStatus.QUEUED), run(evict_job, dg.DagsterRunStatus.QUEUED)
    said = tick("queue_sensor", chat, instance)[1]
    assert f"optimize_job {waiting[:8]} waits behind compact_job {holder[:8]} (since " in said
    assert f"evict_job {free[:8]} waits behind no run" in said
    tags = {run.run_id: run.tags.get(QUEUED_BEHIND, "") for run in instance.get_runs()}
    assert tags[waiting].startswith(f"compact_job {holder[:8]} (since ")
    assert tags[free] == ""
    assert instance.get_run_by_id(waiting).status is dg.DagsterRunStatus.QUEUED  # type: ignore[union-attr]
