"""FL.E: commits at once, and the catalog lock."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import LockSettings
from lakewarden.catalog.locks import CatalogLock, LockFactory, ObjectTurns
from lakewarden.catalog.store import CatalogStore
from lakewarden.delta.lifecycle.states import begin_table
from lakewarden.errors import Conflict, FailedPrecondition, Unsupported
from lakewarden.maintenance.admin import create_table
from lakewarden.sql.results import Result
from lakewarden.storage.location import REMOTE
from tests.fixtures.clock import Pauses

Sql = Callable[[str], list[Result]]


def lock(lake: Lakehouse, clock: Pauses, acquire_seconds: float) -> CatalogLock:
    settings = replace_settings(acquire_seconds)
    return CatalogLock(lake.warehouse.catalog, ObjectTurns(), settings, monotonic=clock, pause=clock.pause)


def replace_settings(acquire_seconds: float) -> LockSettings:
    return LockSettings(lease_seconds=30.0, acquire_seconds=acquire_seconds)


def test_fl_049_two_appends_at_once_get_a_version_each(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE e49 (a INT)")
    writers = [threading.Thread(target=lake.sql, args=(f"INSERT INTO n.e49 VALUES ({number})",)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    history = lake.table("n.e49").history()
    assert [one.version for one in history] == [2, 1, 0]


def test_fl_050_a_lock_needs_no_rename(lake: Lakehouse) -> None:
    assert "s3" in REMOTE
    assert LockSettings().kind == "objects"
    assert lake.warehouse.locks.create().run_with_lock("n", "e50", lambda: 7) == 7


def test_fl_051_run_with_lock(lake: Lakehouse) -> None:
    factory: LockFactory = pickle.loads(pickle.dumps(lake.warehouse.locks))
    made = factory.create()
    assert made.run_with_lock("n", "e51", lambda: "value") == "value"

    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        made.run_with_lock("n", "e51", fails)
    assert lake.warehouse.catalog.read().leases.get("n.e51") is None


def test_fl_051_a_lock_is_closed_by_hand_and_by_with(lake: Lakehouse) -> None:
    factory = lake.warehouse.locks
    with factory.create() as made, made.hold("n", "e51") as lease:
        made.close()  # what runs goes on
        assert lake.warehouse.catalog.read().leases["n.e51"].owner == lease.owner
    assert lake.warehouse.catalog.read().leases.get("n.e51") is None
    made.close()
    ran: list[int] = []
    with pytest.raises(FailedPrecondition, match="closed"):
        made.run_with_lock("n", "e51", lambda: ran.append(1))
    assert not ran
    assert factory.create().run_with_lock("n", "e51", lambda: 7) == 7


def test_fl_052_holders_never_overlap_and_a_dead_one_is_replaced(lake: Lakehouse) -> None:
    clock = Pauses()
    with lock(lake, clock, 5).hold("n", "e52"):
        assert lock(lake, Pauses(), 5).run_with_lock("n", "other", lambda: 1) == 1
        with pytest.raises(Conflict, match="could not lock"):
            lock(lake, clock, 5).run_with_lock("n", "e52", lambda: None)
    dead = lock(lake, clock, 60)._acquire("n.e52", 60)
    assert lock(lake, clock, 60).run_with_lock("n", "e52", lambda: "after") == "after"
    assert clock.now >= dead.seconds


def test_fl_053_the_catalog_gives_the_lock(lake: Lakehouse) -> None:
    assert isinstance(lake.warehouse.locks, LockFactory)


def test_fl_054_the_factory_works_in_another_process(lake: Lakehouse) -> None:
    factory: LockFactory = pickle.loads(pickle.dumps(lake.warehouse.locks))
    assert isinstance(factory.create().catalog, CatalogStore)
    assert factory.create().run_with_lock("n", "e54", system_clock) is not None


def test_fl_055_the_storage_is_there_before_the_table_is_shown(
    lake: Lakehouse, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    begin = begin_table

    def watched(*args: object, **named: object) -> object:
        seen.append(lake.warehouse.catalog.read().tables[TableName("n", "e55")].dropping)
        return begin(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(create_table, "begin_table", watched)
    sql("CREATE DYNAMIC TABLE e55 (a INT)")
    table = lake.warehouse.catalog.read().tables[TableName("n", "e55")]
    assert (seen, table.dropping) == ([True], False)
    place = Path(lake.warehouse.target_of(lake.warehouse.catalog.read(), table, None).location.uri)
    assert (place / "_delta_log").exists()


def test_fl_056_a_type_that_is_named_is_no_dynamic_table(lake: Lakehouse, sql: Sql) -> None:
    sql("SET 'table-storage.kind' = 'dynamic'; CREATE USER TABLE e56 (a INT PRIMARY KEY)")
    assert lake.warehouse.catalog.read().tables[TableName("n", "e56")].dynamic is None
    with pytest.raises(Unsupported):
        sql("ALTER TABLE e56 DROP PARTITION (a = 1)")


def test_fl_078_maintenance_removes_no_row(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE e78 (a INT PRIMARY KEY) WITH ('log.retention' = '1 s'); INSERT INTO e78 VALUES (1)")
    sql("ALTER TABLE e78 COMPACT; VACUUM e78 RETAIN 0 HOURS FORCE")
    lake.compact("n.e78")
    (found,) = lake.sql("SELECT a FROM n.e78")
    assert found.table.num_rows == 1  # type: ignore[union-attr]
