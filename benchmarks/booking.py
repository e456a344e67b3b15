"""What Dagster books for a flush of many scopes, beside the flush itself: every event with its metadata."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import dagster as dg
import sqlalchemy
from dagster._core.storage.event_log import SqlEventLogStorage
from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import quiet_seconds, seconds, spread
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from tests.fixtures.dagster import sqlite_instance
from tests.fixtures.postgres import serve_postgres


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    section = Section("booking", scale.name)
    users = data.users(scale.scopes)
    with (
        Lakehouse.open(str(place / "lake"), spark=lambda: spark) as lake,
        sqlite_instance(place / "sqlite") as sqlite,
        postgres_instance(place / "postgres") as postgres,
    ):
        events = data.create(lake)
        events.write(data.rows(users, 0, scale.existing), user_column="user")
        lake.flush(data.TABLE)
        taken: dict[str, list[float]] = {"the flush": [], "booking on Postgres": [], "booking on SQLite": []}
        before = _postgres_bytes(postgres), _directory_bytes(place / "sqlite")
        for number in range(1, scale.rounds + 1):
            events.write(data.rows(users, scale.existing * number - scale.new // 2, scale.new), user_column="user")
            reports: list[ScopeReport] = []
            taken["the flush"].append(quiet_seconds(lambda: reports.extend(lake.flush(data.TABLE))))  # noqa: B023  # called here
            taken["booking on Postgres"].append(_booked(lake, reports, postgres))
            taken["booking on SQLite"].append(_booked(lake, reports, sqlite))
        after = _postgres_bytes(postgres), _directory_bytes(place / "sqlite")
    flush = median(taken["the flush"])
    rows = [
        (what, spread(found), f"{1000 * median(found) / scale.scopes:.1f} ms", f"{median(found) / flush:.2f}")
        for what, found in taken.items()
    ]
    section.tables.append(
        Table(
            f"{scale.scopes:,} scopes, {scale.new} rows onto {scale.existing:,} each, and the events of that run: one a scope,"
            " with its metadata. Target: less than the flush on Postgres, at most"
            " 10 ms a scope on SQLite.",
            ("what", "time", "a scope", "of the flush"),
            rows,
        )
    )
    grown = [(end - start) // (scale.rounds * scale.scopes) for start, end in zip(before, after, strict=True)]
    section.tables.append(
        Table(
            "What Dagster's storage grows by, with its indexes. Target: at most 2,560 bytes. SQLite stores an event twice, until"
            " `prune_nightly`.",
            ("storage", "bytes a scope and flush"),
            [(name, f"{size:,}") for name, size in zip(("Postgres", "SQLite"), grown, strict=True)],
        )
    )
    return section


def _postgres_bytes(instance: dg.DagsterInstance) -> int:
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    with storage.index_connection() as connection:
        sizes = "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables"
        return int(connection.execute(sqlalchemy.text(sizes)).scalar_one())


def _directory_bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


@contextmanager
def postgres_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """A Dagster instance on a Postgres server of its own."""
    with serve_postgres() as server:
        home.mkdir(parents=True)
        place = f"hostname: {server.host}, port: {server.port}, username: {server.user}, password: {server.password}"
        storage = f"storage: {{postgres: {{postgres_db: {{{place}, db_name: {server.database}}}}}}}\n"
        (home / "dagster.yaml").write_text(f"telemetry: {{enabled: false}}\n{storage}")
        with dg.DagsterInstance.from_config(str(home)) as instance:
            yield instance


def _booked(lake: Lakehouse, reports: list[ScopeReport], instance: dg.DagsterInstance) -> float:
    """Seconds that the op of a run takes to book; starting the run is not ours."""
    took: list[float] = []

    @dg.op
    def time_booking(context: dg.OpExecutionContext) -> None:
        took.append(seconds(book, WarehouseRun(context, lake, Mount(lake.warehouse.uri)), reports))

    @dg.job(executor_def=dg.in_process_executor)
    def booking_job() -> None:
        time_booking()

    quiet = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}
    booking_job.execute_in_process(instance=instance, run_config=quiet)
    return took[0]
