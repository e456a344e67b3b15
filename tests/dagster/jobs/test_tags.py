"""The tags that runs are searched by."""

from __future__ import annotations

import dagster as dg
import pytest

from lakewarden.dagster.jobs.event_log.sweeping import IdSpellings
from lakewarden.dagster.jobs.export import export_job
from lakewarden.dagster.jobs.runs import OF_TABLES, SCOPES, TABLE, USER, subject_tags
from tests.dagster.jobs.conftest import RunJob
from tests.fixtures.chat import MESSAGES, ROOMS
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


@pytest.mark.parametrize(
    ("config", "tags"),
    [
        ({"tables": [], "user": None}, {}),
        ({"table": MESSAGES, "user": "ada", "target": {}}, {TABLE: MESSAGES, USER: "ada"}),
        ({"scopes": {MESSAGES: ["ada", "bob"]}}, {TABLE: MESSAGES, SCOPES: "2"}),
        ({"scopes": {MESSAGES: ["ada"], ROOMS: []}}, {OF_TABLES + name: "yes" for name in (MESSAGES, ROOMS)} | {
            USER: "ada", SCOPES: "2"
        }),
        ({"tables": [f"chat.{'x' * 63}", ROOMS]}, {f"{OF_TABLES}{ROOMS}": "yes"}),
    ],
)  # fmt: skip
def test_tags_name_what_a_run_is_for(config: dict[str, object], tags: dict[str, str]) -> None:
    assert subject_tags(config) == tags


@pytest.mark.parametrize("user", ["a=b c/ü", "é" * 256])
def test_any_user_is_a_tag_that_an_erasure_finds(user: str) -> None:
    tag = subject_tags({"user": user})[USER]
    assert len(tag) <= 200
    assert "=" not in tag
    assert IdSpellings(user, "erased").stand_in(tag)


def test_a_launched_run_gets_the_tags_that_it_lacks(instance: dg.DagsterInstance, run_job: RunJob, tmp_path: object) -> None:
    result = run_job(export_job, {"user": "ada", "to": f"{tmp_path}/out"})
    assert result.success
    (found,) = instance.get_runs(dg.RunsFilter(tags={USER: "ada"}))
    assert found.run_id == result.run_id
