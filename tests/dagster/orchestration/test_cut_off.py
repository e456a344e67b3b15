"""What a run committed before it died or was canceled is booked once: by its retry, or by the sensor."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.jobs.runs import OPERATION
from lakewarden.dagster.lakehouse import ids_of
from lakewarden.dagster.mount import Mount
from tests.dagster.orchestration.conftest import Load
from tests.dagster.orchestration.test_sensors import tick
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "messages"])
FORM = {"ops": {"flush": {"config": {"tables": [MESSAGES]}}}}
FLUSH = {OPERATION: "flush"}
DEAD = str(uuid4())
WILL_RETRY = {"dagster/will_retry": "true"}


@pytest.fixture
def instance(shipped_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    return shipped_instance


@pytest.fixture
def known(chat: str, load: Load, instance: dg.DagsterInstance) -> str:
    """A warehouse of which Dagster knows all scopes."""
    assert load(chat).resolve_job_def("record_job").execute_in_process(instance=instance).success
    return chat


@pytest.fixture
def committed(known: str) -> str:
    """Dagster knows all scopes; then a run commits one of them and dies before it books."""
    flush(known, "ada", DEAD)
    return known


def flush(chat: str, user: str, run_id: str = "") -> None:
    """A commit of the user's scope, as a run makes it; without one, as another program."""
    write(chat, user, 10, 11)
    with Lakehouse.open(chat, new_id=ids_of(run_id or str(uuid4()))) as lake:
        lake.flush(MESSAGES, user=user)


def booked(instance: dg.DagsterInstance) -> list[tuple[str | None, object]]:
    """Partition and version of the events since all scopes were recorded, oldest first."""
    return all_booked(instance)[3:]


def all_booked(instance: dg.DagsterInstance) -> list[tuple[str | None, object]]:
    events = [record.asset_materialization for record in instance.fetch_materializations(KEY, limit=100).records]
    found: list[tuple[str | None, object]] = [
        (event.partition, event.metadata["delta/version"].value) for event in events if event
    ]
    return found[::-1]


def run(
    defs: dg.Definitions, job: str, instance: dg.DagsterInstance, config: Mapping[str, object], parent: str | None = None
) -> None:
    definition = defs.resolve_job_def(job)
    made = instance.create_run_for_job(definition, run_config=config, parent_run_id=parent, root_run_id=parent)
    execute_run(InMemoryJob(definition), made, instance)
    assert instance.get_run_by_id(made.run_id).status is dg.DagsterRunStatus.SUCCESS  # type: ignore[union-attr]


