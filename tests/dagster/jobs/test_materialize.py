"""*Materialize* on a table's asset: what it flushes, and that Dagster then knows the same as after `flush_job`."""

from collections.abc import Mapping

import dagster as dg
import pytest
from dagster._core.definitions.automation_tick_evaluation_context import build_run_requests_with_backfill_policies
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster import build_definitions
from lakewarden.dagster.assets.tables import build_table_specs
from lakewarden.dagster.jobs import materialize as materialize_module
from lakewarden.dagster.jobs.event_log.histories import book_unchanged
from lakewarden.dagster.jobs.flush import FlushConfig, flush_by, flush_job
from lakewarden.dagster.jobs.materialize import build_table_assets
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.jobs.runs import OPERATION, SCOPES, TABLE, USER
from lakewarden.dagster.lakehouse import WarehouseRun, resources_of, shared_resources
from lakewarden.dagster.mount import Mount
from tests.dagster.jobs.conftest import RunJob
from tests.dagster.jobs.test_jobs import MESSAGES_KEY, ROOMS_KEY, materialized
from tests.fixtures.bucket import path_of
from tests.fixtures.chat import MESSAGES, ROOMS, TYPING, USERS, add_stream, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


def materialize(
    chat: str,
    instance: dg.DagsterInstance,
    key: dg.AssetKey = MESSAGES_KEY,
    partition: str | tuple[str, str] | None = None,
    more: tuple[dg.AssetsDefinition, ...] = (),
) -> dg.ExecuteInProcessResult:
    """Runs the asset of a table, and `more`: without partitions, for one, or for those from one to another."""
    mount = Mount(chat)
    with Lakehouse.open(chat) as lake:
        catalog = lake.warehouse.catalog.read()
        assets = build_table_assets(mount, build_table_specs(mount, lake.warehouse, catalog), catalog)
    tags = dict(zip(_RANGE, partition, strict=True)) if isinstance(partition, tuple) else {}
    return dg.materialize(
        [*(asset for asset in assets if asset.key == key), *more],
        instance=instance,
        resources=shared_resources(mount, resources_of(mount)),
        partition_key=partition if isinstance(partition, str) else None,
        tags=tags,
        raise_on_error=False,
    )


_RANGE = (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG)


def pending(chat: str) -> set[str | None]:
    with Lakehouse.open(chat) as lake:
        return {one.user for one in lake.pending()}


@pytest.fixture
def known(chat: str, instance: dg.DagsterInstance) -> str:
    """Every user is a partition, and has two pending rows."""
    instance.add_dynamic_partitions(MESSAGES, list(USERS))
    for user in USERS:
        write(chat, user, 10, 11)
    return chat


def shown(event: dg.AssetMaterialization) -> tuple[str | None, Mapping[str, str]]:
    """An event without what differs from run to run and scope to scope."""
    differ = ("path", "committed_at", "parameters", "delta/bytes", "restore", "history")
    return event.description, {name: str(value.value) for name, value in event.metadata.items() if name not in differ}


def test_one_partition_is_flushed_alone_and_booked_as_flush_job_does(
    known: str, instance: dg.DagsterInstance, run_job: RunJob
) -> None:
    result = materialize(known, instance, partition="ada")
    assert result.success
    assert pending(known) == {"bob", "eve"}
    assert run_job(flush_job, {"scopes": {MESSAGES: ["bob"]}}).success
    by_job, by_asset = materialized(instance)
    assert (by_asset.partition, by_job.partition) == ("ada", "bob")
    assert shown(by_asset) == shown(by_job)
    assert set(by_asset.metadata) == set(by_job.metadata)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert {OPERATION: "flush", TABLE: MESSAGES, USER: "ada", SCOPES: "1"}.items() <= run.tags.items()


def test_a_range_is_one_run_which_books_also_what_had_nothing_pending(known: str, instance: dg.DagsterInstance) -> None:
    with Lakehouse.open(known) as lake:
        lake.flush(MESSAGES, user="bob")
    assert materialize(known, instance, partition=("ada", "bob")).success
    assert pending(known) == {"eve"}
    booked = {event.partition: event for event in materialized(instance)}
    assert sorted(event.partition or "" for event in materialized(instance)) == ["ada", "bob"], "each once"
    assert booked["ada"].description == "flush: done"
    assert booked["bob"].description == "flush: done, nothing was pending"
    assert booked["bob"].metadata["delta/unchanged_at"].value == 2


def commits(instance: dg.DagsterInstance, user: str) -> list[object]:
    """The versions of the commits that the user's events are of, oldest first."""
    events = [event for event in materialized(instance) if event.partition == user][::-1]
    return [event.metadata["delta/version"].value for event in events if "delta/version" in event.metadata]


