"""Events on SQLite take an eighth of their bytes, and are the same to everyone who asks Dagster."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as db
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._serdes import serialize_value
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.packed_storage import PackedEventLogStorage, pack, unpack
from lakewarden.dagster.jobs.flush import flush_job
from tests.dagster.jobs.conftest import runner
from tests.fixtures.chat import MESSAGES
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

USERS = 200
KEY = dg.AssetKey(["chat", "messages"])


@given(st.text() | st.builds('{{"__class__": "{}"}}'.format, st.text(min_size=200)))
def test_what_is_packed_comes_back(text: str) -> None:
    assert unpack(pack(text)) == text


def test_what_cannot_be_unpacked_is_an_error() -> None:
    packed = pack('{"__class__": "' + "x" * 300)
    assert isinstance(packed, bytes)
    with pytest.raises(ValueError, match="packed by a later release"):
        unpack(b"\xff" + packed[1:])
    with pytest.raises(ValueError, match="damaged"):
        unpack(packed[:1] + packed[9:])


@pytest.mark.night
def test_a_scope_and_flush_takes_two_and_a_half_kilobytes(chat: str, instance: dg.DagsterInstance) -> None:
    """Both copies of the event, with their indexes, before anything is pruned."""
    assert isinstance(instance.event_log_storage, PackedEventLogStorage)
    run_job = runner(chat, instance)
    sizes = []
    for turn in range(2):
        with Lakehouse.open(chat) as lake:
            lake.table(MESSAGES).write(
                [{"id": turn, "content": "new", "user": f"u_{n}"} for n in range(USERS)], user_column="user"
            )
        before = stored_bytes(instance.event_log_storage)
        assert run_job(flush_job, {"tables": [MESSAGES]}).success
        sizes.append((stored_bytes(instance.event_log_storage) - before) / USERS)
    assert sizes[1] <= 2_560
    records = instance.fetch_materializations(KEY, limit=USERS).records
    assert {record.partition_key for record in records} >= {f"u_{n}" for n in range(USERS)}
    assert min(len(serialize_value(record.event_log_entry)) for record in records) > 2_000


def test_events_from_before_are_read_beside_those_that_are_packed(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    plain, packed = SqliteEventLogStorage(str(tmp_path / "runs")), PackedEventLogStorage(str(tmp_path / "runs"))
    for storage in (plain, packed):
        storage.register_instance(instance)
        event = dg.AssetMaterialization(KEY, partition="ada", metadata={"by": type(storage).__name__, "long": "x" * 300})
        storage.store_event(_entry(event))
    found = packed.fetch_materializations(KEY, limit=10).records
    assert [record.asset_materialization.metadata["by"].value for record in found if record.asset_materialization] == [
        "PackedEventLogStorage",
        "SqliteEventLogStorage",
    ]


def _entry(event: dg.AssetMaterialization) -> dg.EventLogEntry:
    made = dg.DagsterInstance.ephemeral()
    made.report_runless_asset_event(event)
    (record,) = made.fetch_materializations(event.asset_key, limit=1).records
    return record.event_log_entry


def stored_bytes(storage: SqlEventLogStorage) -> int:
    assert isinstance(storage, SqliteEventLogStorage)
    return sum(_used_bytes(storage, shard) for shard in ("index", *storage.get_all_run_ids()))


def _used_bytes(storage: SqliteEventLogStorage, shard: str) -> int:
    def pragma(name: str) -> int:
        return int(connection.execute(db.text(f"PRAGMA {name}")).scalar_one())

    with storage.run_connection(shard) as connection:
        return (pragma("page_count") - pragma("freelist_count")) * pragma("page_size")
