"""`erase_job` and `export_job`: the certificate is shown, and no byte of Dagster's home names the erased user."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import psycopg2
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from psycopg2 import sql

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.erase import erase_job
from lakewarden.dagster.jobs.event_log.packed_storage import unpack
from lakewarden.dagster.jobs.export import export_job
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.jobs.runs import SCOPE
from tests.dagster.jobs.conftest import RunJob, runner
from tests.fixtures.bucket import path_of
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.postgres import PostgresServer

pytestmark = DAGSTER

USER = "zoe-1f9c77"
KEY = dg.AssetKey(["chat", "messages"])


def ask(uri: str, user: str = USER) -> str:
    with Lakehouse.open(uri) as lake:
        return lake.request_erasure(user, asked_by="a test", even_if_unknown=True)


def naming(home: Path, word: str = USER) -> list[str]:
    """A grep over all that Dagster keeps, packed events among them."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return [
        str(path.relative_to(home))
        for path in files
        if word.encode() in path.read_bytes() or any(word in event for event in _packed_in(path))
    ]


def _packed_in(path: Path) -> Iterator[str]:
    if path.suffix == ".db" and path.parent.name == "runs":
        with closing(sqlite3.connect(path)) as database:
            events = "SELECT event FROM event_logs UNION ALL SELECT last_materialization FROM asset_keys"
            found = database.execute(events).fetchall()
            yield from (unpack(stored) for (stored,) in found if stored is not None)


@pytest.fixture
def known(chat: str, instance: dg.DagsterInstance, run_job: RunJob, tmp_path: Path) -> str:
    make_known(chat, instance, run_job, tmp_path)
    return chat


def make_known(chat: str, instance: dg.DagsterInstance, run_job: RunJob, tmp_path: Path) -> None:
    """Dagster knows the user by forms, tags, partitions, events, a failure and an export."""
    write(chat, USER, 1, 2)
    assert run_job(record_job).success
    assert run_job(flush_job).success
    assert not run_job(flush_job, {"tables": ["chat.nothing"], "user": USER}).success
    assert run_job(export_job, {"user": USER, "to": str(tmp_path / "out")}).success
    run = instance.create_run_for_job(flush_job, tags={SCOPE: f"{MESSAGES}[{USER}]"}, status=dg.DagsterRunStatus.SUCCESS)
    assert run.tags[SCOPE]


def test_an_export_is_an_event_of_the_users_partition(known: str, instance: dg.DagsterInstance, tmp_path: Path) -> None:
    (event,) = [record.asset_observation for record in instance.fetch_observations(KEY, limit=10).records]
    assert event is not None
    assert (event.partition, event.metadata["dagster/partition_row_count"].value) == (USER, 2)
    assert Path(str(event.metadata["path"].value)).is_relative_to(tmp_path / "out")
    assert known


def test_nothing_of_dagsters_names_an_erased_user(
    known: str, instance: dg.DagsterInstance, run_job: RunJob, tmp_path: Path
) -> None:
    assert naming(tmp_path / "dagster"), "Dagster knew the user"
    request = ask(known)
    result = run_job(erase_job, {"request": request, "dry_run": False})
    assert result.success
    assert naming(tmp_path / "dagster") == []
    assert not instance.has_dynamic_partition(MESSAGES, USER)
    assert instance.get_materialized_partitions(KEY) == {"ada", "bob", "eve"}, "the others stay"
    certified = [
        event.metadata
        for record in instance.fetch_observations(KEY, limit=10).records
        if (event := record.asset_observation) and event.partition is None
    ]
    assert [metadata["certificate/user"].value for metadata in certified] == [request]
    assert certified[0]["certificate/result"].value == "complete"
    with Lakehouse.open(known) as lake:
        assert lake.verify_erased(USER, deep=True).findings == ()


def test_an_erasure_does_what_its_preview_planned(known: str, run_job: RunJob, tmp_path: Path) -> None:
    request = ask(known)
    preview = run_job(erase_job, {"request": request})
    output = next(event for event in preview.all_node_events if event.is_successful_output)
    plan = output.step_output_data.metadata["plan_id"].value
    other = ask(known, "ada")
    assert not run_job(erase_job, {"request": other, "dry_run": False, "plan": plan}).success
    assert run_job(erase_job, {"request": request, "dry_run": False, "plan": plan}).success
    assert naming(tmp_path / "dagster") == []
    with Lakehouse.open(known) as lake:
        assert lake.verify_erased(USER, deep=True).findings == ()
        assert [certificate.user for certificate in lake.erasures()] == [request]