def dead(uri: str, instance: dg.DagsterInstance, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    return instance.create_run_for_job(
        flush_job, run_id=DEAD, run_config=FORM, tags={**FLUSH, **Mount(uri).tags, **tags}, status=status
    )


def test_the_retry_of_a_dead_run_books_what_that_committed(committed: str, load: Load, instance: dg.DagsterInstance) -> None:
    defs = load(committed)
    parent = dead(committed, instance, dg.DagsterRunStatus.FAILURE)
    run(defs, "flush_job", instance, FORM, parent.run_id)
    assert booked(instance) == [("ada", 2)]
    run(defs, "flush_job", instance, FORM, parent.run_id)
    assert booked(instance) == [("ada", 2)], "once"


def test_a_retry_that_commits_itself_books_both_commits(committed: str, load: Load, instance: dg.DagsterInstance) -> None:
    parent = dead(committed, instance, dg.DagsterRunStatus.FAILURE)
    write(committed, "ada", 20)
    run(load(committed), "flush_job", instance, FORM, parent.run_id)
    assert booked(instance) == [("ada", 2), ("ada", 3)]


def test_a_first_flush_that_died_is_booked_beside_the_commit_of_its_retry(
    chat: str, load: Load, instance: dg.DagsterInstance
) -> None:
    first = dead(chat, instance, dg.DagsterRunStatus.FAILURE)
    flush(chat, "ada", DEAD)
    write(chat, "ada", 20)
    run(load(chat), "flush_job", instance, FORM, first.run_id)
    assert [version for user, version in all_booked(instance) if user == "ada"] == [2, 3], "and not those of other programs"


def test_a_retry_books_no_commits_of_others(known: str, load: Load, instance: dg.DagsterInstance) -> None:
    parent = dead(known, instance, dg.DagsterRunStatus.FAILURE)
    flush(known, "ada", DEAD)
    flush(known, "bob")  # a second retry and `record_job` may be booking it now
    run(load(known), "flush_job", instance, FORM, parent.run_id)
    assert booked(instance) == [("ada", 2)]
    run(load(known), "record_job", instance, {})
    assert booked(instance) == [("ada", 2), ("bob", 2)]


@pytest.mark.parametrize("retry", ["awaited", "requested"])
def test_what_a_dead_run_committed_is_left_to_its_retry(retry: str, known: str, load: Load, instance: dg.DagsterInstance) -> None:
    defs, parent = load(known), dead(known, instance, dg.DagsterRunStatus.FAILURE, **WILL_RETRY)
    flush(known, "ada", DEAD)
    flush(known, "ada")
    flush(known, "bob")
    if retry == "requested":
        instance.add_run_tags(parent.run_id, {"dagster/auto_retry_run_id": "another"})
        instance.create_run_for_job(flush_job, parent_run_id=DEAD, root_run_id=DEAD)
    run(defs, "record_job", instance, {})
    assert booked(instance) == [("bob", 2)], "nor what came behind it"
    run(defs, "flush_job", instance, FORM, parent.run_id)
    assert booked(instance) == [("bob", 2), ("ada", 2)]


def test_the_sensor_books_what_a_canceled_run_committed(committed: str, load: Load, instance: dg.DagsterInstance) -> None:
    dead(committed, instance, dg.DagsterRunStatus.CANCELED)
    (request,), _, cursor = tick("cut_off_sensor", committed, instance)
    assert request.run_config == {"ops": {"record": {"config": {"tables": [MESSAGES]}}}}
    run(load(committed), "record_job", instance, request.run_config)
    assert booked(instance) == [("ada", 2)]
    assert tick("cut_off_sensor", committed, instance, cursor)[:2] == ([], "no run was cut off")


@pytest.mark.parametrize("tag", [{"dagster/will_retry": "true"}, {"dagster/failure_reason": "STEP_FAILURE"}])
def test_runs_that_book_or_will_be_retried_are_left_to_that(chat: str, instance: dg.DagsterInstance, tag: dict[str, str]) -> None:
    dead(chat, instance, dg.DagsterRunStatus.FAILURE, **tag)
    assert tick("cut_off_sensor", chat, instance)[:2] == ([], "no run was cut off")


def test_the_sensor_says_which_run_the_others_wait_for(chat: str, instance: dg.DagsterInstance) -> None:
    write(chat, "ada", 10, 11)
    holder = dead(chat, instance, dg.DagsterRunStatus.STARTED)
    assert f"running: flush_job {holder.run_id[:8]} (since " in tick("flush_sensor", chat, instance)[1]


def test_one_scope_is_booked_if_one_is_behind(committed: str, load: Load, instance: dg.DagsterInstance) -> None:
    run(load(committed), record_job.name, instance, {})
    assert booked(instance) == [("ada", 2)]


def test_a_dead_run_is_left_to_its_retry_before_that_is_there(chat: str, instance: dg.DagsterInstance) -> None:
    write(chat, "ada", 10, 11)
    lost = dead(chat, instance, dg.DagsterRunStatus.FAILURE, **WILL_RETRY)
    write(chat, "bob", 10, 11)  # after the dead run had looked
    assert "2 under way" in tick("flush_sensor", chat, instance)[1]
    instance.add_run_tags(lost.run_id, {"dagster/auto_retry_run_id": "another"})
    (request,) = tick("flush_sensor", chat, instance)[0]
    assert request.run_config == {"ops": {"flush": {"config": {"scopes": {MESSAGES: ["bob"]}}}}}
