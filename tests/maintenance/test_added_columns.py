"""Columns that were added are brought by whatever commits next, which leaves the files that it does not touch itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import AddColumn, DropColumn, RenameColumn
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.lifecycle.states import begin_table
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.sql.results import ResultRows
from lakewarden.storage.steps import alone
from tests.delta.scopes import PEOPLE, by, column, flush, paths, people, rows_of, table_of, target
from tests.maintenance.steps import batches, compact, data_files, later, manifest_paths, optimize, restore, then, vacuum

SALES = "chat.sales"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        opened.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT"), Column("day", "INT")]
        table = opened.create_table(SALES, type="SHARED", columns=columns, primary_key=[], partition_by=["day"])
        table.direct.append([_sales([1, 2, 3], ["a", "b", "c"])])
        opened.alter_table(SALES, AddColumn(Column("n", "INT")))
        yield opened


def _sales(days: list[int], texts: list[str]) -> pa.Table:
    return pa.table({"id": pa.array(days, pa.int64()), "text": texts, "day": pa.array(days, pa.int32())})


def _delta(lake: Lakehouse) -> DeltaTable:
    return DeltaTable(f"{lake.warehouse.uri}/data/chat/sales")


def _files(lake: Lakehouse) -> dict[str, str]:
    """The live files by the value of `day`."""
    return {uri.partition("day=")[2].partition("/")[0]: uri for uri in _delta(lake).file_uris()}


def _found(lake: Lakehouse, condition: str = "true") -> dict[int, tuple[str, int | None]]:
    (result,) = lake.sql(f"SELECT id, text, n FROM {SALES} WHERE {condition}", role="dba")
    assert isinstance(result, ResultRows)
    return {row["id"]: (row["text"], row["n"]) for row in result.table.to_pylist()}


def _by_name(lake: Lakehouse) -> dict[int, tuple[str, int | None]]:
    return {row["id"]: (row["text"], row["n"]) for row in _delta(lake).to_pyarrow_table().to_pylist()}


Write = Callable[[Lakehouse], Any]


def _sql(text: str) -> Write:
    return lambda lake: lake.sql(text, role="dba")


WRITES: dict[str, tuple[Write, dict[int, tuple[str, int | None] | None], str]] = {
    # the write, what becomes of rows, and the days whose files stay
    "an append": (_sql(f"INSERT INTO {SALES} VALUES (9, 'x', 4, 5)"), {9: ("x", 5)}, "123"),
    "an overwrite of a partition": (
        lambda lake: lake.table(SALES).direct.overwrite(
            [_sales([2], ["x"]).append_column("n", pa.array([5], pa.int32()))], within="day = 2"
        ),
        {2: ("x", 5)},
        "13",
    ),
    "an update": (_sql(f"UPDATE {SALES} SET n = 5 WHERE day = 2"), {2: ("b", 5)}, "13"),
    "a delete": (_sql(f"DELETE FROM {SALES} WHERE id = 2"), {2: None}, "13"),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_direct_write_leaves_the_files_of_other_partitions(lake: Lakehouse, name: str) -> None:
    write, changed, kept = WRITES[name]
    before = _files(lake)
    write(lake)
    after = _files(lake)
    assert {day for day in before if before[day] == after.get(day)} == set(kept)
    rows: dict[int, tuple[str, int | None] | None] = {1: ("a", None), 2: ("b", None), 3: ("c", None)} | changed
    expected = {id_: row for id_, row in rows.items() if row}
    assert _found(lake) == _by_name(lake) == expected
    for condition, wanted in (("n IS NULL", (None,)), ("n IS NOT NULL", (5,)), ("n = 5", (5,)), ("n < 5", ())):
        assert _found(lake, condition) == {id_: row for id_, row in expected.items() if row[1] in wanted}
    assert all(check.passed for check in lake.check())


def test_the_change_data_feed_has_what_changed_and_nothing_of_the_column_itself(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w")) as lake:
        lake.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        board = lake.create_table(
            "chat.board", type="SHARED", columns=columns, primary_key=["id"], options={"change_data_feed": "true"}
        )
        for id_ in (1, 2):
            board.write([{"id": id_, "text": "a"}])
            lake.flush("chat.board")
        lake.alter_table("chat.board", AddColumn(Column("n", "INT")))
        lake.table("chat.board").write([{"id": 2, "text": "b", "n": 5}, {"id": 3, "text": "c", "n": 6}])
        lake.flush("chat.board")
        delta = DeltaTable(f"{lake.warehouse.uri}/data/chat/board")
        feed = pa.table(delta.load_cdf(starting_version=delta.version())).to_pylist()
        found = sorted((row["_change_type"], row["id"], row["text"], row["n"]) for row in feed)
        assert found == [
            ("insert", 3, "c", 6),
            ("update_postimage", 2, "b", 5),
            ("update_preimage", 2, "a", None),
        ]


def test_a_column_that_was_never_in_delta_can_be_dropped_and_come_again(lake: Lakehouse) -> None:
    before = _files(lake)
    lake.alter_table(SALES, RenameColumn("n", "m"))
    lake.alter_table(SALES, DropColumn("m"))
    lake.alter_table(SALES, AddColumn(Column("n", "INT")))
    lake.sql(f"UPDATE {SALES} SET n = 5 WHERE day = 2", role="dba")
    assert {day for day, uri in _files(lake).items() if uri == before[day]} == {"1", "3"}
    assert _found(lake) == _by_name(lake) == {1: ("a", None), 2: ("b", 5), 3: ("c", None)}


# One scope

WIDER = TableSchema(2, (*PEOPLE.columns, column(3, "age INT")), ("id",))


def test_an_optimize_puts_files_of_several_schemas_together(tmp_path: Path) -> None:
    batches(target(tmp_path / "t"), 3)
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    flush(scope, [{"id": 5, "name": "x", "age": 1}], first_seq=10)
    assert len({file.path for file in table_of(scope).files()}) == 3
    before = rows_of(scope)
    assert optimize(scope, "age").outcome == "done"
    assert len(paths(scope)) == 1
    assert rows_of(scope) == before
    vacuum(scope, hours=0)
    assert rows_of(scope) == before


def test_a_compaction_takes_the_files_of_the_newest_schema_alone(tmp_path: Path) -> None:
    batches(target(tmp_path / "t"), 2)
    old = paths(target(tmp_path / "t"))
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    for id_ in (50, 60):
        flush(scope, [{"id": id_, "name": "x", "age": id_}], first_seq=id_)
    assert compact(scope).metrics["files_removed"] == 2
    assert old < paths(scope)
    assert [row["age"] for row in rows_of(scope)] == [None] * 4 + [50, 60]


def test_an_optimize_under_way_goes_on_top_of_a_flush_that_brings_columns(tmp_path: Path) -> None:
    batches(target(tmp_path / "t"), 3)
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    flushes = then("after-data-file", lambda: flush(scope, [{"id": 50, "name": "x", "age": 1}], first_seq=50))
    assert optimize(target(tmp_path / "t"), reach=flushes).outcome == "done"
    assert len(paths(scope)) == 2
    assert table_of(scope).schema_version(scope.schemas) is WIDER, "the columns stay"
    assert rows_of(scope) == [row | {"age": None} for row in people(*range(6))] + [{"id": 50, "name": "x", "age": 1}]
    assert manifest_paths(scope) == paths(scope)


def test_an_optimize_under_way_is_discarded_where_its_columns_are_gone(tmp_path: Path) -> None:
    """Its files come back by a restore that follows the drop of a column, which they never had."""
    batches(target(tmp_path / "t"), 3)
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    alone(begin_table(scope, by("AT-1"), columns=True))
    dropped = target(tmp_path / "t", PEOPLE, WIDER, TableSchema(3, PEOPLE.columns, ("id",)))

    def drops() -> None:
        flush(dropped, people(50), first_seq=50)
        restore(dropped, 2)

    report = optimize(scope, reach=then("after-data-file", drops))
    assert report.reason == "discarded: columns were changed meanwhile"
    assert rows_of(dropped) == people(*range(6))
    assert data_files(dropped) >= paths(dropped)


def test_a_restore_before_the_columns_came_writes_no_file(tmp_path: Path) -> None:
    batches(target(tmp_path / "t"), 3)
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    before = data_files(scope)
    plan = plan_restore(scope, RestoreOptions(version=1), now=later()())
    assert (len(plan.adds), len(plan.removes)) == (0, 1)
    restore(scope, 1)
    assert (paths(scope), data_files(scope)) == (paths(scope, 1), before)
    assert rows_of(scope) == [row | {"age": None} for row in people(*range(4))]
    assert table_of(scope).schema_version(scope.schemas) is WIDER


def test_a_restore_copies_what_is_live_beside_a_column_that_was_dropped_since(tmp_path: Path) -> None:
    """The commit changes the columns of a table whose files do not read alike under them, so it has to replace them all."""
    batches(target(tmp_path / "t"), 1)
    flush(target(tmp_path / "t", PEOPLE, WIDER), [{"id": 50, "name": "x", "age": 1}], first_seq=50)
    scope = target(tmp_path / "t", PEOPLE, WIDER, TableSchema(3, PEOPLE.columns, ("id",)))
    before = paths(scope)
    assert restore(scope, 0).outcome == "done"
    assert not paths(scope) & before
    assert rows_of(scope) == people(0, 1)
    assert [field.name for field in DeltaTable(scope.uri).schema().fields] == ["id", "name", "_seq"]


def test_a_restore_to_what_is_there_brings_the_columns_alone(tmp_path: Path) -> None:
    batches(target(tmp_path / "t"), 2)
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    before = paths(scope)
    assert restore(scope, 1).outcome == "done"
    assert paths(scope) == before
    assert table_of(scope).schema_version(scope.schemas) is WIDER
    assert restore(scope, 1).reason == "it is already in the state of version 1"


def test_a_restore_of_files_that_lack_a_column_writes_them_again_behind_its_rename(tmp_path: Path) -> None:
    batches(target(tmp_path / "t"), 2)
    wider = target(tmp_path / "t", PEOPLE, WIDER)
    flush(wider, [{"id": 1, "name": "x", "age": 5}], first_seq=10)
    renamed = TableSchema(3, (*PEOPLE.columns, column(3, "years INT")), ("id",))
    scope = target(tmp_path / "t", PEOPLE, WIDER, renamed)
    flush(scope, [{"id": 1, "name": "y", "years": 6}], first_seq=11)
    restore(scope, 2)
    expected = [{"id": id_, "name": "x" if id_ == 1 else f"n{id_}", "years": 5 if id_ == 1 else None} for id_ in range(4)]
    by_name = DeltaTable(scope.uri).to_pyarrow_table().drop_columns(["_seq"]).to_pylist()
    assert rows_of(scope) == sorted(by_name, key=lambda row: int(row["id"])) == expected
