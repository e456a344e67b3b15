"""A dynamic table in Dagster: one asset, with an event of each operation for the table and for each of its partitions."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.optimize import optimize_job
from tests.dagster.assets.test_checks import execute
from tests.dagster.jobs.conftest import RunJob
from tests.dagster.jobs.test_jobs import materialized
from tests.dagster.jobs.test_materialize import materialize
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "orders"])


@pytest.fixture
def orders(chat: str) -> str:
    """The warehouse, with a dynamic table beside its tables, whose rows are pending."""
    with Lakehouse.open(chat) as lake:
        lake.sql(
            "CREATE DYNAMIC TABLE chat.orders (dt TEXT, id INT, PRIMARY KEY (dt, id)) PARTITIONED BY (dt) WITH ('bucket' = '2')"
        )
        write(lake, 0)
    return chat


def write(lake: Lakehouse, first: int) -> None:
    lake.table("chat.orders").write([{"dt": dt, "id": first + id_} for dt in "xy" for id_ in range(10)])


def passed(uri: str, instance: dg.DagsterInstance) -> dict[str, bool]:
    found = execute(uri, instance, dg.AssetSelection.checks_for_assets(KEY))
    return {one.check_name: one.passed for one in found}


def test_it_is_materialized_optimized_and_checked(orders: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    assert materialize(orders, instance, KEY).success
    with Lakehouse.open(orders) as lake:
        write(lake, 100)
    for job in (flush_job, optimize_job):
        assert run_job(job, {"tables": ["chat.orders"]}).success
    events = materialized(instance, KEY)
    for partition in (None, "dt=x", "dt=y"):
        said = [(event.description or "").partition(":")[0] for event in events if event.partition == partition]
        assert said == ["optimize", "flush", "flush"], partition
    assert set(passed(orders, instance).values()) == {True}
    twin = pa.table({"dt": ["x"], "id": pa.array([1], pa.int32()), "_seq": pa.array([1], pa.int64())})
    write_deltalake(f"{orders}/data/chat/orders", twin, mode="append")
    assert [name for name, good in passed(orders, instance).items() if not good] == ["one_row_per_key"]
