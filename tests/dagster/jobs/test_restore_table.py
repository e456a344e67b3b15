"""A table's own restore job: pick the partition, type where to, look, and apply exactly that by the link of the preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlsplit

import dagster as dg
import pytest
import yaml

from lakewarden.base.scope import Scope, TableName
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.links import restore_form
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.restore import build_restore_jobs, parse_target
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.plans.value import Plan
from tests.dagster.jobs.conftest import RunJob
from tests.dagster.jobs.test_jobs import failure, materialized, observed
from tests.fixtures.chat import MESSAGES, ROOMS, contents, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

Launch = Callable[[str], dg.ExecuteInProcessResult]


@pytest.fixture
def launch(chat: str, instance: dg.DagsterInstance) -> Launch:
    """Follows a link to a form and launches that."""
    mount = Mount(chat)
    with Lakehouse.open(chat) as lake:
        jobs = {job.name: job for job in build_restore_jobs(mount, lake.warehouse.catalog.read(), resources_of(mount))}

    def follow(url: str) -> dg.ExecuteInProcessResult:
        place = urlsplit(url)
        query = dict(parse_qsl(place.query, keep_blank_values=True))
        config = yaml.safe_load(query["config"])
        tags = {query["tags[0][key]"]: query["tags[0][value]"]} if "tags[0][key]" in query else {}
        job = jobs[place.path.split("/")[2]]
        return job.execute_in_process(run_config=config, tags=tags, instance=instance, raise_on_error=False)

    return follow


def linked(metadata: Mapping[str, dg.MetadataValue], name: str) -> str:
    """The URL of a link in metadata, in Markdown or alone."""
    return str(metadata[name].value).rpartition("](")[2].removesuffix(")")


def said(result: dg.ExecuteInProcessResult) -> Mapping[str, dg.MetadataValue]:
    """The run's own metadata."""
    return next(event for event in result.all_node_events if event.is_successful_output).step_output_data.metadata


def filled(url: str, to: str) -> str:
    return url.replace("to:+%27%27", f"to:+{to}")


def test_from_the_partition_by_preview_to_exactly_that_plan(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob, launch: Launch
) -> None:
    write(chat, "ada", 5)
    assert run_job(flush_job).success
    form = linked(materialized(instance)[0].metadata, "restore")
    versions = said(launch(form))["versions"]
    assert isinstance(versions, dg.TableMetadataValue)
    assert [record.data["version"] for record in versions.records] == [2, 1, 0]
    preview = launch(filled(form, "1"))
    assert preview.success
    assert set(contents(chat, "ada")) == {0, 1, 5}, "nothing changes before a plan is given"
    assert observed(instance)[0].partition == "ada"
    rows = said(preview)["rows"]
    assert isinstance(rows, dg.TableMetadataValue)
    assert [record.data for record in rows.records] == [{"": "goes", "id": "5", "content": "later"}]
    apply = linked(said(preview), "apply")
    assert len(apply) < 125, "one line of a run's page"
    assert launch(apply).success
    assert set(contents(chat, "ada")) == {0, 1}
    assert materialized(instance)[0].metadata["operation"].value == "restore"


def test_a_shared_table_has_no_partition_and_a_user_table_needs_one(launch: Launch) -> None:
    assert "versions" in said(launch(restore_form(Mount(""), Scope(TableName.parse(ROOMS)))))
    without = launch(restore_form(Mount(""), Scope(TableName.parse(MESSAGES))))
    assert failure(without)[0] == (
        "INVALID_ARGUMENT: chat.messages has a state for each user: select the user's partition in the form, or where users are"
        " no partitions give `user`"
    )


def test_a_version_may_be_a_number_or_text_and_anything_else_a_time() -> None:
    assert parse_target(0) == parse_target(" 0 ") == (0, None)
    _, time = parse_target("2026-11-21T08:30:00")
    assert time is not None
    assert time.isoformat() == "2026-11-21T08:30:00+00:00"
    with pytest.raises(InvalidArgument, match="neither a version, such as 3, nor a time"):
        parse_target("v3")


def test_a_plan_of_another_scope_is_refused(chat: str, launch: Launch) -> None:
    with Lakehouse.open(chat) as lake:
        other = lake.plan("restore", MESSAGES, user="bob", version=0)
        wrong = lake.plan("restore", ROOMS, version=0)
        assert isinstance(other, Plan)
        assert isinstance(wrong, Plan)
    form = restore_form(Mount(""), Scope(TableName.parse(MESSAGES), "ada"))
    for plan in (other, wrong):
        refused = failure(launch(form.replace("to:+%27%27", f"plan:+{plan.plan_id}")))[0]
        assert refused.startswith(f"INVALID_ARGUMENT: plan {plan.plan_id} is not for a restore of chat.messages[ada]")
    assert set(contents(chat, "bob")) == {0, 1}


def test_ten_rows_come_and_go_and_no_more(chat: str, launch: Launch) -> None:
    write(chat, "ada", 0, *range(5, 20), content="new")
    form = restore_form(Mount(chat), Scope(TableName.parse(MESSAGES), "ada"))
    rows = said(launch(filled(form, "1")))["rows"]
    assert isinstance(rows, dg.TableMetadataValue)
    assert [record.data[""] for record in rows.records] == ["goes"] * 9 + ["comes"]
    assert rows.records[-1].data == {"": "comes", "id": "0", "content": "ada 0"}


def test_no_row_is_shown_where_the_settings_say_so(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARDEN_MAINTENANCE__PREVIEW_ROWS", "0")
    assert "rows" not in said(launch(filled(restore_form(Mount(""), Scope(TableName.parse(MESSAGES), "ada")), "0")))
