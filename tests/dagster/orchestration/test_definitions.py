"""The public surface of the code location: what it is called, and that it loads anywhere."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

import lakewarden.dagster
from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from lakewarden.dagster import Pools, WarehouseComponent, build_definitions
from lakewarden.dagster.definitions import VARIABLE, WEBHOOK
from lakewarden.dagster.jobs.runs import SCOPE
from lakewarden.dagster.mount import is_beneath
from lakewarden.errors import InvalidArgument
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.chat import add_stream, make_chat, write
from tests.fixtures.dagster import DAGSTER, sqlite_instance

pytestmark = DAGSTER

JOBS = {
    "flush_job",
    "evict_job",
    "compact_job",
    "optimize_job",
    "vacuum_job",
    "restore_job",
    "repair_job",
    "check_all_job",
    "record_job",
    "erase_job",
    "export_job",
    "move_job",
    "ingest_job",
    "run_queued_job",
    "prune_job",
}
OF_CHAT = {"check_job", "restore_chat__messages", "restore_chat__rooms"}
"""Jobs that the tables of a warehouse bring."""

SCHEDULES = {
    "evict_minutely": "* * * * *",
    "compact_hourly": "17 * * * *",
    "optimize_nightly": "30 2 * * *",
    "vacuum_weekly": "0 4 * * 0",
    "prune_nightly": "50 3 * * *",
    "check_nightly": "10 1 * * *",
}
SENSORS = {
    "flush_sensor",
    "queue_sensor",
    "queued_sensor",
    "cut_off_sensor",
    "users_sensor",
    "catalog_sensor",
    "check_sensor",
    "health_sensor",
}
CHECKS = {
    *("one_row_per_key", "columns_as_declared", "log_and_table_agree", "flushed_in_time"),
    *("nothing_late", "nothing_broken", "all_checks_pass"),
}


def test_the_names_that_people_rely_on(load: Load, chat: str) -> None:
    defs = load(chat)
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    assert {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()} == {
        "chat/messages",
        "chat/messages/chat.messages-health",
        "chat/rooms",
        "chat/rooms/chat.rooms-health",
        "health",
    }
    assert {job.name for job in repository.get_all_jobs()} - {"__ASSET_JOB"} == JOBS | OF_CHAT
    assert {schedule.name: schedule.cron_schedule for schedule in repository.schedule_defs} == SCHEDULES
    assert {sensor.name for sensor in repository.sensor_defs if sensor.name != "default_automation_condition_sensor"} == SENSORS
    assert {check.name for check in repository.asset_graph.asset_check_keys} == CHECKS
    assert repository.asset_graph.get(dg.AssetKey(["chat", "messages"])).partitions_def is not None
    assert repository.asset_graph.get(dg.AssetKey(["chat", "rooms"])).partitions_def is None


def test_everything_runs_by_itself_from_the_start(load: Load, chat: str) -> None:
    add_stream(chat, "ada")
    repository = load(chat).get_repository_def()
    assert all(schedule.default_status is dg.DefaultScheduleStatus.RUNNING for schedule in repository.schedule_defs)
    ours = [sensor for sensor in repository.sensor_defs if sensor.name in SENSORS]
    assert all(sensor.default_status is dg.DefaultSensorStatus.RUNNING for sensor in ours)


def test_no_warehouse_is_no_fault(load: Load, tmp_path: Path) -> None:
    defs = load(str(tmp_path / "nowhere"))
    dg.Definitions.validate_loadable(defs)
    assert defs.get_repository_def().asset_graph.get_all_asset_keys() == set()
    assert not (tmp_path / "nowhere").exists()


def test_every_type_of_table_becomes_an_asset(load: Load, chat: str, tmp_path: Path) -> None:
    add_stream(chat, "ada")
    with Lakehouse.open(chat) as lake:
        lake.create_storage("own", type="filesystem", base=str(tmp_path / "own"))
        columns = [Column("id", "BIGINT"), Column("photo", "FILE")]
        options = {"STORAGE_ID": "own", "USE_USER_STORAGE": "true"}
        lake.create_table("chat.photos", type="USER", columns=columns, primary_key=["id"], options=options)
        lake.create_table("chat.posters", type="SHARED", columns=columns, primary_key=["id"])
    defs = load(chat)
    dg.Definitions.validate_loadable(defs)
    graph = defs.get_repository_def().asset_graph
    tables = [key for key in graph.get_all_asset_keys() if not is_beneath(key.path[-1]) and key.path != ["health"]]
    partitioned = {key.path[-1]: graph.get(key).partitions_def is not None for key in tables}
    assert partitioned == {"messages": True, "rooms": False, "typing": True, "photos": True, "posters": False}
    checked = {key.asset_key.path[-1] for key in graph.asset_check_keys} - {"health"}
    assert checked == {"messages", "rooms", "photos", "posters"}, "a STREAM table has no Delta table to check"


def test_a_namespace_may_hold_a_hyphen(load: Load, chat: str) -> None:
    with Lakehouse.open(chat) as lake:
        lake.create_namespace("kb-prod")
        lake.create_table("kb-prod.events", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"])
    defs = load(chat)
    dg.Definitions.validate_loadable(defs)
    node = defs.get_repository_def().asset_graph.get(dg.AssetKey(["kb-prod", "events"]))
    assert node.group_name == "kb_prod"
    assert node.partitions_def.name == "kb-prod.events"  # type: ignore[union-attr]
    assert "restore_kb_prod__events" in {job.name for job in defs.get_repository_def().get_all_jobs()}


def test_the_docs_name_every_job_and_when_it_runs() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    rows = [line for line in documented.splitlines() if line.startswith("| ")]
    for name in (*JOBS, "check_job", *SENSORS):
        assert any(f"`{name}`" in row for row in rows), name
    for name, cron in SCHEDULES.items():
        assert any(f"`{name}`" in row and f"`{cron}`" in row for row in rows), name


def test_the_environment_names_the_warehouse_if_nothing_else_does(chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, chat)
    defs = build_definitions()
    assert dg.AssetKey(["chat", "messages"]) in defs.get_repository_def().asset_graph.get_all_asset_keys()
    assert defs.get_repository_def().get_env_vars_by_top_level_resource() == {VARIABLE: {"lake"}}, "the pages show its name"
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(InvalidArgument, match=f"{VARIABLE} is not set"):
        build_definitions(dg.EnvVar(VARIABLE))
    with pytest.raises(InvalidArgument, match="'e-u' is not a name"):
        build_definitions(chat, key_prefix=["e-u"])


def test_two_warehouses_stand_beside_each_other(chat: str, tmp_path: Path) -> None:
    """One Dagster, tables of the same names: each job flushes, books and is followed in its own warehouse alone."""
    make_chat(str(tmp_path / "us"))
    for user in ("ada", "bob"):
        write(chat, user, 10, 11)
    defs = dg.Definitions.merge(
        build_definitions(chat, key_prefix=["eu", "lake"], group="europe", pools=Pools(spark="jvm")),
        build_definitions(str(tmp_path / "us"), key_prefix=["us"], pools=Pools(spark="jvm")),
    )
    dg.Definitions.validate_loadable(defs)
    graph = defs.get_repository_def().asset_graph
    eu, us = dg.AssetKey(["eu", "lake", "chat", "messages"]), dg.AssetKey(["us", "chat", "messages"])
    assert (graph.get(eu).group_name, graph.get(us).group_name) == ("europe", "us_chat")
    names = {job.name for job in defs.get_repository_def().get_all_jobs()} - {"__ASSET_JOB"}
    assert names == {f"{prefix}_{job}" for prefix in ("eu_lake", "us") for job in (*JOBS, *OF_CHAT)}
    with sqlite_instance(tmp_path / "dagster") as instance:
        (request,) = _tick(defs, "eu_lake_flush_sensor", instance)
        assert _tick(defs, "us_flush_sensor", instance) == []
        job = defs.resolve_job_def("eu_lake_flush_job")
        instance.create_run_for_job(job, run_config=request.run_config, tags=job.tags, status=dg.DagsterRunStatus.STARTED)
        assert _tick(defs, "eu_lake_flush_sensor", instance) == [], "the run that is under way is this warehouse's"
        write(str(tmp_path / "us"), "ada", 10, 11)
        (other,) = _tick(defs, "us_flush_sensor", instance)
        assert other.tags[SCOPE] == "us.chat.messages[ada]"
        assert job.execute_in_process(instance=instance, run_config=request.run_config).success
        assert instance.get_materialized_partitions(eu) == {"ada", "bob"}
        assert instance.get_materialized_partitions(us) == set()
        assert set(instance.get_dynamic_partitions("eu.lake.chat.messages")) == {"ada", "bob"}
        checks = defs.resolve_job_def("us_check_job").execute_in_process(instance=instance)
        assert {one.asset_key.path[0] for one in checks.get_asset_check_evaluations()} == {"us"}


def test_assets_name_their_owners_and_their_code(chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, chat)
    monkeypatch.setenv("LAKEWARDEN_OWNERS", "team:data, ops@example.org")
    by_call = build_definitions(chat, key_prefix=["eu"], owners=["team:eu"]).get_repository_def().asset_graph
    of_environment = build_definitions().get_repository_def().asset_graph
    for graph, owners in ((of_environment, ["team:data", "ops@example.org"]), (by_call, ["team:eu"])):
        for node in graph.asset_nodes:
            (reference,) = node.metadata["dagster/code_references"].value.code_references
            assert (list(node.owners), Path(reference.file_path).exists()) == (owners, True), node.key


def test_a_component_is_the_same_as_the_call(chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "WarehouseComponent" in dir(lakewarden.dagster), "dg looks for components by it"
    attributes = {
        "warehouse": chat,
        "key_prefix": ["eu"],
        "group": "europe",
        "spark_pool": "jvm",
        "alert_webhook": "http://there",
    }
    defs = WarehouseComponent.from_attributes_dict(attributes=attributes).build_defs(dg.ComponentTree.for_test().load_context)
    repository = defs.get_repository_def()
    pools = {name: repository.get_job(f"eu_{name}_job").graph.node_named(name).definition.pools for name in ("flush", "restore")}
    assert pools == {"flush": {"jvm"}, "restore": set()}, "a restore starts no JVM"
    assert repository.has_sensor_def("eu_alert_sensor")
    monkeypatch.setenv(WEBHOOK, "http://there")
    assert not build_definitions(chat).get_repository_def().has_sensor_def("alert_sensor"), "only of the default warehouse"
    monkeypatch.setenv(VARIABLE, chat)
    assert build_definitions().get_repository_def().has_sensor_def("alert_sensor")


def _tick(defs: dg.Definitions, name: str, instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    repository = defs.get_repository_def()
    with dg.build_sensor_context(instance=instance, resources=repository.get_top_level_resources(), definitions=defs) as context:
        return list(repository.get_sensor_def(name).evaluate_tick(context).run_requests or [])
