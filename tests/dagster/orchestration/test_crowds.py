"""A table that crosses the number of users up to which they are partitions, at that number, up and down."""

from __future__ import annotations

import dagster as dg
import pytest

from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.tables import MAX_PARTITIONS
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration import sensors
from tests.dagster.jobs.conftest import runner
from tests.dagster.jobs.test_jobs import materialized
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.chat import MESSAGES, USERS, write
from tests.fixtures.dagster import DAGSTER

pytestmark = [*DAGSTER, pytest.mark.night]


class Location:
    """The code location as it was loaded last, and its sensor of users with the cursor of its last tick."""

    def __init__(self, uri: str, load: Load, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
        self._uri, self._load, self._instance = uri, load, instance
        self._cursor: str | None = None
        self._asked = list[dg.SensorEvaluationContext]()
        monkeypatch.setattr(sensors, "reload_or_ask", self._asked.append)
        self.reload()

    def reload(self) -> None:
        self._repository = self._load(self._uri).get_repository_def()

    def is_partitioned(self) -> bool:
        return self._repository.asset_graph.get(dg.AssetKey(MESSAGES.split("."))).partitions_def is not None

    def asks_for_a_reload(self) -> bool:
        """By a tick of the sensor."""
        self._asked.clear()
        sensor = self._repository.get_sensor_def("users_sensor")
        resources = resources_of(Mount(self._uri))
        with dg.build_sensor_context(instance=self._instance, cursor=self._cursor, resources=resources) as context:
            self._cursor = sensor.evaluate_tick(context).cursor
        return bool(self._asked)

    def previews_a_restore(self, user: str) -> bool:
        """With the user in the form, as where users are no partitions."""
        job = self._repository.get_job("restore_chat__messages")
        config = {"ops": {"restore_table": {"config": {"to": 0, "user": user}}}}
        return job.execute_in_process(run_config=config, instance=self._instance, raise_on_error=False).success


def test_up_and_down_at_the_number_itself(
    load: Load, chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lakehouse.open(chat) as lake:
        registry, table_id = lake.warehouse.registry, lake.table(MESSAGES).table.id
        registry.add(table_id, [f"user {number}" for number in range(MAX_PARTITIONS - len(USERS))])
        flush = runner(chat, instance)
        location = Location(chat, load, instance, monkeypatch)
        assert not location.asks_for_a_reload()
        assert len(instance.get_dynamic_partitions(MESSAGES)) == MAX_PARTITIONS

        write(chat, "one more", 1, 2)
        assert flush(flush_job).success
        assert materialized(instance)[0].partition is None, "one event, of the table"
        assert location.asks_for_a_reload()
        location.reload()
        assert not location.is_partitioned()
        assert not location.asks_for_a_reload()
        assert location.previews_a_restore("one more")

        registry.discard(table_id, "user 0")
        assert location.asks_for_a_reload()
        location.reload()
        assert location.is_partitioned()
        assert not location.asks_for_a_reload()
        assert "one more" in instance.get_dynamic_partitions(MESSAGES)
        write(chat, "one more", 3, 4)
        assert flush(flush_job).success
        assert materialized(instance)[0].partition == "one more"