def test_a_backfill_of_a_thousand_neighbours_is_two_runs(chat: str, instance: dg.DagsterInstance) -> None:
    users = [f"u_{number:03}" for number in range(1_000)]
    instance.add_dynamic_partitions(MESSAGES, users)
    graph = build_definitions(chat).resolve_asset_graph()
    selected = [AssetKeyPartitionKey(MESSAGES_KEY, user) for user in users]
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        requests = build_run_requests_with_backfill_policies(selected, graph, instance)
    assert sorted(tuple(request.tags[end] for end in _RANGE) for request in requests) == [("u_000", "u_499"), ("u_500", "u_999")]


def test_a_commit_has_one_event_where_the_sensor_flushes_the_scope_at_once(
    known: str, instance: dg.DagsterInstance, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flushed_meanwhile(lake: Lakehouse, config: FlushConfig) -> list[ScopeReport]:
        assert run_job(flush_job, {"scopes": {MESSAGES: ["ada"]}}).success
        return flush_by(lake, config)

    monkeypatch.setattr(materialize_module, "flush_by", flushed_meanwhile)
    assert materialize(known, instance, partition=("ada", "bob")).success
    assert (commits(instance, "ada"), commits(instance, "bob")) == ([2], [2])
    assert materialized(instance)[0].description == "flush: done", "of bob"
    assert sorted(event.partition or "" for event in materialized(instance)) == ["ada", "ada", "bob"], (
        "a backfill waits for ada's"
    )


def test_a_scope_that_was_found_unchanged_is_still_behind_once(known: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    assert run_job(record_job).success
    with Lakehouse.open(known) as lake:
        lake.flush(MESSAGES, user="bob")
    for _ in range(2):
        assert materialize(known, instance, partition="bob").success
        assert run_job(record_job).success
    assert commits(instance, "bob") == [1, 2]


def test_without_partitions_the_whole_table_is_flushed(known: str, instance: dg.DagsterInstance) -> None:
    with Lakehouse.open(known) as lake:
        lake.table(ROOMS).write([{"room": "attic", "title": "Attic"}])
    assert materialize(known, instance).success
    assert pending(known) == {None}
    assert sorted(event.partition or "" for event in materialized(instance)) == sorted(USERS)
    assert materialize(known, instance, ROOMS_KEY).success
    assert pending(known) == set()
    assert materialize(known, instance, ROOMS_KEY).success
    descriptions = [event.description for event in materialized(instance, ROOMS_KEY)]
    assert descriptions == ["flush: done, nothing was pending", "flush: done"]


def test_a_bad_partition_fails_the_run_and_hides_no_other(known: str, instance: dg.DagsterInstance) -> None:
    broken = path_of(known) / "data/chat/messages/bob/_delta_log/00000000000000000001.json"
    broken.write_text("no JSON")
    assert not materialize(known, instance, partition=("ada", "eve")).success
    assert sorted(event.partition or "" for event in materialized(instance)) == ["ada", "eve"]


def test_a_retry_books_no_scope_again_that_had_nothing_pending(chat: str, instance: dg.DagsterInstance) -> None:
    @dg.op(retry_policy=dg.RetryPolicy(max_retries=1))
    def twice(context: dg.OpExecutionContext) -> None:
        with Lakehouse.open(chat) as lake:
            book_unchanged(WarehouseRun(context, lake, Mount(chat)), [Scope(TableName("chat", "messages"), "ada")], "flush")
        raise dg.Failure("the storage was away")

    @dg.job
    def twice_job() -> None:
        twice()

    result = twice_job.execute_in_process(instance=instance, raise_on_error=False)
    assert [event for event in result.all_node_events if event.event_type_value == "STEP_RESTARTED"]
    assert [event.partition for event in materialized(instance)] == ["ada"]


def test_what_is_downstream_runs_in_the_same_run(known: str, instance: dg.DagsterInstance) -> None:
    @dg.asset(deps=[ROOMS_KEY])
    def report() -> None:
        """Of another team."""

    result = materialize(known, instance, ROOMS_KEY, more=(report,))
    assert result.success
    assert [len(materialized(instance, key)) for key in (ROOMS_KEY, dg.AssetKey("report"))] == [1, 1]


def test_a_stream_is_evicted(chat: str, instance: dg.DagsterInstance) -> None:
    add_stream(chat, "ada", "bob")
    instance.add_dynamic_partitions(TYPING, ["ada", "bob"])
    assert materialize(chat, instance, dg.AssetKey(["chat", "typing"]), "ada").success
    with Lakehouse.open(chat) as lake:
        assert [report.scope.user for report in lake.evict(TYPING, dry_run=True)] == ["bob"]
