"""A broken scope in Dagster: why, on its page and in health; repaired by preview and apply; all green behind it."""

from __future__ import annotations

from urllib.parse import unquote_plus

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.check import check_all_job
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.repair import repair_job
from tests.dagster.jobs.conftest import RunJob
from tests.dagster.jobs.test_jobs import MESSAGES_KEY, failure, materialized
from tests.fixtures.bucket import path_of
from tests.fixtures.chat import MESSAGES, contents, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

CHECKS = ("nothing_late", "nothing_broken", "all_checks_pass")


def judged(instance: dg.DagsterInstance) -> dict[str, bool]:
    """The newest result of each check of health."""
    keys = [dg.AssetCheckKey(dg.AssetKey("health"), name) for name in CHECKS]
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    evaluations = {key.name: one.event.asset_check_evaluation for key, one in found.items() if one.event}
    return {name: one.passed for name, one in evaluations.items() if one}


def test_a_broken_scope_is_red_until_it_is_repaired(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    write(chat, "bob", 10, 11)
    (path_of(chat) / "data/chat/messages/bob/_delta_log/00000000000000000001.json").write_text("no JSON")
    assert not run_job(flush_job).success
    (record,) = instance.fetch_observations(dg.AssetRecordsFilter(MESSAGES_KEY, asset_partitions=["bob"]), limit=9).records
    observed = record.event_log_entry.asset_observation
    assert observed is not None
    assert observed.metadata["code"].value == "CORRUPT"
    assert "user: bob" in unquote_plus(str(observed.metadata["repair"].value))
    red = {"nothing_late": True, "nothing_broken": False, "all_checks_pass": True}
    assert judged(instance) == red, "behind the run, without a look"
    assert run_job(check_all_job, {"quick": True}).success
    assert judged(instance) == red

    preview = run_job(repair_job, {"table": MESSAGES, "user": "bob"})
    assert preview.success
    (planned,) = (dict(event.step_output_data.metadata) for event in preview.all_node_events if event.is_successful_output)
    shown = planned["repaired"]
    assert isinstance(shown, dg.TableMetadataValue)
    assert [(row.data["user"], row.data["outcome"]) for row in shown.records] == [("bob", "planned")]
    plan = str(planned["plan_id"].value)
    assert plan in unquote_plus(str(planned["apply"].value))
    applied = run_job(repair_job, {"table": MESSAGES, "user": "bob", "dry_run": False, "plan": plan})
    assert applied.success, failure(applied)
    assert materialized(instance)[0].partition == "bob"
    assert contents(chat, "bob").keys() == {0, 1, 10, 11}
    assert judged(instance) == dict.fromkeys(CHECKS, True), "behind the repair"
    assert run_job(check_all_job, {"quick": False}).success
    assert judged(instance) == dict.fromkeys(CHECKS, True)
    with Lakehouse.open(chat) as lake:
        assert [one.broken_scopes for one in lake.overview().tables] == [0, 0]
