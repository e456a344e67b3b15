"""ALTER TABLE over a live table: what other Delta readers see, and what depends on the rows that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import (
    AddColumn,
    Alteration,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SetDefault,
    SetNullable,
    SetOptions,
)
from lakewarden.errors import ConstraintViolation, InUse, InvalidArgument, LakewardenError, NotFound
from lakewarden.sql.results import AffectedRows
from tests.fixtures.lakes import NOTES, lake_fixture, make_notes, notes, scope_path

lake = lake_fixture(make_notes)


def _read(lake: Lakehouse) -> list[dict[str, object]]:
    return sorted(lake.table(NOTES).read(user="u").to_pylist(), key=lambda row: int(row["id"]))


def test_a_rename_keeps_values_and_a_column_added_anew_starts_empty(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    table.write(notes({1: "cold"}), user="u")
    lake.flush(NOTES)
    table.write(notes({2: "hot"}), user="u")
    lake.alter_table(NOTES, RenameColumn("text", "body"))
    lake.alter_table(NOTES, AddColumn(Column("text", "TEXT", default="'new'")))
    expected = [{"id": 1, "body": "cold", "text": None}, {"id": 2, "body": "hot", "text": None}]
    assert _read(lake) == expected
    lake.table(NOTES).write([{"id": 3, "body": "b"}], user="u")
    expected.append({"id": 3, "body": "b", "text": "new"})
    assert _read(lake) == expected
    lake.flush(NOTES)
    assert _read(lake) == expected
    outside = DeltaTable(str(scope_path(lake, "u"))).to_pyarrow_table().drop_columns(["_seq"])
    assert outside.column_names == ["id", "body", "text"]
    assert sorted(outside.to_pylist(), key=lambda row: int(row["id"])) == expected
    lake.alter_table(NOTES, DropColumn("text"))
    lake.alter_table(NOTES, AddColumn(Column("text", "TEXT")))
    assert [row["text"] for row in _read(lake)] == [None, None, None]
    assert [schema.version for schema in lake.tables()[0].schemas] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_older_rows_have_the_default_of_a_not_null_column_before_and_after_the_flush_that_writes_it(lake: Lakehouse) -> None:
    lake.table(NOTES).write(notes({1: "cold", 2: "cold"}), user="u")
    lake.flush(NOTES)
    lake.table(NOTES).write(notes({3: "hot"}), user="u")
    added = lake.warehouse.clock()
    lake.alter_table(NOTES, AddColumn(Column("m", "TEXT", nullable=False, default="'x'")))
    lake.alter_table(NOTES, AddColumn(Column("at", "TIMESTAMP", nullable=False, default="NOW()")))
    lake.alter_table(NOTES, AddColumn(Column("n", "INT", nullable=False, default="-7")))
    lake.alter_table(NOTES, SetDefault("m", "'later'"))
    lake.alter_table(NOTES, RenameColumn("m", "mark"))
    lake.alter_table(NOTES, ModifyColumn("n", "BIGINT"))
    before = _read(lake)
    assert [(row["id"], row["mark"], row["n"]) for row in before] == [(1, "x", -7), (2, "x", -7), (3, "x", -7)]
    moments = {row["at"] for row in before}
    assert len(moments) == 1
    assert added <= moments.pop() <= lake.warehouse.clock()  # type: ignore[operator]
    assert lake.sql(f"UPDATE {NOTES} SET text = 'seen' WHERE mark = 'x' AND id <> 2", user="u") == [AffectedRows(2)]
    lake.table(NOTES).write([{"id": 4, "text": "new"}], user="u")
    expected = _read(lake)
    assert [(row["id"], row["text"], row["mark"]) for row in expected] == [
        (1, "seen", "x"),
        (2, "cold", "x"),
        (3, "seen", "x"),
        (4, "new", "later"),
    ]
    lake.flush(NOTES)
    assert _read(lake) == expected
    outside = DeltaTable(str(scope_path(lake, "u"))).to_pyarrow_table().drop_columns(["_seq"])
    assert sorted(outside.to_pylist(), key=lambda row: int(row["id"])) == expected


@pytest.mark.slow
def test_a_row_gets_the_default_that_is_its_own_with_its_next_change(lake: Lakehouse) -> None:
    lake.table(NOTES).write(notes({1: "a", 2: "b"}), user="u")
    lake.flush(NOTES)
    lake.alter_table(NOTES, AddColumn(Column("code", "UUID", nullable=False, default="UUID_V7()")))
    lake.alter_table(NOTES, AddColumn(Column("who", "TEXT", nullable=False, default="CURRENT_USER()")))
    assert lake.sql(f"UPDATE {NOTES} SET text = 'c' WHERE id = 1", user="u") == [AffectedRows(1)]
    changed, older = _read(lake)
    assert (changed["text"], changed["who"], len(str(changed["code"]))) == ("c", "u", 36)
    assert (older["text"], older["who"], older["code"]) == ("b", None, None)


def test_a_column_that_may_be_null_starts_empty_whatever_its_default(lake: Lakehouse) -> None:
    lake.table(NOTES).write(notes({1: "a"}), user="u")
    lake.alter_table(NOTES, AddColumn(Column("m", "TEXT", default="'x'")))
    lake.alter_table(NOTES, SetDefault("m", "'y'"))
    assert [row["m"] for row in _read(lake)] == [None]


def test_null_can_be_flushed_once_not_null_is_dropped(lake: Lakehouse) -> None:
    lake.alter_table(NOTES, AddColumn(Column("n", "INT", nullable=False, default="7")))
    lake.table(NOTES).write(notes({1: "a"}), user="u")
    lake.flush(NOTES)
    with pytest.raises(ConstraintViolation):
        lake.table(NOTES).write([{"id": 2, "n": None}], user="u")
    lake.alter_table(NOTES, SetNullable("n", True))
    lake.table(NOTES).write([{"id": 2, "n": None}], user="u")
    assert [report.outcome for report in lake.flush(NOTES)] == ["done"]
    assert [row["n"] for row in _read(lake)] == [7, None]


@pytest.mark.parametrize("flushed", [True, False])
def test_not_null_is_refused_where_somebody_has_null(lake: Lakehouse, flushed: bool) -> None:
    lake.table(NOTES).write([{"id": 1, "text": None}], user="somebody")
    lake.table(NOTES).write(notes({1: "a"}), user="u")
    if flushed:
        lake.flush(NOTES)
    with pytest.raises(ConstraintViolation, match=r"chat.notes\[somebody\]"):
        lake.alter_table(NOTES, SetNullable("text", False))
    lake.table(NOTES).delete([{"id": 1}], user="somebody")
    lake.alter_table(NOTES, SetNullable("text", False))
    with pytest.raises(ConstraintViolation):
        lake.table(NOTES).write([{"id": 1, "text": None}], user="u")


def test_a_wider_type_takes_wider_values(lake: Lakehouse) -> None:
    lake.alter_table(NOTES, AddColumn(Column("n", "SMALLINT")))
    lake.table(NOTES).write([{"id": 1, "n": 5}], user="u")
    lake.flush(NOTES)
    lake.alter_table(NOTES, ModifyColumn("n", "BIGINT"))
    lake.table(NOTES).write([{"id": 2, "n": 2**40}], user="u")
    lake.flush(NOTES)
    assert [row["n"] for row in _read(lake)] == [5, 2**40]


@pytest.mark.disk
def test_the_storage_changes_only_while_nothing_is_cold(lake: Lakehouse, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="elsewhere"):
        lake.alter_table(NOTES, SetOptions({"STORAGE_ID": "elsewhere"}))
    lake.create_storage("elsewhere", type="filesystem", base=str(tmp_path / "elsewhere"))
    lake.alter_table(NOTES, SetOptions({"STORAGE_ID": "elsewhere"}))
    lake.table(NOTES).write(notes({1: "a"}), user="u")
    lake.flush(NOTES)
    assert (tmp_path / "elsewhere" / "chat" / "notes" / "u" / "_delta_log").is_dir()
    with pytest.raises(InUse, match="cold data"):
        lake.alter_table(NOTES, SetOptions({"STORAGE_ID": "local"}))


def test_the_access_level_of_a_shared_table_changes(lake: Lakehouse) -> None:
    lake.create_table("chat.plans", columns=[Column("id", "INT")], primary_key=["id"])
    assert lake.table("chat.plans").table.access_level == "PRIVATE"
    assert lake.alter_table("chat.plans", SetOptions({"ACCESS_LEVEL": "public"})).access_level == "PUBLIC"
    assert lake.table("chat.plans").table.access_level == "PUBLIC"


def test_a_stream_evolves_too(lake: Lakehouse) -> None:
    columns = [Column("id", "INT"), Column("what", "TEXT")]
    table = lake.create_table("chat.typing", type="STREAM", columns=columns, options={"TTL_SECONDS": "60"})
    table.write([{"id": 1, "what": "a"}], user="u")
    lake.alter_table("chat.typing", RenameColumn("what", "event"))
    lake.alter_table("chat.typing", DropColumn("id"))
    assert table.read(user="u").to_pylist() == [{"event": "a"}]
    assert lake.alter_table("chat.typing", SetOptions({"TTL_SECONDS": 5})).options.ttl_seconds == 5
    with pytest.raises(InvalidArgument, match="the last one"):
        lake.alter_table("chat.typing", DropColumn("event"))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (DropColumn("id"), InvalidArgument),
        (DropColumn("none"), InvalidArgument),
        (ModifyColumn("text", "INT"), InvalidArgument),
        (AddColumn(Column("n", "INT", nullable=False)), InvalidArgument),
        (SetOptions({"USE_USER_STORAGE": "maybe"}), InvalidArgument),
        (SetOptions({"FLUSH_POLICY": "sometimes"}), InvalidArgument),
    ],
)
def test_what_is_refused_changes_nothing(lake: Lakehouse, change: Alteration, error: type[LakewardenError]) -> None:
    before = lake.warehouse.catalog.read()
    with pytest.raises(error):
        lake.alter_table(NOTES, change)
    assert lake.warehouse.catalog.read() == before
    with pytest.raises(NotFound):
        lake.alter_table("chat.none", change)
