"""Every job over a real small warehouse: what it does there, and what Dagster then knows."""

from urllib.parse import unquote_plus

import dagster as dg
import pytest
from deltalake import DeltaTable

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.compact import compact_job
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.evict import evict_job
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.optimize import optimize_job
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.jobs.restore import restore_job
from lakewarden.dagster.jobs.vacuum import vacuum_job
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from tests.dagster.jobs.conftest import RunJob
from tests.fixtures.bucket import path_of
from tests.fixtures.chat import MESSAGES, ROOMS, USERS, contents, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

MESSAGES_KEY = dg.AssetKey(["chat", "messages"])
ROOMS_KEY = dg.AssetKey(["chat", "rooms"])


def materialized(instance: dg.DagsterInstance, key: dg.AssetKey = MESSAGES_KEY) -> list[dg.AssetMaterialization]:
    """Newest first."""
    found = [record.asset_materialization for record in instance.fetch_materializations(key, limit=100).records]
    return [one for one in found if one]


def observed(instance: dg.DagsterInstance) -> list[dg.AssetObservation]:
    found = [record.asset_observation for record in instance.fetch_observations(MESSAGES_KEY, limit=100).records]
    return [one for one in found if one]


def failure(result: dg.ExecuteInProcessResult) -> tuple[str, dict[str, dg.MetadataValue]]:
    event = next(event for event in result.all_node_events if event.is_step_failure)
    data = event.step_failure_data.user_failure_data
    assert data is not None
    return data.description or "", dict(data.metadata)


