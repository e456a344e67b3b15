"""Many scopes in one Spark job: the same results as in this process, and one scope's fault stays its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FlushSettings, SparkSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import StorageUnavailable, Terminal
from lakewarden.maintenance.engine import Progress, silent
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import SizedWork
from tests.fixtures.lakes import NOTES, check_manifest, cold_seqs, eventual, keys, make_notes, notes, scope_path, strong

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_USERS = [f"u{number:03d}" for number in range(60)]


def _open(uri: str, spark: SparkSession, *, in_process: bool = False, progress: Progress = silent) -> Lakehouse:
    flush = FlushSettings(in_process_below=10_000 if in_process else 1)
    settings = Settings(flush=flush, spark=SparkSettings(task_scopes=15))
    return Lakehouse.open(uri, settings=settings, progress=progress, spark=lambda: spark)


@pytest.fixture
def lakes(tmp_path: Path, spark: SparkSession) -> Iterator[tuple[Lakehouse, Lakehouse]]:
    """One that runs everything in Spark, and one that runs everything here."""
    with _open(str(tmp_path / "spark"), spark) as there, _open(str(tmp_path / "here"), spark, in_process=True) as here:
        yield there, here


def _write_first(lake: Lakehouse) -> None:
    rows = [
        {"owner": user, "id": key, "text": f"{user} {key}"} for user in _USERS for key in range(len(user) + int(user[1:]) % 3)
    ]
    make_notes(lake).write(rows, user_column="owner")


def _write_second(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    table.write([{"owner": user, "id": key, "text": "new"} for user in _USERS[::2] for key in (1, 50)], user_column="owner")
    table.delete([{"owner": user, "id": 2} for user in _USERS[::3]], user_column="owner")


def _shown(reports: list[ScopeReport]) -> list[tuple[Any, ...]]:
    """All of the reports but for ids, sizes and moments."""
    return [
        (
            report.scope,
            report.operation,
            report.outcome,
            report.version,
            report.state and (report.state.rows, report.state.files),
            {name: value for name, value in report.metrics.items() if "bytes" not in name},
        )
        for report in reports
    ]


def test_many_scopes_in_one_job_equal_those_of_this_process(lakes: tuple[Lakehouse, Lakehouse]) -> None:
    there, here = lakes
    for write in (_write_first, _write_second):
        for lake in lakes:
            write(lake)
        flushed = there.flush()
        assert {report.outcome for report in flushed} == {"done"}
        assert _shown(flushed) == _shown(here.flush())
    for user in _USERS:
        rows = eventual(there.table(NOTES), user)
        assert rows == eventual(here.table(NOTES), user) == strong(there.table(NOTES), user)
        assert cold_seqs(there, user) == cold_seqs(here, user)
        check_manifest(there, user)
    assert there.pending() == []
    assert _shown(there.optimize(NOTES, zorder=["text"])) == _shown(here.optimize(NOTES, zorder=["text"]))
    assert _shown(there.vacuum(NOTES, dry_run=True)) == _shown(here.vacuum(NOTES, dry_run=True))
    assert [finding.passed for finding in there.check()] == [finding.passed for finding in here.check()]


def test_one_scope_that_fails_leaves_the_others_done_and_says_so(tmp_path: Path, spark: SparkSession) -> None:
    with _open(str(tmp_path / "lake"), spark) as lake:
        _write_first(lake)
        lake.flush()
        _write_second(lake)
        broken = _USERS[6]
        commit = scope_path(lake, broken) / "_delta_log" / f"{0:020d}.json"
        text = commit.read_bytes()
        commit.write_text("no commit")

        failed = [report for report in lake.flush() if report.fault]
        assert [(report.scope.user, report.outcome) for report in failed] == [(broken, "failed")]
        assert failed[0].fault is not None
        assert failed[0].fault.code == "CORRUPT"
        assert [one.user for one in lake.pending()] == [broken]
        assert eventual(lake.table(NOTES), _USERS[8])[50] == "new"

        commit.write_bytes(text)
        assert [report.outcome for report in lake.flush()] == ["done"]
        assert eventual(lake.table(NOTES), broken)[50] == "new"


def test_progress_reaches_the_total(tmp_path: Path, spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    with _open(str(tmp_path / "lake"), spark, progress=lambda done, total: told.append((done, total))) as lake:
        _write_first(lake)
        lake.flush()
        assert {total for _, total in told} == {len(_USERS)}
        assert sum(done for done, _ in told) == len(_USERS)
        assert all(done >= 0 for done, _ in told)


def test_a_job_of_a_few_scopes_needs_no_session(tmp_path: Path) -> None:
    def no_session() -> SparkSession:
        raise AssertionError("nobody should ask")

    with Lakehouse.open(str(tmp_path), spark=no_session) as lake:
        table = make_notes(lake)
        table.write([{"owner": user, **row} for user in _USERS[:20] for row in notes({1: "a"})], user_column="owner")
        table.delete(keys([1]), user=_USERS[0])
        assert {report.outcome for report in lake.flush()} == {"done"}
        assert eventual(table, _USERS[0]) == {}


def test_a_task_that_dies_on_every_try_is_one_clear_error(spark: SparkSession) -> None:
    from lakewarden.spark.fanout import SparkFanOut  # needs the JVM's client

    def dies(number: int) -> Steps[int]:
        yield from ()
        raise RuntimeError(f"lost {number}")

    with pytest.raises(StorageUnavailable, match="the Spark job failed"):
        SparkFanOut(spark, SparkSettings())(dies, [SizedWork(1, 1)], lambda _: None)
    assert SparkFanOut(spark, SparkSettings())(dies, [], lambda _: None) == []


def test_progress_that_raises_stops_the_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    from lakewarden.spark.fanout import SparkFanOut  # needs the JVM's client

    class Enough(Terminal):
        """Somebody killed the job."""

    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    begun.mkdir()

    def blocked(number: int) -> Steps[int]:
        yield from ()
        (begun / str(number)).touch()
        while not go_on.exists():
            time.sleep(0.05)
        return number

    def advance(_done: int) -> None:
        raise Enough("stop")

    try:
        with pytest.raises(Enough):  # by itself the job would never end
            SparkFanOut(spark, SparkSettings(task_scopes=1))(blocked, [SizedWork(number, 1) for number in range(60)], advance)
        assert len(list(begun.iterdir())) < 60
    finally:
        go_on.touch()
