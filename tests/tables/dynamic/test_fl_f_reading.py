"""FL.F: where a stream begins, and what it reads; FL-42's refusal beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.sql.results import Result
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.changes.value import Start

Sql = Callable[[str], list[Result]]
Listed = list[tuple[str, int, int | None]]


def feed(lake: Lakehouse, name: str) -> ChangeFeed:
    return ChangeFeed(lake.warehouse, TableName("n", name))


def begun(lake: Lakehouse, name: str) -> int | None:
    """Where a stream begins that does not say it."""
    return feed(lake, name).start(Start.of_table(feed(lake, name).table()))


def listed(lake: Lakehouse, name: str, after: int | None) -> Listed:
    rows = lake.table(f"n.{name}").changes(after=after).rows.to_pylist()
    return [(row["_change_type"], row["id"], row["v"]) for row in rows]


def make(sql: Sql, name: str, options: str = "") -> None:
    sql(f"CREATE DYNAMIC TABLE {name} (id INT PRIMARY KEY, v INT) {options}")


def test_fl_042_without_change_tracking_a_stream_is_refused_and_a_read_is_not(lake: Lakehouse, sql: Sql) -> None:
    make(sql, "f42", "WITH ('change-tracking' = 'false')")
    sql("INSERT INTO f42 VALUES (1, 1)")
    lake.flush("n.f42")
    sql("INSERT INTO f42 VALUES (2, 2)")
    for where in ("full", "latest", "seq:-1"):
        with pytest.raises(Unsupported, match="change tracking is disabled"):
            feed(lake, "f42").start(Start.parse(where))
    assert lake.table("n.f42").read().num_rows == 2
    trail = lake.warehouse.log(lake.table("n.f42").table).trail(-1)
    assert sum(each.rows for each in trail.every_range(-1)) == 1, "nothing is kept behind the flush"


def test_fl_057_full_reads_a_snapshot_then_each_later_change_once(lake: Lakehouse, sql: Sql) -> None:
    make(sql, "f57")
    sql("INSERT INTO f57 VALUES (1, 1)")
    lake.flush("n.f57")
    sql("INSERT INTO f57 VALUES (2, 2)")
    assert begun(lake, "f57") is None
    snapshot, upto = feed(lake, "f57").snapshot()
    sql("UPDATE f57 SET v = 5 WHERE id = 1")
    lake.flush("n.f57")
    assert sorted(row["v"] for rows in snapshot for row in rows.to_pylist()) == [1, 2], "read after the flush"
    assert listed(lake, "f57", upto) == [("update_preimage", 1, 1), ("update_postimage", 1, 5)]


def test_fl_059_latest_reads_the_changes_after_the_start(lake: Lakehouse, sql: Sql) -> None:
    make(sql, "f59", "WITH ('log.scan' = 'latest')")
    sql("INSERT INTO f59 VALUES (1, 1)")
    after = begun(lake, "f59")
    sql("INSERT INTO f59 VALUES (2, 2)")
    assert listed(lake, "f59", after) == [("insert", 2, 2)]


@pytest.mark.parametrize(("moment", "ids"), [("0", [1]), ("4000000000000", [])])
def test_fl_060_from_timestamp_reads_all_that_is_kept_or_nothing_yet(
    lake: Lakehouse, sql: Sql, moment: str, ids: list[int]
) -> None:
    name = f"f60_{moment}"
    make(sql, name, f"WITH ('log.scan' = 'from-timestamp', 'log.scan.timestamp-mills' = '{moment}')")
    sql(f"INSERT INTO {name} VALUES (1, 1)")
    assert [each[1] for each in listed(lake, name, begun(lake, name))] == ids


def test_fl_064_auto_means_upsert_with_a_key_and_all_without(lake: Lakehouse, sql: Sql) -> None:
    make(sql, "f64_key")
    sql("CREATE DYNAMIC TABLE f64_none (id INT, v INT)")
    wanted = {"f64_key": "upsert", "f64_none": "all"}
    for name, mode in wanted.items():
        table = lake.table(f"n.{name}").table
        assert table.dynamic is not None
        assert (table.dynamic.log_changelog_mode, table.dynamic.changes_of(keyed=table.schema.keyed)) == ("auto", mode)
        sql(f"INSERT INTO {name} VALUES (1, 1)")
        assert listed(lake, name, -1) == [("insert", 1, 1)]


@pytest.mark.parametrize("mode", ["auto", "upsert"])
def test_fl_065_the_reader_rebuilds_what_rows_were_before(lake: Lakehouse, sql: Sql, mode: str) -> None:
    make(sql, f"f65_{mode}", f"WITH ('log.changelog-mode' = '{mode}')")
    sql(f"INSERT INTO f65_{mode} VALUES (1, 1)")
    lake.flush(f"n.f65_{mode}")
    upto = lake.table(f"n.f65_{mode}").changes().upto
    sql(f"UPDATE f65_{mode} SET v = 2 WHERE id = 1; DELETE FROM f65_{mode} WHERE id = 1")
    wanted: Listed = [("update_preimage", 1, 1), ("update_postimage", 1, 2), ("delete", 1, 2)]
    assert listed(lake, f"f65_{mode}", upto) == wanted
    lake.flush(f"n.f65_{mode}")
    assert listed(lake, f"f65_{mode}", upto) == wanted, "the same from the history"


@pytest.mark.slow
def test_fl_066_all_the_log_has_what_rows_were_before(lake: Lakehouse, sql: Sql) -> None:
    """Without the Delta table, and with the history of the log alone: nothing else is read. A table with `upsert` needs both."""
    made: dict[str, Listed] = {}
    for mode in ("all", "upsert"):
        name = f"f66_{mode}"
        make(sql, name, f"WITH ('log.changelog-mode' = '{mode}', 'bucket' = '2')")
        sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        lake.flush(f"n.{name}")
        upto = lake.table(f"n.{name}").changes().upto
        sql(f"UPDATE {name} SET v = 5 WHERE id = 1; DELETE FROM {name} WHERE id = 2; INSERT INTO {name} VALUES (1, 6), (3, 3)")
        lake.flush(f"n.{name}")
        place = Path(lake.table(f"n.{name}").reader.target(None).uri.removeprefix("file://"))
        made[mode] = listed(lake, name, upto)
        place.rename(away := place.with_name("away"))
        if mode == "all":
            assert listed(lake, name, upto) == made[mode]
        else:
            with pytest.raises(LakewardenError):
                listed(lake, name, upto)
        away.rename(place)
    assert made["all"] == made["upsert"]
    assert made["all"] == [
        ("update_preimage", 1, 1),
        ("update_postimage", 1, 5),
        ("delete", 2, 2),
        ("update_preimage", 1, 5),
        ("update_postimage", 1, 6),
        ("insert", 3, 3),
    ]


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_fl_066_all_is_read_after_older_versions_went(lake: Lakehouse, sql: Sql, key: str) -> None:
    name = f"f66_vacuumed{len(key)}"
    sql(f"CREATE DYNAMIC TABLE {name} (id INT {key}, v INT) WITH ('log.changelog-mode' = 'all')")
    sql(f"INSERT INTO {name} VALUES (1, 1)")
    lake.flush(f"n.{name}")
    upto = lake.table(f"n.{name}").changes().upto
    sql(f"INSERT INTO {name} VALUES (1, 2)")
    lake.flush(f"n.{name}")
    lake.compact(f"n.{name}")
    lake.vacuum(f"n.{name}", retain_hours=0, force=True, look=True, dry_run=False)
    update: Listed = [("update_preimage", 1, 1), ("update_postimage", 1, 2)]
    assert listed(lake, name, upto) == (update if key else [("insert", 1, 2)])


def test_fl_071_rows_that_a_writer_repeats_end_in_the_right_state(lake: Lakehouse, sql: Sql) -> None:
    make(sql, "f71", "WITH ('log.consistency' = 'eventual', 'log.changelog-mode' = 'upsert')")
    table = lake.table("n.f71")
    for _ in range(2):
        table.write([{"id": 1, "v": 1}])
        table.write([{"id": 1, "v": 2}])
    held: dict[int, int | None] = {}
    for kind, key, value in listed(lake, "f71", -1):
        if kind in ("update_preimage", "delete"):
            assert held.pop(key) == value, "each change continues the one before"
        else:
            held[key] = value
    assert held == {1: 2}


def test_fl_072_a_write_of_the_new_row_alone_is_completed(lake: Lakehouse, sql: Sql) -> None:
    make(sql, "f72", "WITH ('log.changelog-mode' = 'all')")
    lake.table("n.f72").write([{"id": 1, "v": 1}])
    lake.table("n.f72").write([{"id": 1, "v": 2}])
    assert listed(lake, "f72", -1)[1:] == [("update_preimage", 1, 1), ("update_postimage", 1, 2)]


def test_fl_074_a_batch_read_has_the_newest_rows_alone(lake: Lakehouse, sql: Sql) -> None:
    make(sql, "f74")
    sql("INSERT INTO f74 VALUES (1, 1); UPDATE f74 SET v = 2 WHERE id = 1")
    sql("INSERT INTO f74 VALUES (2, 2); DELETE FROM f74 WHERE id = 2")
    assert lake.table("n.f74").read().to_pylist() == [{"id": 1, "v": 2}]