def rows_naming(server: PostgresServer, word: str = USER) -> list[str]:
    """A grep over every row of every table; in which tables it was found."""
    place = {"host": server.host, "port": server.port, "user": server.user, "dbname": server.database}
    with closing(psycopg2.connect(**place)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found = []
        for (table,) in cursor.fetchall():
            wanted = sql.SQL("SELECT count(*) FROM {} AS each WHERE each::text LIKE %s").format(sql.Identifier(table))
            cursor.execute(wanted, [f"%{word}%"])
            found += [table] if cursor.fetchone() != (0,) else []
    return sorted(found)


def test_nothing_on_postgres_names_an_erased_user(
    chat: str, postgres: PostgresServer, postgres_instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    run_job = runner(chat, postgres_instance)
    make_known(chat, postgres_instance, run_job, tmp_path)
    sensor_tick(postgres_instance)
    assert {"runs", "run_tags", "event_logs", "dynamic_partitions", "asset_keys", "job_ticks"} <= set(rows_naming(postgres))
    assert run_job(erase_job, {"request": ask(chat), "dry_run": False}).success
    assert rows_naming(postgres) == []
    assert naming(tmp_path / "dagster") == []
    assert postgres_instance.get_materialized_partitions(KEY) == {"ada", "bob", "eve"}, "the others are booked again"


def sensor_tick(instance: dg.DagsterInstance) -> None:
    """The flush sensor has asked for a run of the user."""
    target = InProcessCodeLocationOrigin(LoadableTargetOrigin(python_file="orchestration/definitions.py"))
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(target, "repository"), "flush_sensor")
    state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, SensorInstigatorData(min_interval=15))
    instance.add_instigator_state(state)
    request = dg.RunRequest(run_config={"ops": {"flush": {"config": {"scopes": {MESSAGES: [USER]}}}}})
    asked = TickData(
        state.instigator_origin_id,
        "flush_sensor",
        InstigatorType.SENSOR,
        TickStatus.SUCCESS,
        timestamp=time.time() - 60,
        selector_id=state.selector_id,
        run_ids=["a-run"],
        run_requests=[request],
    )
    instance.create_tick(asked)


def test_ticks_that_asked_for_runs_of_the_user_go_too(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob, tmp_path: Path
) -> None:
    sensor_tick(instance)
    assert naming(tmp_path / "dagster"), "the tick names the user"
    assert run_job(erase_job, {"request": ask(chat), "dry_run": False}).success
    assert naming(tmp_path / "dagster") == []


def test_the_dry_run_counts_and_changes_nothing(known: str, run_job: RunJob) -> None:
    request = ask(known)
    result = run_job(erase_job, {"request": request})
    assert result.success
    (output,) = [event for event in result.all_node_events if event.is_successful_output]
    assert int(str(output.step_output_data.metadata["findings"].value)) > 1
    with Lakehouse.open(known) as lake:
        assert lake.requested_erasure(request).user == USER
        assert lake.table(MESSAGES).read(user=USER).num_rows == 2


def test_a_failure_does_not_name_the_user(chat: str, instance: dg.DagsterInstance, run_job: RunJob, tmp_path: Path) -> None:
    write(chat, USER, 1, 2)
    with Lakehouse.open(chat) as lake:
        lake.flush()
        stray = path_of(lake.warehouse.uri) / "data/chat/messages/ada" / USER / "x"
    stray.parent.mkdir()
    stray.write_text("x")
    assert not run_job(erase_job, {"request": ask(chat), "dry_run": False}).success
    assert naming(tmp_path / "dagster") == []
    assert instance.get_runs_count() == 1


def test_a_run_that_is_not_over_fails_the_job_and_is_named(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    config = {"ops": {"flush": {"config": {"tables": [MESSAGES], "user": USER}}}}
    running = instance.create_run_for_job(flush_job, run_config=config, status=dg.DagsterRunStatus.STARTED)
    result = run_job(erase_job, {"request": ask(chat), "dry_run": False})
    assert not result.success
    (failed,) = [event.step_failure_data.user_failure_data for event in result.all_node_events if event.is_step_failure]
    assert failed is not None
    assert failed.metadata["runs"].value == running.run_id
    with Lakehouse.open(chat) as lake:
        assert [one.result for one in lake.erasures()] == ["complete"]


def test_an_id_in_place_of_the_hash_is_refused(run_job: RunJob) -> None:
    assert not run_job(erase_job, {"request": "ada", "dry_run": False}).success
