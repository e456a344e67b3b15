"""The sensor and the job that keep topics up to date."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.dagster.jobs.relay import relay_job
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.relaying import TopicLook, build_relay_sensor, look_at
from lakewarden.ingest.topic_report import RelayReport
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.kafka import KafkaServer
from tests.storage.kafka.topics import committed

pytestmark = DAGSTER


def _report(seq: int | None, lag: int) -> RelayReport:
    return RelayReport(TableName("n", "orders"), "t", 0, seq, lag, "")


def test_a_topic_that_moves_is_left_to_who_publishes_it() -> None:
    seen, due = look_at([_report(1, 0)], {})
    for seq in range(2, 20):
        seen, due = look_at([_report(seq, 3)], seen)
        assert due == [], "another process publishes"
    seen, due = look_at([_report(19, 3)], seen)
    assert due == ["n.orders"], "and now none does"


def test_a_relay_that_does_not_get_on_is_run_less_and_less() -> None:
    seen: dict[str, TopicLook] = {}
    ticks = []
    for tick in range(3 * 240):
        seen, due = look_at([_report(None, 1)], seen)
        ticks += [tick] if due else []
    assert ticks[:5] == [0, 1, 3, 7, 15]
    assert len(ticks) <= 11
    seen, due = look_at([_report(5, 0)], seen)
    assert look_at([_report(5, 1)], seen)[1] == ["n.orders"], "it got on, and is run at once again"


def test_the_relay_sensor_runs_what_lags_from_the_start(load: Load, tmp_path: Path, kafka: KafkaServer) -> None:
    uri, topic = str(tmp_path / "w"), f"dagster.{tmp_path.name}"
    options = f"'log.system' = 'kafka', 'log.kafka.bootstrap.servers' = '{kafka.servers}', 'log.kafka.topic' = '{topic}'"
    instance = dg.DagsterInstance.ephemeral()

    def tick() -> tuple[int, str]:
        """How many runs the sensor wants, each of which is run; and why it skips."""
        with dg.build_sensor_context(instance=instance, resources=resources_of(Mount(uri))) as context:
            data = build_relay_sensor(Mount(uri)).evaluate_tick(context)
        for _ in data.run_requests or []:
            assert relay_job.execute_in_process(instance=instance, resources=resources_of(Mount(uri))).success
        return len(data.run_requests or []), data.skip_message or ""

    with Lakehouse.open(uri) as lake:
        lake.sql("CREATE NAMESPACE n; CREATE TABLE n.plain (id INT PRIMARY KEY)")
        assert "relay_sensor" not in {sensor.name for sensor in load(uri).get_repository_def().sensor_defs}
        lake.sql(f"CREATE DYNAMIC TABLE n.orders (id INT PRIMARY KEY) WITH ({options})")
        repository = load(uri).get_repository_def()
        assert repository.get_sensor_def("relay_sensor").default_status is dg.DefaultSensorStatus.RUNNING
        assert "relay_job" in {job.name for job in repository.get_all_jobs()}
        lake.sql("INSERT INTO n.orders VALUES (1), (2)")
        assert tick() == (1, "")
        assert tick() == (0, "every topic has all changes of its table")
        lake.sql("INSERT INTO n.orders VALUES (3)")
        assert tick()[0] == 1
        assert len(committed(kafka.servers, topic, 1)) == 3
