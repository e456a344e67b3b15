"""Events stored in batches: every one there, cheap, and Dagster's inside as it is counted on."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent
from dagster._core.events.log import EventLogEntry
from dagster._core.execution.context.system import IStepContext
from dagster._core.storage.event_log import EventLogStorage

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.dagster.assets.metadata import CommitLine
from lakewarden.dagster.jobs.event_log import batches
from lakewarden.dagster.jobs.event_log.batches import log_events
from lakewarden.dagster.jobs.event_log.events import ScopeEvent, book_events, register_users
from lakewarden.dagster.jobs.event_log.packed_storage import relaxed
from lakewarden.dagster.mount import Mount
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

LAKE = Mount("/lake")

MANY = batches.BATCH + 10
TABLES = (TableName("chat", "messages"), TableName("chat", "events"))


def booked(table: TableName, user: str, commits: int = 10) -> ScopeEvent:
    report = ScopeReport(
        scope=Scope(table, user),
        operation="flush",
        outcome="done",
        location=Location(f"/lake/data/{table.namespace}/{table.name}/{user}"),
        version=commits,
        parameters={"reason": "1000 pending rows of rows:1000"},
        metrics={"rows_upserted": 200, "rows_deleted": 0, "files_added": 1, "files_removed": 1, "bytes_added": 4_000},
        state=ScopeState(version=commits, rows=1_200, files=3, bytes=30_000, last_seq=1 << 40),
    )
    line = CommitLine(0, "2026-11-21T08:30:00Z", "flush", "+200", "+1 -1")
    return ScopeEvent(report, [line] * commits)


def book_in_a_run(instance: dg.DagsterInstance, all_booked: list[ScopeEvent]) -> None:
    """Books them from an op."""

    @dg.op
    def book(context: dg.OpExecutionContext) -> None:
        register_users(context.instance, LAKE, [one.report.scope for one in all_booked])
        book_events(context, LAKE, all_booked)

    @dg.job(executor_def=dg.in_process_executor)
    def booking_job() -> None:
        book()

    assert booking_job.execute_in_process(instance=instance).success


def assert_all_there(instance: dg.DagsterInstance, table: TableName, users: int) -> None:
    key = LAKE.asset_key(table)
    assert len(instance.get_materialized_partitions(key)) == users
    assert len(instance.get_dynamic_partitions(str(table))) == users
    assert instance.get_latest_materialization_event(key) is not None, "the asset's own entry is written too"


def test_events_of_more_than_a_batch_are_all_there_on_sqlite(instance: dg.DagsterInstance) -> None:
    book_in_a_run(instance, [booked(TABLES[0], f"u_{i}") for i in range(MANY)])
    assert_all_there(instance, TABLES[0], MANY)


def test_events_of_more_than_a_batch_are_all_there_on_postgres(postgres_instance: dg.DagsterInstance) -> None:
    half = [booked(table, f"u_{i}") for i in range(MANY // 2) for table in TABLES]
    book_in_a_run(postgres_instance, half)
    for table in TABLES:
        assert_all_there(postgres_instance, table, MANY // 2)


def test_dagster_still_takes_batches(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails when a Dagster to come stores them alone again, or knows another way."""
    stored: list[int] = []
    storage = type(instance.event_log_storage)
    inherited = storage.store_event_batch

    def store(self: EventLogStorage, events: Sequence[EventLogEntry]) -> None:
        stored.append(len(events))
        inherited(self, events)

    monkeypatch.setattr(storage, "store_event_batch", store)
    monkeypatch.setattr(batches, "BATCH", 20)
    monkeypatch.setenv(batches.VARIABLE, "20")
    book_in_a_run(instance, [booked(TABLES[0], f"u_{i}", 1) for i in range(27)])
    assert stored == [20, 7]


def test_without_that_way_the_public_one_is_taken(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    original = DagsterEvent.asset_materialization

    def another(step_context: IStepContext, materialization: dg.AssetMaterialization) -> DagsterEvent:
        return original(step_context, materialization)

    monkeypatch.setattr(DagsterEvent, "asset_materialization", staticmethod(another))
    book_in_a_run(instance, [booked(TABLES[0], f"u_{i}", 1) for i in range(5)])
    assert_all_there(instance, TABLES[0], 5)


def test_materializations_and_observations_go_in_batches_of_their_own(instance: dg.DagsterInstance) -> None:
    @dg.op
    def log(context: dg.OpExecutionContext) -> None:
        events = [kind("a", partition=str(i)) for i in range(3) for kind in (dg.AssetMaterialization, dg.AssetObservation)]
        log_events(context, events)

    @dg.job(executor_def=dg.in_process_executor)
    def logging_job() -> None:
        log()

    assert logging_job.execute_in_process(instance=instance).success
    assert len(instance.fetch_materializations(dg.AssetKey("a"), limit=10).records) == 3
    assert len(instance.fetch_observations(dg.AssetKey("a"), limit=10).records) == 3


def test_sqlite_waits_for_the_disk_again_afterwards(instance: dg.DagsterInstance) -> None:
    with relaxed(instance.event_log_storage, "a-run"):
        pass
    with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]  # SQLite's own
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == _default_synchronous()


def _default_synchronous() -> int:
    with closing(sqlite3.connect(":memory:")) as connection:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])
