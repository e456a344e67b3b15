"""What pages leave out: tags that nobody reads, schedules without work, and what forms have of resources."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.snap.snap_to_yaml import default_values_yaml_from_type_snap
from dagster._core.storage.tags import HIDDEN_TAG_PREFIX

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs import runs
from lakewarden.dagster.mount import WAREHOUSE, Mount
from lakewarden.dagster.orchestration.schedules import build_schedules
from lakewarden.dagster.orchestration.sensors import _announced
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.chat import add_stream
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


HIDDEN = (
    WAREHOUSE,
    runs.OPERATION,
    runs.SLOT,
    runs.SCOPE,
    runs.SCOPES,
    runs.SEEN_UNTIL,
    runs.OBJECTS,
    runs.OF_TABLES,
    runs.ALERT_OWED,
)


@pytest.mark.parametrize("tag", HIDDEN)
def test_pages_show_no_tag_that_only_programs_read(tag: str) -> None:
    assert tag.startswith(HIDDEN_TAG_PREFIX)
    assert not any(shown.startswith(HIDDEN_TAG_PREFIX) for shown in (runs.TABLE, runs.USER, runs.QUEUED_BEHIND))


@pytest.mark.parametrize(
    "config",
    [
        {"scopes": {f"chat.t{n}": ["ada", "bob"] for n in range(20)}},
        {"table": "chat.messages", "user": "ada"},
        {"tables": ["a.b"]},
    ],
)
def test_a_run_has_two_lines_of_tags_at_most(config: dict[str, object]) -> None:
    every = {**runs.job_tags("flush", 10), **runs.subject_tags(config), **Mount("/lake").tags}
    assert len([tag for tag in every if not tag.startswith(HIDDEN_TAG_PREFIX) and not tag.startswith("dagster/")]) <= 2


def test_eviction_sleeps_until_there_is_a_stream_table(chat: str) -> None:
    def status(catalog: Catalog) -> dg.DefaultScheduleStatus:
        return next(one.default_status for one in build_schedules(Mount(chat), catalog) if one.name == "evict_minutely")

    with Lakehouse.open(chat) as lake:
        assert status(lake.warehouse.catalog.read()) is dg.DefaultScheduleStatus.STOPPED
    add_stream(chat, "ada")
    with Lakehouse.open(chat) as lake:
        assert status(lake.warehouse.catalog.read()) is dg.DefaultScheduleStatus.RUNNING


def test_forms_have_their_own_fields_alone(load: Load, chat: str) -> None:
    definitions = load(chat)
    for name in ("flush_job", "restore_job", "restore_chat__messages", "vacuum_job"):
        snap = definitions.resolve_job_def(name).get_job_snapshot()
        root = snap.config_schema_snapshot.get_config_snap(snap.mode_def_snaps[0].root_config_key or "")
        filled = default_values_yaml_from_type_snap(snap.config_schema_snapshot, root)
        assert filled.startswith("ops:")
        assert "resources" not in filled


def test_the_booking_of_many_users_is_announced() -> None:
    messages, rooms = TableName("chat", "messages"), TableName("chat", "rooms")
    (line,) = _announced(Mount("/lake"), {messages: 4_043, rooms: 3})
    assert (line.asset_key.path, line.partition) == (["chat", "messages"], None)
    assert line.description == "4,043 users are being booked: their pages fill meanwhile"
