"""What stands on the page of a table's asset, and what its events start in assets of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import SensorSnap

from tests.dagster.jobs.test_materialize import materialize
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.chat import MESSAGES, USERS, add_stream, write
from tests.fixtures.dagster import DAGSTER, sqlite_instance

# Dagster 1.13 warns of its own beta parameter when it evaluates conditions.
pytestmark = [*DAGSTER, pytest.mark.filterwarnings("ignore:Parameter `include_sources` of function")]

KEY = dg.AssetKey(["chat", "messages"])
HEALTH = dg.AssetKey(["chat", "messages", "chat.messages-health"])


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with sqlite_instance(tmp_path / "dagster") as instance:
        instance.add_dynamic_partitions(MESSAGES, list(USERS))
        yield instance


def test_the_sensors_that_serve_a_table_are_on_its_page_and_run_their_jobs(load: Load, chat: str) -> None:
    repository = load(chat).get_repository_def()
    shown, healths = {}, set()
    for sensor in repository.sensor_defs:
        snap = SensorSnap.from_def(sensor, repository)
        selected = snap.asset_selection.resolve(repository.asset_graph) if snap.asset_selection else set()
        shown[snap.name] = (KEY in selected, set(snap.target_dict))
        healths |= {snap.name} if {HEALTH, dg.AssetKey("health")} <= selected else set()
    assert shown["flush_sensor"] == (True, {"flush_job"})
    assert shown["users_sensor"] == shown["cut_off_sensor"] == (True, {"record_job"})
    assert shown["check_sensor"] == (True, {"check_job"})
    assert shown["queued_sensor"][0] is False
    assert shown["health_sensor"] == (False, set())
    assert healths == {"health_sensor"}


def test_everything_says_what_it_does(load: Load, chat: str) -> None:
    add_stream(chat, "ada")
    repository = load(chat).get_repository_def()
    assert [one.name for one in repository.sensor_defs if not one.description] == []
    assert [one.name for one in repository.schedule_defs if not one.description] == []
    for job in repository.get_all_jobs():
        assert job.description or job.name.startswith("__"), job.name
        silent = [node.name for node in job.graph.nodes if not node.definition.description]
        assert not silent, job.name
    described = {
        key.path[-1]: repository.asset_graph.get(key).description or "" for key in repository.asset_graph.get_all_asset_keys()
    }
    assert "[compact_job](/guess/compact_job) (compact_hourly, `17 * * * *`)" in described["messages"]
    assert "evict_minutely" in described["typing"]
    assert "compact" not in described["typing"]


@pytest.mark.parametrize("by", ["flush_job", "materialize"])
def test_an_asset_of_others_runs_on_a_flush(load: Load, chat: str, instance: dg.DagsterInstance, by: str) -> None:
    parts = dg.DynamicPartitionsDefinition(name=MESSAGES)

    @dg.asset(deps=[KEY], automation_condition=dg.AutomationCondition.eager())
    def digest() -> None:
        """Of the whole table."""

    @dg.asset(deps=[KEY], partitions_def=parts, automation_condition=dg.AutomationCondition.eager())
    def profile() -> None:
        """Of one user."""

    defs = dg.Definitions.merge(load(chat), dg.Definitions(assets=[digest, profile]))
    record, flush = defs.resolve_job_def("record_job"), defs.resolve_job_def("flush_job")
    assert record.execute_in_process(instance=instance).success
    before = dg.evaluate_automation_conditions(defs, instance)
    quiet = dg.evaluate_automation_conditions(defs, instance, cursor=before.cursor)
    assert quiet.total_requested == 0
    write(chat, "bob", 10, 11)
    if by == "flush_job":
        assert flush.execute_in_process(run_config=_of("bob"), instance=instance).success
    else:
        assert materialize(chat, instance, KEY, "bob").success
    after = dg.evaluate_automation_conditions(defs, instance, cursor=quiet.cursor)
    assert after.get_num_requested(digest.key) == 1
    assert after.get_requested_partitions(profile.key) == {"bob"}


def _of(user: str) -> dict[str, object]:
    return {"ops": {"flush": {"config": {"scopes": {MESSAGES: [user]}}}}}