def test_flush_books_each_scope_with_numbers_and_history(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    for user in USERS:
        write(chat, user, 10, 11)
    assert run_job(flush_job).success
    events = materialized(instance)
    assert sorted(event.partition or "" for event in events) == sorted(USERS)
    assert set(instance.get_dynamic_partitions(MESSAGES)) == set(USERS)
    metadata = events[0].metadata
    table = DeltaTable(str(metadata["path"].value))
    assert metadata["delta/version"].value == table.version() == 2
    assert metadata["dagster/partition_row_count"].value == 4
    assert metadata["delta/num_files"].value == len(table.file_uris())
    assert metadata["operation"].value == "flush"
    assert path_of(metadata["path"].value).is_dir()
    assert "\n2|20" in str(metadata["history"].value)
    assert run_job(record_job, {"user": "ada", "tables": [MESSAGES], "again": True}).success
    history = str(materialized(instance)[0].metadata["history"].value).splitlines()[2:]
    assert [line.partition("|")[0] for line in history] == ["2", "1", "0"]


def test_flush_takes_exactly_the_scopes_it_is_given(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    for user in USERS:
        write(chat, user, 10)
    assert run_job(flush_job, {"scopes": {MESSAGES: ["ada"], ROOMS: []}}).success
    assert [event.partition for event in materialized(instance)] == ["ada"]
    assert run_job(flush_job, {"tables": [MESSAGES], "user": "bob"}).success
    assert [event.partition for event in materialized(instance)] == ["bob", "ada"]


def test_compact_and_optimize_book_what_they_did_and_say_what_they_skipped(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob
) -> None:
    for version in range(6):
        write(chat, "ada", 100 + version)
        run_job(flush_job)
    before = len(materialized(instance))
    result = run_job(compact_job)
    assert result.success
    assert [event.metadata["operation"].value for event in materialized(instance)[:-before]] == ["compact"]
    output = next(event for event in result.all_node_events if event.is_successful_output)
    assert output.step_output_data.metadata["metrics/scopes_quiet"].value == 3
    assert output.step_output_data.metadata["scopes/skipped"].value == 3
    assert run_job(optimize_job, {"tables": [MESSAGES], "zorder": ["id"]}).success
    assert contents(chat, "ada") == {0: "ada 0", 1: "ada 1", **{100 + version: "later" for version in range(6)}}


def test_vacuum_is_a_dry_run_unless_told(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    write(chat, "ada", 0, 1)
    run_job(flush_job)  # rewrites ada's files, so that old ones may go
    booked = len(materialized(instance))
    assert run_job(vacuum_job, {"retain_hours": 0.0, "force": True}).success
    assert len(materialized(instance)) == booked
    assert {event.metadata["outcome"].value for event in observed(instance)} == {"planned"}
    assert run_job(vacuum_job, {"retain_hours": 0.0, "force": True, "dry_run": False}).success
    assert materialized(instance)[0].metadata["operation"].value == "vacuum"


def test_vacuum_below_the_retention_is_declined_without_retries(run_job: RunJob) -> None:
    result = run_job(vacuum_job, {"retain_hours": 1.0})
    assert not result.success
    description, metadata = failure(result)
    assert metadata["code"].value == "INVALID_ARGUMENT"
    assert "168" in description
    assert not [event for event in result.all_node_events if event.event_type_value == "STEP_UP_FOR_RETRY"]


def test_restore_is_a_dry_run_unless_told(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    to_first = {"table": MESSAGES, "user": "ada", "target": {"version": {"version": 0}}}
    assert run_job(restore_job, to_first).success
    assert contents(chat, "ada") == {0: "ada 0", 1: "ada 1"}
    assert [event.metadata["operation"].value for event in observed(instance)] == ["restore"]
    assert run_job(restore_job, {**to_first, "dry_run": False}).success
    assert contents(chat, "ada") == {0: "ada 0"}
    assert materialized(instance)[0].metadata["dagster/partition_row_count"].value == 1


def test_a_plan_of_a_restore_needs_no_target(chat: str, run_job: RunJob) -> None:
    plan = plan_of(run_job(restore_job, {"table": MESSAGES, "user": "ada", "target": {"version": {"version": 0}}}))
    for other in ({"table": ROOMS}, {"table": MESSAGES, "user": "bob"}):
        refused = run_job(restore_job, {**other, "plan": plan, "dry_run": False})
        assert failure(refused)[0].startswith(f"INVALID_ARGUMENT: plan {plan} is not for a restore of")
    assert run_job(restore_job, {"table": MESSAGES, "plan": plan, "dry_run": False}).success
    assert contents(chat, "ada") == {0: "ada 0"}


def plan_of(result: dg.ExecuteInProcessResult) -> str:
    """The plan that a preview shows with its run."""
    output = next(event for event in result.all_node_events if event.is_successful_output)
    return str(output.step_output_data.metadata["plan_id"].value)


def test_a_restore_does_what_the_preview_planned(chat: str, run_job: RunJob) -> None:
    to_first = {"table": MESSAGES, "user": "ada", "target": {"version": {"version": 0}}}
    applied = {**to_first, "dry_run": False, "plan": plan_of(run_job(restore_job, to_first))}
    write(chat, "ada", 7)
    result = run_job(restore_job, applied)
    assert not result.success
    assert "CONFLICT" in failure(result)[0]
    assert not [event for event in result.all_node_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    assert contents(chat, "ada")[7] == "later"

    again = {**applied, "plan": plan_of(run_job(restore_job, to_first))}
    assert not run_job(restore_job, {**again, "user": "bob"}).success
    assert not run_job(restore_job, {**again, "dry_run": True}).success
    assert run_job(restore_job, again).success
    assert contents(chat, "ada") == {0: "ada 0"}
    assert run_job(restore_job, again).success, "it reports what it did"


def test_a_vacuum_does_what_the_preview_planned(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    write(chat, "ada", 0, 1)
    run_job(flush_job)
    now = {"retain_hours": 0.0, "force": True}
    preview = run_job(vacuum_job, now)
    plan = plan_of(preview)
    output = next(event for event in preview.all_node_events if event.is_successful_output)
    form = unquote_plus(str(output.step_output_data.metadata["apply"].value))
    assert form.endswith(f"{{config: {{dry_run: false, plan: {plan}}}}}}}"), "a line that can be read; the plan knows the rest"
    of_another = run_job(evict_job, {"dry_run": False, "plan": plan})
    assert failure(of_another)[0].startswith(f"INVALID_ARGUMENT: plan {plan} is for vacuum, not for evict")
    assert run_job(vacuum_job, {"dry_run": False, "plan": plan}).success
    assert materialized(instance)[0].metadata["operation"].value == "vacuum"


@pytest.mark.parametrize(
    ("target", "code"),
    [({"timestamp": {"timestamp": "yesterday"}}, "INVALID_ARGUMENT"), ({"version": {"version": 99}}, "NOT_FOUND")],
)
def test_restore_to_nowhere_fails_with_the_reason(run_job: RunJob, target: dict[str, object], code: str) -> None:
    result = run_job(restore_job, {"table": MESSAGES, "user": "ada", "target": target, "dry_run": False})
    assert not result.success
    assert code in failure(result)[0]


def test_one_bad_scope_is_named_and_hides_no_other(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    for user in USERS:
        write(chat, user, 10)
    broken = path_of(chat) / "data/chat/messages/bob/_delta_log/00000000000000000001.json"
    broken.write_text("no JSON")
    result = run_job(flush_job)
    assert not result.success
    assert sorted(event.partition or "" for event in materialized(instance)) == ["ada", "eve"]
    description, metadata = failure(result)
    assert description.startswith("1 of 3 scopes failed; the first, chat.messages[bob]: CORRUPT")
    table = metadata["failed scopes"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data["user"] for record in table.records] == ["bob"]


def test_record_books_what_happened_outside(instance: dg.DagsterInstance, run_job: RunJob) -> None:
    assert run_job(record_job).success
    assert sorted(event.partition or "" for event in materialized(instance)) == sorted(USERS)
    assert materialized(instance, ROOMS_KEY)[0].metadata["dagster/row_count"].value == 1
    booked = materialized(instance)[0]
    assert (booked.description, booked.metadata["operation"].value) == ("flush: done, booked afterwards", "flush")
    committed, (record,) = booked.metadata["committed_at"], instance.fetch_materializations(MESSAGES_KEY, limit=1).records
    assert isinstance(committed, dg.TimestampMetadataValue)
    assert 0 < float(committed.value) < record.timestamp, "the commit's own time, beside the event's"
    assert run_job(record_job).success
    assert len(materialized(instance)) == 3, "what Dagster knows is not booked again"
    assert run_job(record_job, {"tables": [MESSAGES], "user": "ada", "again": True}).success
    assert materialized(instance)[0].partition == "ada"
    assert len(materialized(instance)) == 4


def test_a_table_of_too_many_users_gets_one_event_with_its_worst_scopes(chat: str, instance: dg.DagsterInstance) -> None:
    @dg.op
    def flush_and_book(context: dg.OpExecutionContext) -> None:
        with Lakehouse.open(chat) as lake:
            reports = lake.flush()
            write(chat, USERS[1], 40, 41)
            book(WarehouseRun(context, lake, Mount(chat)), reports, max_partitions=2)

    @dg.job
    def crowd_job() -> None:
        flush_and_book()

    for user in USERS:
        write(chat, user, 10, 11)
    assert crowd_job.execute_in_process(instance=instance).success
    (event,) = materialized(instance)
    assert event.partition is None
    assert event.description == "flush: 3 scopes done"
    assert event.metadata["scopes/done"].value == 3
    worst = event.metadata["worst"]
    assert isinstance(worst, dg.TableMetadataValue)
    first = worst.records[0].data
    assert (len(worst.records), first["user"], first["backlog_rows"], first["rows"]) == (3, USERS[1], 2, 4)
    assert instance.get_dynamic_partitions(MESSAGES) == []
