"""`move_job`: each scope's partition knows where it lies now."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.move import move_job
from tests.dagster.jobs.conftest import RunJob
from tests.fixtures.chat import MESSAGES
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


def test_move_books_each_scope_at_its_new_place(chat: str, instance: dg.DagsterInstance, run_job: RunJob, tmp_path: Path) -> None:
    with Lakehouse.open(chat) as lake:
        lake.create_storage("cold", type="filesystem", base=str(tmp_path / "cold"))
        lake.flush(MESSAGES)
        users = lake.table(MESSAGES).users()
    assert not run_job(move_job, {"table": MESSAGES, "to": "nowhere"}).success
    assert run_job(move_job, {"table": MESSAGES, "to": "cold"}).success
    events = [
        record.asset_materialization
        for record in instance.fetch_materializations(dg.AssetKey(["chat", "messages"]), limit=10).records
    ]
    assert sorted(event.partition or "" for event in events if event) == users
    assert all(str(event.metadata["path"].value).startswith(str(tmp_path / "cold")) for event in events if event)
