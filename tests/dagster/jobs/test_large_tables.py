"""A large table in Dagster: its partitions are the asset's, and each operation is booked on those that it touched."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import dagster as dg
import pyarrow as pa
import pytest

from lakewarden import Column
from lakewarden.base.scope import TableName
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.links import OPTIMIZE
from lakewarden.dagster.assets.metadata import lines_in
from lakewarden.dagster.assets.tables import build_table_specs
from lakewarden.dagster.jobs.compact import compact_job
from lakewarden.dagster.jobs.event_log import histories
from lakewarden.dagster.jobs.event_log.behind import booked_versions
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.one_partition import build_partition_jobs
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.jobs.restore import restore_job
from lakewarden.dagster.jobs.vacuum import vacuum_job
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.tables.direct.value import Edit
from tests.dagster.jobs.conftest import RunJob, runner
from tests.dagster.jobs.test_jobs import materialized
from tests.dagster.jobs.test_materialize import materialize
from tests.fixtures.bucket import path_of
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

VISITS = "web.visits"
KEY = dg.AssetKey(["web", "visits"])
FIRST, SECOND, NULL = "day=2024-05-01/kind=a%2Fb", "day=2024-05-02/kind=it%27s", "day=2024-05-02/kind=__HIVE_DEFAULT_PARTITION__"
KINDS: Mapping[str, tuple[date, str | None]] = {
    FIRST: (date(2024, 5, 1), "a/b"),
    SECOND: (date(2024, 5, 2), "it's"),
    NULL: (date(2024, 5, 2), None),
}


@pytest.fixture
def web(warehouse_uri: str) -> str:
    """A large table with a flushed row in each of three partitions."""
    with Lakehouse.open(warehouse_uri) as lake:
        lake.create_namespace("web")
        columns = [Column("id", "BIGINT"), Column("day", "DATE"), Column("kind", "TEXT")]
        lake.create_table(VISITS, columns=columns, primary_key=["id"], partition_by=["day", "kind"])
        write(lake, 0, FIRST, SECOND, NULL)
        lake.flush()
    return warehouse_uri


@pytest.fixture
def run_web(web: str, instance: dg.DagsterInstance) -> RunJob:
    return runner(web, instance)


def write(lake: Lakehouse, first: int, *keys: str) -> None:
    given = (KINDS[key] for key in keys)
    lake.table(VISITS).write([{"id": first + place, "day": day, "kind": kind} for place, (day, kind) in enumerate(given)])


def booked(instance: dg.DagsterInstance) -> list[tuple[str | None, str | None]]:
    """Newest first: partitions and what was done."""
    return [(event.partition, event.description) for event in materialized(instance, KEY)]


def test_a_flush_is_booked_on_the_partitions_that_it_touched(web: str, instance: dg.DagsterInstance, run_web: RunJob) -> None:
    assert run_web(record_job).success
    assert {partition for partition, _ in booked(instance)} == {None, *KINDS}, "a new table is booked whole"
    assert set(instance.get_dynamic_partitions(VISITS)) == set(KINDS)
    with Lakehouse.open(web) as lake:
        write(lake, 10, SECOND, SECOND)
    before = len(booked(instance))
    assert run_web(flush_job).success
    assert booked(instance)[:-before] == [(None, "flush: done"), (SECOND, "flush: done")]
    whole, part = materialized(instance, KEY)[:2]
    assert (whole.metadata["dagster/row_count"].value, part.metadata["dagster/partition_row_count"].value) == (5, 3)
    assert whole.metadata["delta/version"].value == part.metadata["delta/version"].value == 2
    assert str(part.metadata["path"].value).endswith(SECOND)
    assert [line.version for line in lines_in(part)] == [2, 1, 0], "the history of the table, on the page of its partition"
    assert lines_in(part) == lines_in(whole)
    assert run_web(record_job).success
    assert len(booked(instance)) == before + 2, "nothing is behind"


def test_a_row_that_moves_touches_both_partitions(web: str, instance: dg.DagsterInstance, run_web: RunJob) -> None:
    with Lakehouse.open(web) as lake:
        write(lake, 0, NULL)
    instance.add_dynamic_partitions(VISITS, list(KINDS))
    assert run_web(flush_job).success
    rows = {event.partition: event.metadata.get("dagster/partition_row_count") for event in materialized(instance, KEY)}
    assert {key: value.value for key, value in rows.items() if key and value} == {FIRST: 0, NULL: 2}


def test_upkeep_is_booked_on_the_partitions_that_it_touched(web: str, instance: dg.DagsterInstance, run_web: RunJob) -> None:
    with Lakehouse.open(web) as lake:
        for place in range(8):
            write(lake, 10 + place, FIRST)
            lake.flush()
        write(lake, 30, SECOND)
        lake.flush()
    assert run_web(record_job).success

    def touched(job: dg.JobDefinition, config: Mapping[str, object]) -> set[str | None]:
        before = len(booked(instance))
        assert run_web(job, config).success
        return {partition for partition, _ in booked(instance)[:-before]}

    assert touched(compact_job, {"look": True}) == {None, FIRST}
    back = {"table": VISITS, "target": {"version": {"version": 9}}, "dry_run": False}
    assert touched(restore_job, back) == {None, FIRST, SECOND}
    with Lakehouse.open(web) as lake:
        lake.table(VISITS).direct.edit(_all_rows, operation="DELETE", predicate="kind IS NULL", within="kind IS NULL")
    assert run_web(record_job).success
    assert [partition for partition, _ in booked(instance)[:2]] == [None, NULL], "a statement past the log"
    vacuum = {"look": True, "dry_run": False, "retain_hours": 0, "force": True}
    assert touched(vacuum_job, vacuum) >= {None, FIRST, NULL}


def _all_rows(rows: pa.Table) -> Edit:
    return Edit(pa.array(range(rows.num_rows), pa.int64()), rows.drop_columns(["_seq"]).slice(0, 0))


def test_selected_partitions_are_all_booked_though_a_flush_takes_the_table(web: str, instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions(VISITS, list(KINDS))
    with Lakehouse.open(web) as lake:
        write(lake, 10, SECOND)
    assert materialize(web, instance, KEY, FIRST).success
    assert booked(instance) == [
        (FIRST, "flush: done, nothing was pending"),
        (None, "flush: done"),
        (SECOND, "flush: done"),
    ]
    assert materialized(instance, KEY)[0].metadata["delta/unchanged_at"].value == 2
    assert [line.version for line in lines_in(materialized(instance, KEY)[0])] == [2, 1, 0]
    with Lakehouse.open(web) as lake:
        assert list(booked_versions(instance, Mount(web), lake.table(VISITS).table).values()) == [2]


@pytest.mark.parametrize("key", [SECOND, NULL])
def test_optimize_works_on_the_selected_partition_alone(web: str, instance: dg.DagsterInstance, key: str) -> None:
    instance.add_dynamic_partitions(VISITS, list(KINDS))
    with Lakehouse.open(web) as lake:
        for place in range(3):
            write(lake, 10 + 10 * place, FIRST, SECOND, NULL)
            lake.flush()
        mount, catalog = Mount(web), lake.warehouse.catalog.read()
        specs = build_table_specs(mount, lake.warehouse, catalog)
    job, _ = build_partition_jobs(mount, specs, catalog, resources_of(mount))
    assert job.name == Mount("").table_named("optimize", TableName.parse(VISITS))
    result = job.execute_in_process(partition_key=key, instance=instance, run_config={"ops": {OPTIMIZE: {"config": {}}}})
    assert result.success
    assert [(partition, (what or "")[:14]) for partition, what in booked(instance)] == [
        (None, "optimize: done"),
        (key, "optimize: done"),
    ]
    part = materialized(instance, KEY)[1]
    assert (part.metadata["delta/num_files"].value, part.metadata["dagster/partition_row_count"].value) == (1, 4)


def test_compact_works_on_the_selected_partition_alone(web: str, instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions(VISITS, list(KINDS))
    with Lakehouse.open(web) as lake:
        for place in range(5):
            write(lake, 10 + 10 * place, FIRST, SECOND)
            lake.flush()
        mount, catalog = Mount(web), lake.warehouse.catalog.read()
        specs = build_table_specs(mount, lake.warehouse, catalog)
    _, job = build_partition_jobs(mount, specs, catalog, resources_of(mount))
    assert job.name == Mount("").table_named("compact", TableName.parse(VISITS))
    assert job.execute_in_process(partition_key=SECOND, instance=instance).success
    assert booked(instance) == [(None, "compact: done"), (SECOND, "compact: done")]


def test_above_the_bound_the_asset_has_no_partitions_and_says_so(web: str) -> None:
    with Lakehouse.open(web) as lake:
        catalog = lake.warehouse.catalog.read()
        (at_bound,) = build_table_specs(Mount(web), lake.warehouse, catalog, max_values=3)
        (above,) = build_table_specs(Mount(web), lake.warehouse, catalog, max_values=2)
    assert at_bound.partitions_def == dg.DynamicPartitionsDefinition(name=VISITS)
    assert "partitioned by day, kind" in (at_bound.description or "")
    assert above.partitions_def is None
    assert "no partitions: there are 3 partitions, more than 2" in (above.description or "")


def test_above_the_bound_only_the_table_is_booked(
    instance: dg.DagsterInstance, run_web: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "MAX_VALUES", 2)
    assert run_web(record_job).success
    assert [partition for partition, _ in booked(instance)] == [None]
    assert not instance.get_dynamic_partitions(VISITS)


def test_a_table_that_cannot_be_opened_does_not_keep_the_pages_from_loading(web: str) -> None:
    with Lakehouse.open(web) as lake:
        catalog = lake.warehouse.catalog.read()
        for commit in path_of(web).glob("data/**/_delta_log/*.json"):
            commit.write_text("no JSON")
        (spec,) = build_table_specs(Mount(web), lake.warehouse, catalog)
    assert spec.partitions_def is not None
