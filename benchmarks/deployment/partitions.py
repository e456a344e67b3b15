"""What 15,000 partitions cost Dagster on Postgres: ticks of the sensors, the queries of its pages, and planning of asset runs.

    python -m benchmarks.deployment.partitions [PARTITIONS]

Processor time of this process and statements, which a busy machine does not change. Prints JSON.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from benchmarks import data
from benchmarks.deployment.booked import counted
from benchmarks.quiet import make
from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.evolution import SetOptions
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.client import Lakehouse
from lakewarden.dagster import build_definitions
from lakewarden.dagster.jobs.event_log.events import ScopeEvent, book_events, register_users
from lakewarden.dagster.mount import Mount
from tests.fixtures.dagster import on_postgres
from tests.fixtures.postgres import serve_postgres

KEY = dg.AssetKey(data.TABLE.split("."))
PLANNED = 500
SENSORS = ("flush_sensor", "users_sensor", "cut_off_sensor", "queue_sensor", "health_sensor", "check_sensor")

Cost = tuple[float, int]
"""Seconds of processor time, and statements."""


def main(partitions: int) -> None:
    with tempfile.TemporaryDirectory() as root, serve_postgres() as server, on_postgres(Path(root) / "home", server) as instance:
        uri = f"{root}/lake"
        make(uri, partitions)
        definitions = build_definitions(uri)
        _book(instance, Mount(uri), partitions)
        found: dict[str, Cost] = {}
        for name in SENSORS:
            for look in ("first", "later"):
                found[f"{name}, {look}"] = _tick(definitions, instance, name)
        _write_to_all(uri, partitions)
        for name in ("flush_sensor", "health_sensor"):
            found[f"{name}, all users are due"] = _tick(definitions, instance, name)
        found |= _pages(definitions, instance)
        found[f"planning of an asset run of {PLANNED} partitions"] = _planning(definitions, instance)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


def cost(work: Callable[[], object]) -> Cost:
    with counted() as statements:
        began = time.process_time()
        work()
        return time.process_time() - began, len(statements)


def _book(instance: dg.DagsterInstance, mount: Mount, partitions: int) -> None:
    """An event of each partition, as a flush books it."""
    name = TableName.parse(data.TABLE)
    scopes = [Scope(name, user) for user in data.users(partitions)]
    state = ScopeState(version=0, rows=100, files=1, bytes=4096, last_seq=1)
    reports = [ScopeReport(scope, "flush", "done", Location(mount.uri), version=0, state=state) for scope in scopes]

    @dg.op
    def booking(context: dg.OpExecutionContext) -> None:
        register_users(context.instance, mount, scopes)
        book_events(context, mount, map(ScopeEvent, reports))

    @dg.job(executor_def=dg.in_process_executor)
    def booking_job() -> None:
        booking()

    quiet = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}
    booking_job.execute_in_process(instance=instance, run_config=quiet)


def _write_to_all(uri: str, partitions: int) -> None:
    with Lakehouse.open(uri) as lake:
        lake.alter_table(data.TABLE, SetOptions({"FLUSH_POLICY": "rows:1"}))
        lake.table(data.TABLE).write(data.rows(data.users(partitions), 0, 1), user_column="user")


_CURSORS: dict[str, str | None] = {}


def _tick(definitions: dg.Definitions, instance: dg.DagsterInstance, name: str) -> Cost:
    sensor, resources = definitions.resolve_sensor_def(name), dict(definitions.resources or {})
    with dg.build_sensor_context(instance=instance, cursor=_CURSORS.get(name), resources=resources) as context:

        def tick() -> None:
            _CURSORS[name] = sensor.evaluate_tick(context).cursor

        return cost(tick)


def _pages(definitions: dg.Definitions, instance: dg.DagsterInstance) -> dict[str, Cost]:
    """What the pages of an asset query, by the calls of the webserver's resolvers."""
    partitions = definitions.resolve_asset_graph().get(KEY).partitions_def
    assert partitions is not None
    one = dg.AssetRecordsFilter(KEY, asset_partitions=[data.user_name(7)])
    return {
        "page: status of all partitions, first": cost(lambda: get_and_update_asset_status_cache_value(instance, KEY, partitions)),
        "page: status of all partitions, later": cost(lambda: get_and_update_asset_status_cache_value(instance, KEY, partitions)),
        "page: names of all partitions": cost(lambda: instance.get_dynamic_partitions(data.TABLE)),
        "page: events of one partition": cost(lambda: instance.fetch_materializations(one, limit=100)),
    }


def _planning(definitions: dg.Definitions, instance: dg.DagsterInstance) -> Cost:
    first, last = data.user_name(0), data.user_name(PLANNED - 1)
    job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={KEY})
    tags = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
    return cost(lambda: instance.create_run_for_job(job, tags=tags, asset_selection={KEY}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15_000)
