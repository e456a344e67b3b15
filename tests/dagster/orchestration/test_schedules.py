"""The schedules that look before they ask for a run."""

from __future__ import annotations

import dagster as dg
import pytest

from lakewarden.catalog.model import Catalog
from lakewarden.client import Lakehouse
from lakewarden.client.maintain_once import CADENCES, MaintainOnce
from lakewarden.dagster.definitions import build_definitions
from lakewarden.dagster.jobs.evict import evict_job
from lakewarden.dagster.jobs.runs import OPERATION
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.schedules import build_schedules
from tests.fixtures.chat import add_stream
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


def evaluate(name: str, uri: str, instance: dg.DagsterInstance) -> dg.ScheduleExecutionData:
    mount = Mount(uri)
    (schedule,) = (one for one in build_schedules(mount, Catalog()) if one.name == name)
    with dg.build_schedule_context(instance=instance, resources=resources_of(mount)) as context:
        return schedule.evaluate_tick(context)


def tick(uri: str, instance: dg.DagsterInstance) -> tuple[int, str]:
    """How many runs it asks for, and why none."""
    data = evaluate("evict_minutely", uri, instance)
    return len(data.run_requests or []), data.skip_message or ""


@pytest.mark.parametrize(("said", "dry_run"), [(None, True), ("true", False)])
def test_the_scheduled_vacuum_deletes_when_the_owner_says_so(
    said: str | None, dry_run: bool, chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said is not None:
        monkeypatch.setenv("LAKEWARDEN_MAINTENANCE__SCHEDULED_DELETES", said)
    (request,) = evaluate("vacuum_weekly", chat, instance).run_requests or []
    assert request.run_config == {"ops": {"vacuum": {"config": {"dry_run": dry_run}}}}


IN_A_TICK = {"flush_sensor": "flush", "queued_sensor": "jobs", "relay_sensor": "relay", "health_sensor": "health"}
OF_DAGSTER = {
    "alert_sensor": "says that runs failed",
    "check_alert_sensor": "says that checks failed",
    "check_sensor": "evaluates checks of assets",
    "catalog_sensor": "loads the code location again",
    "cut_off_sensor": "books what a run that was cut off has done",
    "queue_sensor": "says what waiting runs wait for",
    "users_sensor": "makes partitions",
    "prune_nightly": "removes old events",
}
"""What has no sense without Dagster."""


def test_a_tick_without_dagster_does_what_sensors_and_schedules_do(chat: str) -> None:
    with Lakehouse.open(chat) as lake:
        lake.create_namespace("shop")
        lake.pipelines.create("shop.orders", "csv")
        add_stream(chat, "ada")
        ticked = {one.action for one in MaintainOnce(lake, dry_run=False).run()}
    repository = build_definitions(chat).get_repository_def()
    names = {*(one.name for one in repository.sensor_defs), *(one.name for one in repository.schedule_defs)}
    uploads = {name for name in names if name.startswith("upload_")}
    assert len(uploads) == 1
    assert {IN_A_TICK.get(name, name) for name in names - uploads - OF_DAGSTER.keys()} <= ticked
    assert ticked == {*IN_A_TICK.values(), *CADENCES, "ingest shop.orders"}
    assert OF_DAGSTER.keys() <= names | {"alert_sensor", "check_alert_sensor", "check_sensor", "relay_sensor"}


def test_eviction_is_asked_for_only_where_something_has_expired(chat: str, instance: dg.DagsterInstance) -> None:
    assert tick(chat, instance) == (0, "there is no STREAM table")
    add_stream(chat, "ada")
    (request,) = evaluate("evict_minutely", chat, instance).run_requests or []
    assert request.run_config == {"ops": {"evict": {"config": {"dry_run": False}}}}
    instance.create_run_for_job(evict_job, tags={OPERATION: "evict", **Mount(chat).tags}, status=dg.DagsterRunStatus.STARTED)
    assert tick(chat, instance) == (0, "an eviction is under way")


def test_rows_that_were_evicted_ask_for_nothing(chat: str, instance: dg.DagsterInstance) -> None:
    add_stream(chat, "ada")
    with Lakehouse.open(chat) as lake:
        lake.evict()
    assert tick(chat, instance) == (0, "no row of a STREAM table has expired")


def test_schedules_of_disabled_engines_skip(chat: str, instance: dg.DagsterInstance) -> None:
    add_stream(chat, "ada")
    with Lakehouse.open(chat) as lake:
        lake.disable_engine("chat")
        for name in ("compact_hourly", "optimize_nightly", "vacuum_weekly", "evict_minutely"):
            data = evaluate(name, chat, instance)
            assert (data.run_requests or [], data.skip_message) == ([], "engine disabled")
        lake.enable_engine("chat")
        assert len(evaluate("compact_hourly", chat, instance).run_requests or []) == 1
