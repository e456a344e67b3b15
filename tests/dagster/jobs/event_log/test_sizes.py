"""What an event with a scope's whole history takes in Dagster's storage, with its indexes and copies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
import sqlalchemy as db
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.dagster.assets.metadata import SHOWN, CommitLine
from lakewarden.dagster.jobs.event_log.events import ScopeEvent
from tests.dagster.jobs.event_log.test_batches import book_in_a_run
from tests.dagster.jobs.event_log.test_packed_storage import stored_bytes
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

SCOPES = 400
MOST = 2_560
START = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)


def booked(number: int, turn: int) -> ScopeEvent:
    """A flush of a scope that has been flushed often, in the size that it has."""
    newest = 40 + turn + number % 50
    at = [START + timedelta(hours=version, seconds=37 * number) for version in range(newest + 1)]
    lines = [
        CommitLine(
            version,
            f"{at[version]:%Y-%m-%dT%H:%M:%SZ}",
            ("flush", "flush", "flush", "compact")[version % 4],
            f"+{100 + (number * 7 + version * 31) % 900} ~{(number + version) % 40}",
            f"+1 -{version % 3}",
        )
        for version in range(newest, newest - SHOWN, -1)
    ]
    table, user = TableName("app", "events"), f"u_{number:06d}"
    report = ScopeReport(
        scope=Scope(table, user),
        operation="flush",
        outcome="done",
        location=Location(f"s3://warehouse/data/app/events/{user}"),
        version=newest,
        parameters={"job_id": f"FL-01a1fd16ca9f-{number:08x}"},
        metrics={"rows_upserted": 200 + number, "rows_inserted": 100 + number, "rows_updated": 100, "rows_written": 1_200}
        | {"files_added": 1, "files_removed": number % 3, "bytes_written": 20_000 + number},
        state=ScopeState(version=newest, rows=1_200 + number, files=3, bytes=30_000 + 13 * number, last_seq=1 << 40),
        finished_at=at[newest],
    )
    return ScopeEvent(report, lines)


def grown(instance: dg.DagsterInstance) -> float:
    """Bytes a scope of the second of two runs that book them all."""
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    size = stored_bytes if isinstance(storage, SqliteEventLogStorage) else _postgres_bytes
    sizes = []
    for turn in range(2):
        before = size(storage)
        book_in_a_run(instance, [booked(number, turn) for number in range(SCOPES)])
        sizes.append((size(storage) - before) / SCOPES)
    return sizes[-1]


def _postgres_bytes(storage: SqlEventLogStorage) -> int:
    with storage.index_connection() as connection:
        sizes = "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables"
        return int(connection.execute(db.text(sizes)).scalar_one())


def test_sqlite_takes_at_most_2560_bytes_a_scope_and_flush(instance: dg.DagsterInstance) -> None:
    assert grown(instance) <= MOST


def test_postgres_takes_at_most_2560_bytes_a_scope_and_flush(postgres_instance: dg.DagsterInstance) -> None:
    assert grown(postgres_instance) <= MOST
