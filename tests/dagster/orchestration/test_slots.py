"""Who waits for whom in Dagster's queue, with the limits that the project ships."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._utils.tags import TagConcurrencyLimitsCounter

from lakewarden.dagster.jobs.runs import LIGHT, OPERATION, SCOPE, SLOT, SPARK
from tests.dagster.orchestration.conftest import Load
from tests.dagster.orchestration.test_sensors import tick
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER, sqlite_instance
from tests.test_docs import block_after

pytestmark = DAGSTER

SHIPPED = Path(__file__).parents[3] / "lakewarden" / "dagster" / "dagster.yaml"


def limits(text: str) -> TagConcurrencyLimitsCounter:
    return TagConcurrencyLimitsCounter(yaml.safe_load(text)["concurrency"]["runs"]["tag_concurrency_limits"], [])


def run(tags: dict[str, str]) -> dg.DagsterRun:
    return dg.DagsterRun(job_name="any", tags=tags)


def tags_of(load: Load, chat: str) -> dict[str, dict[str, str]]:
    jobs = load(chat).get_repository_def().get_all_jobs()
    return {job.name: dict(job.tags) for job in jobs if not job.name.startswith("__")}


@pytest.mark.parametrize("operation", ["restore_job", "erase_job", "check_job", "export_job", "evict_job", "record_job"])
def test_work_without_a_jvm_does_not_wait_for_one(load: Load, chat: str, operation: str) -> None:
    tags = tags_of(load, chat)
    for text in (
        SHIPPED.read_text(),
        block_after("docs/operations.md", "### Postgres", "yaml"),
    ):
        queue = limits(text)
        for _ in range(4):
            queue.update_counters_with_launched_item(run(tags["compact_job"]))
        assert queue.is_blocked(run(tags["optimize_job"])), "one JVM at a time, or a few"
        assert queue.is_blocked(run(tags["flush_job"])), "a large flush needs one"
        assert not queue.is_blocked(run(tags[operation]))
        assert not queue.is_blocked(run({**tags["flush_job"], SLOT: LIGHT})), "a small flush"


def test_a_scope_has_one_run_at_a_time() -> None:
    queue = limits(SHIPPED.read_text())
    queue.update_counters_with_launched_item(run({SCOPE: f"{MESSAGES}[ada]"}))
    assert queue.is_blocked(run({SCOPE: f"{MESSAGES}[ada]"}))
    assert not queue.is_blocked(run({SCOPE: f"{MESSAGES}[bob]"}))


def test_one_run_at_a_time_records() -> None:
    for text in (SHIPPED.read_text(), block_after("docs/operations.md", "### Postgres", "yaml")):
        queue = limits(text)
        queue.update_counters_with_launched_item(run({OPERATION: "record"}))
        assert queue.is_blocked(run({OPERATION: "record"})), "two would book the same commits"


def test_a_restore_comes_before_flushes_and_those_before_the_rest(load: Load, chat: str) -> None:
    priority = {name: int(tags["dagster/priority"]) for name, tags in tags_of(load, chat).items()}
    rest = max(priority[name] for name in ("compact_job", "optimize_job", "vacuum_job", "move_job", "record_job", "check_job"))
    assert priority["restore_job"] > priority["flush_job"] > rest


def test_the_sensor_gives_a_small_flush_a_light_slot(
    chat: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Load
) -> None:
    for user in ("ada", "bob"):
        write(chat, user, 10, 11)
    with sqlite_instance(tmp_path / "dagster") as instance:
        (small,), _, _ = tick("flush_sensor", chat, instance)
        monkeypatch.setenv("LAKEWARDEN_FLUSH__IN_PROCESS_BELOW", "2")
        (large,), _, _ = tick("flush_sensor", chat, instance)
        monkeypatch.setenv("LAKEWARDEN_FLUSH__IN_PROCESS_BELOW", "64")
        monkeypatch.setenv("LAKEWARDEN_FLUSH__LARGE_SCOPE_BYTES", "1")
        (heavy,), _, _ = tick("flush_sensor", chat, instance)
    assert small.tags[SLOT] == LIGHT
    assert (SLOT in large.tags, SLOT in heavy.tags) == (False, False)
    assert tags_of(load, chat)["flush_job"][SLOT] == SPARK
