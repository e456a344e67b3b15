"""A small warehouse, a Dagster instance in a directory, and how a job is run on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest

from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from tests.fixtures.dagster import on_postgres
from tests.fixtures.postgres import PostgresServer

RunJob = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def postgres_instance(postgres: PostgresServer, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with on_postgres(tmp_path / "dagster", postgres) as instance:
        yield instance


@pytest.fixture
def run_job(chat: str, instance: dg.DagsterInstance) -> RunJob:
    """Runs a job over the warehouse in this process; its one op has the job's name without `_job`."""
    return runner(chat, instance)


def runner(chat: str, instance: dg.DagsterInstance) -> RunJob:
    resources = resources_of(Mount(chat))

    def run(job: dg.JobDefinition, config: Mapping[str, object] | None = None) -> dg.ExecuteInProcessResult:
        op = job.name.removesuffix("_job")
        return job.execute_in_process(
            run_config={"ops": {op: {"config": dict(config or {})}}},
            resources=resources,
            instance=instance,
            raise_on_error=False,
        )

    return run
