"""USE_USER_STORAGE: the scopes of users with a storage of their own lie there, and stay where they were put first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.access import OPERATOR
from lakewarden.catalog.changes.users import UserChange
from lakewarden.catalog.evolution import SetOptions
from lakewarden.catalog.model import StorageMode, User
from lakewarden.catalog.session_gate import Door
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import InUse
from lakewarden.maintenance.admin.users import change_user, create_user
from tests.catalog.build import NOW
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong

pytestmark = pytest.mark.disk  # they look into the directories themselves


@pytest.fixture
def lake(warehouse_uri: str, tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        for region in ("eu", "us"):
            opened.create_storage(region, type="filesystem", base=str(tmp_path / region))
        make_notes(opened, options={"USE_USER_STORAGE": "TRUE"})
        yield opened


def _door(lake: Lakehouse) -> Door:
    return Door(OPERATOR, AuditLog(lake.warehouse.state, lake.warehouse.clock, lake.warehouse.new_id))


def _user(lake: Lakehouse, name: str, mode: StorageMode, storage: str | None) -> None:
    user = User(name, "user", "internal", NOW, NOW, storage_mode=mode, storage_id=storage)
    create_user(lake.warehouse, _door(lake), user)


def _lies(tmp_path: Path, user: str) -> list[str]:
    roots = {"local": tmp_path / "warehouse" / "data", "eu": tmp_path / "eu", "us": tmp_path / "us"}
    return [name for name, root in roots.items() if (root / "chat" / "notes" / user / "_delta_log").is_dir()]


def test_a_scope_lies_on_its_user_s_storage_and_stays_there(lake: Lakehouse, tmp_path: Path) -> None:
    _user(lake, "ann", "region", "eu")
    _user(lake, "bob", "table", "eu")
    table = lake.table(NOTES)
    for user in ("ann", "bob", "unknown"):
        table.write(notes({1: user}), user=user)
    lake.flush(NOTES)
    assert [_lies(tmp_path, user) for user in ("ann", "bob", "unknown")] == [["eu"], ["local"], ["local"]]
    change_user(lake.warehouse, _door(lake), "ann", UserChange(storage_id="us"))
    change_user(lake.warehouse, _door(lake), "bob", UserChange(storage_mode="region"))
    _user(lake, "unknown", "region", "us")
    for user in ("ann", "bob", "unknown"):
        assert eventual(table, user) == {1: user}
        table.write(notes({2: "more"}), user=user)
    lake.flush(NOTES)
    assert [_lies(tmp_path, user) for user in ("ann", "bob", "unknown")] == [["eu"], ["local"], ["local"]]
    assert strong(table, "ann") == {1: "ann", 2: "more"}
    assert all(finding.passed for finding in lake.check())


def test_a_storage_with_scopes_stays_whoever_s_it_is_now(lake: Lakehouse, tmp_path: Path) -> None:
    _user(lake, "ann", "region", "eu")
    with pytest.raises(InUse, match="own storage of 1 user"):
        lake.drop_storage("eu")
    lake.table(NOTES).write(notes({1: "a"}), user="ann")
    lake.flush(NOTES)
    change_user(lake.warehouse, _door(lake), "ann", UserChange(clear_storage=True))
    with pytest.raises(InUse, match="it holds scopes of users"):
        lake.drop_storage("eu")
    with pytest.raises(InUse, match="cold data"):
        lake.alter_table(NOTES, SetOptions({"USE_USER_STORAGE": "FALSE"}))
    lake.drop_table(NOTES)
    assert not list((tmp_path / "eu" / "chat" / "notes" / "ann").glob("*.parquet"))
    lake.drop_storage("eu")
