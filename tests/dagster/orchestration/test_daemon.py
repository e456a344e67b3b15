"""A deployment's own daemon, as a process: it materializes what is downstream of a flush, and reports a failed run once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import TickStatus

from tests.dagster.orchestration.test_alerts import break_table
from tests.dagster.orchestration.test_restarts import wait_for
from tests.fixtures.chat import write
from tests.fixtures.dagster import DAGSTER, as_shipped

pytestmark = [*DAGSTER, pytest.mark.slow, pytest.mark.disk]

THEIRS = """
import dataclasses, json, pathlib
import dagster as dg
from dagster._core.definitions import sensor_definition
from lakewarden.dagster import build_definitions

sensor_definition.DEFAULT_SENSOR_DAEMON_INTERVAL = 5  # seconds, of the two that say nothing themselves; 30 otherwise
dg.RetryPolicy.calculate_delay = lambda *_: 0  # in the runs' own processes, too

def alert(failed):
    with pathlib.Path({alerts!r}).open("a") as file:
        file.write(json.dumps(dataclasses.asdict(failed)) + "\\n")

@dg.asset(deps=[dg.AssetKey(["chat", "messages"])], automation_condition=dg.AutomationCondition.any_deps_updated())
def report():
    pass

automation = dg.AutomationConditionSensorDefinition(
    "automation", target=dg.AssetSelection.all(), default_status=dg.DefaultSensorStatus.RUNNING
)
defs = dg.Definitions.merge(
    build_definitions({warehouse!r}, on_failure=alert), dg.Definitions(assets=[report], sensors=[automation])
)
"""
MESSAGES, REPORT = dg.AssetKey(["chat", "messages"]), dg.AssetKey("report")


@contextmanager
def daemon(code: Path, home: Path) -> Iterator[None]:
    command = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-f", str(code)]
    with (home / "daemon.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


def test_a_flush_runs_what_is_downstream_and_a_failure_is_reported_once(
    chat: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, code, alerts = tmp_path / "home", tmp_path / "theirs.py", tmp_path / "alerts"
    alerts.touch()
    code.write_text(THEIRS.format(alerts=str(alerts), warehouse=chat))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with as_shipped(home) as instance:

        def has_ticked() -> bool:
            """Whether the sensor of alerts has looked since, to the end."""
            states = [one for one in instance.all_instigator_state() if one.instigator_name == "alert_sensor"]
            ticks = (
                tick for one in states for tick in instance.get_ticks(one.instigator_origin_id, one.selector_id, after=since)
            )
            return any(tick.status is not TickStatus.STARTED for tick in ticks)

        def times(key: dg.AssetKey, description: str | None = None) -> list[float]:
            """When the asset was materialized, the newest last."""
            events = instance.fetch_materializations(key, limit=100).records[::-1]
            made = [(one.timestamp, one.asset_materialization) for one in events]
            return [at for at, event in made if event and description in (None, event.description)]

        def told() -> list[dict[str, str]]:
            return [json.loads(line) for line in alerts.read_text().splitlines()]

        def reported() -> Counter[str]:
            return Counter(one["run_id"] for one in told() if "check" not in one)

        with daemon(code, home):
            write(chat, "bob", 10, 11)
            wait_for(lambda: bool(flushes := times(MESSAGES, "flush: done")) and any(one > flushes[0] for one in times(REPORT)))
            break_table(chat, "ada")
            write(chat, "ada", 10, 11)
            wait_for(lambda: bool(reported()))
        since = time.time()
        with daemon(code, home):  # it goes on where the one before it had come
            wait_for(has_ticked)
        (materialized,) = instance.fetch_materializations(REPORT, limit=1).records
        run = instance.get_run_by_id(materialized.run_id)
        assert run is not None
        assert run.tags["dagster/sensor_name"] == "automation"
        failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        assert set(reported().values()) == {1}
        assert set(reported()) <= {run.run_id for run in failed}
        checks = Counter((one["asset"], one["check"]) for one in told() if "check" in one)
        assert set(checks.values()) <= {1}, "a check that turned failed meanwhile is reported once, too"
