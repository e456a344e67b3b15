"""Restores across changes of the columns: readers who go by names see what SQL sees, which goes by ids."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import AddColumn, Alteration, DropColumn, ModifyColumn, RenameColumn
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.report import ScopeReport
from lakewarden.delta.parquet.schema import reads_alike
from lakewarden.errors import Conflict, LakewardenError
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.sql.results import ResultRows
from tests.delta.scopes import PEOPLE, Row, column, flush, paths, people, rows_of, table_of, target
from tests.fixtures.examples import examples
from tests.fixtures.lakes import NOTES, scope_path
from tests.maintenance.steps import Died, compact, data_files, dies, later, manifest_paths, operations, restore, then

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_DISK = pytest.mark.disk

CASES: dict[str, list[Alteration]] = {
    "renamed, and a dropped name taken again": [
        RenameColumn("a", "aa"),
        DropColumn("b"),
        AddColumn(Column("b", "TEXT")),
    ],
    "two names exchanged": [RenameColumn("a", "t"), RenameColumn("b", "a"), RenameColumn("t", "b")],
    "dropped": [DropColumn("a")],
    "added NOT NULL": [AddColumn(Column("m", "TEXT", nullable=False, default="'x'"))],
    "wider types": [ModifyColumn("n", "BIGINT"), ModifyColumn("f", "DOUBLE"), ModifyColumn("d", "DECIMAL(12,4)")],
    "the key renamed": [RenameColumn("id", "key"), AddColumn(Column("id", "BIGINT"))],
    "names that differ in case alone": [RenameColumn("a", "other"), AddColumn(Column("A", "TEXT"))],
    "added": [AddColumn(Column("m", "TEXT"))],
}

each_case = pytest.mark.parametrize("changes", CASES.values(), ids=[name.replace(" ", "-") for name in CASES])


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        opened.create_namespace("chat")
        columns = [
            Column("id", "BIGINT"),
            *(Column(*each) for each in (("a", "TEXT"), ("b", "TEXT"), ("n", "INT"), ("f", "FLOAT"), ("d", "DECIMAL(6,2)"))),
        ]
        opened.create_table(NOTES, type="USER", columns=columns, primary_key=["id"])
        yield opened


def _write(lake: Lakehouse, *ids: int, user: str = "ann") -> None:
    """Values that tell of which row and column they are; in columns of whatever names the table has now."""
    schema = lake.table(NOTES).table.schema
    (key,) = schema.primary_key
    rows = [
        {key: id_} | {each.name: _value(each.type.name, each.id, id_) for each in schema.columns if each.name != key}
        for id_ in ids
    ]
    lake.table(NOTES).write(rows, user=user)


def _value(type_: str, column_id: int, row: int) -> object:
    return f"{column_id} of {row}" if type_ == "TEXT" else column_id * 10 + row


def _flushed(lake: Lakehouse, *ids: int, user: str = "ann") -> None:
    _write(lake, *ids, user=user)
    assert [report.outcome for report in lake.flush(NOTES)] == ["done"]


def _altered(lake: Lakehouse, changes: Sequence[Alteration]) -> None:
    for change in changes:
        lake.alter_table(NOTES, change)


def _restored(lake: Lakehouse, version: int, user: str = "ann") -> ScopeReport:
    (report,) = lake.restore(NOTES, user=user, version=version, dry_run=False)
    assert report.fault is None, report
    return report


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(({name: row[name] for name in sorted(row) if name != "_seq"} for row in rows), key=repr)


def _sql(lake: Lakehouse, user: str = "ann") -> list[Row]:
    return _sorted(lake.table(NOTES).read(user=user, freshness="eventual").to_pylist())


def _by_name(path: object) -> list[Row]:
    return _sorted(DeltaTable(str(path)).to_pyarrow_table().to_pylist())


def _agree(lake: Lakehouse, ids: set[int] | None = None, user: str = "ann") -> None:
    """SQL and a reader who goes by names; and the rows are those of these keys."""
    rows = _sql(lake, user)
    assert _by_name(scope_path(lake, user)) == rows
    (key,) = lake.table(NOTES).table.schema.primary_key
    assert ids is None or {row[key] for row in rows} == ids
    for row in rows:  # each value is of its own row, and of the column that it was written to
        for each in lake.table(NOTES).table.schema.columns:
            text = row[each.name]
            assert not isinstance(text, str) or text in (f"{each.id} of {row[key]}", "x")


@pytest.mark.covering
@ON_DISK
@each_case
@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "not flushed"])
def test_other_readers_see_what_sql_sees(lake: Lakehouse, tmp_path: Path, changes: list[Alteration], *, flushed: bool) -> None:
    _flushed(lake, 1, 2)
    _flushed(lake, 3)
    _altered(lake, changes)
    if flushed:
        _flushed(lake, 4)
    _restored(lake, 0)
    _agree(lake, {1, 2})
    restored = table_version(lake)
    _restored(lake, 1)
    _agree(lake, {1, 2, 3})
    _restored(lake, restored)
    _agree(lake, {1, 2})
    _flushed(lake, 2, 5)
    _agree(lake, {1, 2, 5})
    lake.export("ann", str(tmp_path / "out"))
    assert _by_name(tmp_path / "out" / "chat" / "notes") == _sql(lake)


def table_version(lake: Lakehouse, user: str = "ann") -> int:
    return DeltaTable(str(scope_path(lake, user))).version()


@ON_DISK
def test_an_export_right_after_it(lake: Lakehouse, tmp_path: Path) -> None:
    _flushed(lake, 1)
    _altered(lake, CASES["renamed, and a dropped name taken again"])
    _flushed(lake, 2)
    _restored(lake, 0)
    lake.export("ann", str(tmp_path / "out"))
    (row,) = _by_name(tmp_path / "out" / "chat" / "notes")
    assert (row["aa"], row["b"]) == ("2 of 1", None)


@ON_DISK
def test_many_scopes_by_timestamp(lake: Lakehouse) -> None:
    users = ("ann", "bob", "cay")
    for user in users:
        _flushed(lake, 1, user=user)
    moment = datetime.now(UTC)
    _altered(lake, CASES["two names exchanged"])
    for user in users[:2]:
        _flushed(lake, 2, user=user)
    reports = lake.restore(NOTES, timestamp=moment, dry_run=False)
    assert {report.outcome for report in reports} == {"done"}
    for user in users:
        _agree(lake, {1}, user)
    assert {report.outcome for report in lake.restore(NOTES, timestamp=moment, dry_run=False)} == {"skipped"}


@pytest.mark.covering
@ON_DISK
@pytest.mark.parametrize("others", [False, True], ids=["ours", "another program's"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_compacted(lake: Lakehouse, when: str, *, others: bool) -> None:
    """Files that another program wrote carry no ids: they are of the columns that the version had."""

    def compacted() -> None:
        if others:
            DeltaTable(str(scope_path(lake, "ann"))).optimize.compact()
        else:
            assert {report.outcome for report in lake.optimize(NOTES, user="ann", zorder=["id"])} == {"done"}

    for id_ in (1, 2, 3):
        _flushed(lake, id_)
    if when == "before":
        compacted()
    version = table_version(lake)
    _altered(lake, CASES["two names exchanged"])
    _flushed(lake, 4)
    _restored(lake, version)
    _agree(lake, {1, 2, 3})
    if when == "after":
        compacted()
    _agree(lake, {1, 2, 3})
    _restored(lake, version)
    _agree(lake, {1, 2, 3})


@ON_DISK
@pytest.mark.slow
def test_spark_sees_what_sql_sees(lake: Lakehouse, spark: SparkSession) -> None:
    changes = [*CASES["renamed, and a dropped name taken again"], *CASES["wider types"]]
    _flushed(lake, 1, 2)
    _altered(lake, changes)
    _flushed(lake, 3)
    _restored(lake, 0)
    rows = spark.read.format("delta").load(str(scope_path(lake, "ann"))).collect()
    assert _sorted([row.asDict() for row in rows]) == _sql(lake)


@ON_DISK
def test_bounds_of_old_names_hide_no_row(lake: Lakehouse) -> None:
    _flushed(lake, 1)
    _altered(lake, CASES["two names exchanged"])
    _flushed(lake, 2)
    _restored(lake, 0)
    (found,) = lake.sql("SELECT id FROM chat.notes WHERE a = '3 of 1' AND b = '2 of 1'", user="ann")
    assert isinstance(found, ResultRows)
    assert found.table.to_pylist() == [{"id": 1}]


@ON_DISK
def test_what_an_earlier_release_restored_is_mended_by_the_same_again(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    _flushed(lake, 1)
    _altered(lake, CASES["two names exchanged"])
    _flushed(lake, 2)
    with monkeypatch.context() as earlier:
        earlier.setattr("lakewarden.delta.table_contents.reads_alike", lambda written, now: True)
        _restored(lake, 0)
    assert _by_name(scope_path(lake, "ann")) != _sql(lake)
    _restored(lake, 0)
    _agree(lake, {1})


_CHANGES: tuple[Callable[[random.Random, Sequence[str]], Alteration], ...] = (
    lambda chance, names: RenameColumn(chance.choice(names), chance.choice("abcd")),
    lambda chance, names: DropColumn(chance.choice(names)),
    lambda chance, names: AddColumn(Column(chance.choice("abcd"), "TEXT")),
    lambda chance, names: AddColumn(Column(chance.choice("abcd"), "TEXT", nullable=False, default="'x'")),
    lambda chance, names: ModifyColumn(chance.choice(names), "BIGINT"),
)


@pytest.mark.slow
@ON_DISK
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.night] * (seed >= 7)) for seed in range(examples(20))])
def test_any_order_of_changes_flushes_compactions_and_restores(lake: Lakehouse, seed: int) -> None:
    chance = random.Random(seed)
    _flushed(lake, 0)
    restores = 0
    while restores < 4:
        match chance.randrange(6):
            case 0 | 1:
                _changed(lake, chance)
            case 2 | 3:
                _flushed(lake, chance.randrange(4))
            case 4:
                lake.optimize(NOTES, user="ann", zorder=["id"])
            case _:
                _restored(lake, chance.randrange(table_version(lake) + 1))
                _agree(lake)
                restores += 1


def _changed(lake: Lakehouse, chance: random.Random) -> None:
    names = [name for name in lake.table(NOTES).table.schema.names if name != "id"]
    with suppress(LakewardenError):  # a name that is taken, a type that is not wider
        lake.alter_table(NOTES, chance.choice(_CHANGES)(chance, names))


# One scope, on both stores

SWAPPED = TableSchema(2, (column(1, "id BIGINT NOT NULL"), column(3, "name TEXT"), column(2, "label TEXT")), ("id",))
WIDER = TableSchema(2, (column(1, "id BIGINT NOT NULL"), column(2, "name TEXT"), column(3, "age INT")), ("id",))


def _moved(path: Any, newest: TableSchema = SWAPPED) -> Any:
    """A scope whose versions 0 and 1 are of the first schema, and version 2 of the newest."""
    first = target(path, PEOPLE)
    flush(first, people(0, 1), first_seq=0)
    flush(first, people(2), first_seq=2)
    scope = target(path, PEOPLE, newest)
    flush(scope, [dict.fromkeys(newest.names) | {"id": 9}], first_seq=9)
    return scope


@pytest.mark.both_stores
def test_the_files_that_come_are_written_again(tmp_path: Path) -> None:
    scope = _moved(tmp_path / "t")
    plan = plan_restore(scope, RestoreOptions(version=0), now=later()())
    assert "the columns changed since, so the files are written again" in str(plan)
    report = restore(scope, 0)
    assert rows_of(scope) == [{"id": id_, "name": None, "label": f"n{id_}"} for id_ in (0, 1)]
    assert not paths(scope) & paths(scope, 0)
    assert manifest_paths(scope) == paths(scope)
    assert {name[1:] for name in report.files if name.startswith("+")} == paths(scope)
    assert report.metrics["bytes_added"] == sum(file.size for file in table_of(scope).files())
    assert report.parameters == {"version": "0", "schema_version": "2"}
    assert [(file.min_seq, file.max_seq) for file in table_of(scope).files()] == [(0, 1)]


@pytest.mark.both_stores
def test_it_costs_nothing_where_every_name_means_the_same(tmp_path: Path) -> None:
    scope = _moved(tmp_path / "t", WIDER)
    before = data_files(scope)
    restore(scope, 1)
    assert (paths(scope), data_files(scope)) == (paths(scope, 1), before)


@pytest.mark.covering
@pytest.mark.both_stores
@pytest.mark.parametrize("step", ["after-read", "before-link", "after-commit", "after-manifest"])
def test_killed_at_any_step_and_run_again(tmp_path: Path, step: str) -> None:
    scope = _moved(tmp_path / "t")
    with pytest.raises(Died):
        restore(scope, 0, reach=dies(step))
    restore(scope, 0)
    assert rows_of(scope) == [{"id": id_, "name": None, "label": f"n{id_}"} for id_ in (0, 1)]
    assert operations(scope).count("RESTORE") == 1
    compact(scope)
    restore(scope, 2)
    assert rows_of(scope) == rows_of(scope, 2)


@pytest.mark.both_stores
def test_a_commit_that_came_between_leaves_nothing_of_it(tmp_path: Path) -> None:
    scope = _moved(tmp_path / "t")
    before = data_files(scope)
    with pytest.raises(Conflict):
        restore(scope, 0, reach=then("before-link", lambda: flush(scope, [{"id": 5, "name": None, "label": None}], first_seq=20)))
    assert data_files(scope) - before == paths(scope) - before


# The rule


def _evolutions() -> Iterator[tuple[TableSchema, ...]]:
    """Every schema that follows from another by one small change, three times over."""
    for seed in range(300):
        chance, number = random.Random(seed), 4
        schemas = [TableSchema(1, (column(1, "id BIGINT NOT NULL"), column(2, "a INT"), column(3, "b INT")), ("id",))]
        for version in (2, 3, 4):
            columns = list(schemas[-1].columns)
            at, names = chance.randrange(1, max(2, len(columns))), {each.name for each in columns}
            match chance.randrange(4):
                case 0 if len(columns) > 1:
                    del columns[at]
                case 1 if len(columns) > 1 and (free := sorted({"a", "b", "c"} - names)):
                    columns[at] = column(columns[at].id, f"{chance.choice(free)} {columns[at].type}")
                case 2 if len(columns) > 1:
                    columns[at] = column(columns[at].id, f"{columns[at].name} BIGINT")
                case _ if free := sorted({"a", "b", "c"} - names):
                    columns.append(column(number, f"{chance.choice(free)} INT"))
                    number += 1
            schemas.append(TableSchema(version, tuple(columns), ("id",)))
        yield tuple(schemas)


def _same_by_names(written: TableSchema, now: TableSchema) -> bool:
    """Whether each column of `now` finds under its name what it finds under its id."""
    by_name = {each.name: each for each in written.columns}
    by_id = {each.id: each for each in written.columns}
    return all(
        (found := by_name.get(each.name)) == by_id.get(each.id) and (found is None or found.type == each.type)
        for each in now.columns
    )


def test_what_reads_alike_is_the_same_by_names_and_stays_so() -> None:
    alike = 0
    for schemas in _evolutions():
        for one, written in enumerate(schemas):
            for other in range(one, len(schemas)):
                if reads_alike(written, schemas[other]):
                    alike += other > one
                    assert _same_by_names(written, schemas[other])
                    assert all(reads_alike(written, last) for last in schemas[other:] if reads_alike(schemas[other], last))
                elif _same_by_names(written, schemas[other]):
                    assert {each.id for each in written.columns} - {each.id for each in schemas[other].columns}, "one was dropped"
    assert alike > 50
