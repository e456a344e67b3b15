from __future__ import annotations

import pytest

from lakewarden.catalog.evolution import (
    AddColumn,
    Alteration,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SetDefault,
    SetNullable,
    SetOptions,
    altered,
)
from lakewarden.catalog.model import Catalog, Column, FlushPolicy, Table
from lakewarden.catalog.store import CatalogVersion, decode, encode
from lakewarden.errors import AlreadyExists, InvalidArgument
from tests.catalog.build import NOW, table


def _after(*changes: Alteration) -> Table:
    found = table("app.t")
    for change in changes:
        found = altered(found, change, NOW)
    return found


def _ids(found: Table) -> dict[str, int]:
    return {column.name: column.id for column in found.schema.columns}


def test_every_version_is_kept_and_no_id_is_used_again() -> None:
    found = _after(AddColumn(Column("n", "INT")), DropColumn("n"), AddColumn(Column("n", "INT")), RenameColumn("content", "body"))
    assert [schema.version for schema in found.schemas] == [1, 2, 3, 4, 5]
    assert [list(schema.names) for schema in found.schemas] == [
        ["id", "content"],
        ["id", "content", "n"],
        ["id", "content"],
        ["id", "content", "n"],
        ["id", "body", "n"],
    ]
    assert _ids(found) == {"id": 1, "body": 2, "n": 4}
    catalog = Catalog(tables={found.name: found})
    assert decode(encode(CatalogVersion(catalog, (), NOW)), "test").catalog == catalog


def test_the_last_column_s_id_is_not_used_again_either() -> None:
    assert _ids(_after(DropColumn("content"), AddColumn(Column("content", "TEXT"))))["content"] == 3


def test_a_renamed_key_stays_the_key() -> None:
    found = _after(RenameColumn("id", "key"))
    assert found.schema.primary_key == ("key",)
    assert altered(found, RenameColumn("key", "KEY"), NOW).schema.primary_key == ("KEY",)


@pytest.mark.parametrize(
    "change",
    [
        RenameColumn("content", "content"),
        ModifyColumn("content", "STRING"),
        ModifyColumn("id", "BIGINT", nullable=False),
        SetNullable("content", True),
        SetDefault("content", None),
        AddColumn(Column("CONTENT", "INT"), if_not_exists=True),
        SetOptions({"COMPRESSION": "snappy"}),
    ],
)
def test_what_changes_nothing_makes_no_version(change: Alteration) -> None:
    assert _after(change) == table("app.t")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SMALLINT", "INT"),
        ("SMALLINT", "BIGINT"),
        ("INT", "BIGINT"),
        ("FLOAT", "DOUBLE"),
        ("DECIMAL(5,2)", "DECIMAL(10,2)"),
        ("DECIMAL(5,2)", "DECIMAL(8,4)"),
    ],
)
def test_a_type_becomes_wider(before: str, after: str) -> None:
    found = _after(AddColumn(Column("n", before, default="7")), ModifyColumn("n", after))
    column = found.schema.column("n")
    assert column is not None
    assert (str(column.type), column.default) == (after, "7")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("INT", "SMALLINT"),
        ("BIGINT", "INT"),
        ("DOUBLE", "FLOAT"),
        ("INT", "TEXT"),
        ("INT", "DOUBLE"),
        ("TEXT", "INT"),
        ("DATE", "TIMESTAMP"),
        ("TEXT", "BYTES"),
        ("DECIMAL(5,2)", "DECIMAL(5,3)"),
        ("DECIMAL(5,2)", "DECIMAL(4,2)"),
        ("DECIMAL(5,2)", "DECIMAL(10,1)"),
    ],
)
def test_no_other_type_will_do(before: str, after: str) -> None:
    with pytest.raises(InvalidArgument, match="only wider types"):
        _after(AddColumn(Column("n", before)), ModifyColumn("n", after))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (AddColumn(Column("n", "INT", nullable=False)), "needs a DEFAULT"),
        (AddColumn(Column("n", "INTT")), "unknown column type"),
        (AddColumn(Column("_seq", "INT")), "reserved"),
        (AddColumn(Column("n", "INT", nullable=False, default="NULL")), "default NULL"),
        (DropColumn("id"), "in the primary key"),
        (DropColumn("none"), "there is no column 'none'"),
        (DropColumn("_seq"), "there is no column '_seq'"),
        (RenameColumn("none", "n"), "there is no column"),
        (RenameColumn("content", "_seq"), "reserved"),
        (RenameColumn("content", "1st"), "beginning with a letter"),
        (ModifyColumn("id", "SMALLINT"), "in the primary key"),
        (ModifyColumn("id", "BIGINT", nullable=True), "in the primary key"),
        (SetNullable("id", True), "in the primary key"),
        (SetNullable("none", True), "there is no column"),
        (SetDefault("content", "SOON()"), "unknown default"),
        (SetDefault("id", "'x'"), "does not fit"),
        (SetOptions({}), "at least one property"),
        (SetOptions({"TTL_SECONDS": "5"}), "only supported for STREAM"),
    ],
)
def test_what_is_refused(change: Alteration, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        _after(change)


@pytest.mark.parametrize("change", [AddColumn(Column("Content", "INT")), RenameColumn("content", "ID")])
def test_a_name_is_taken_in_any_case(change: Alteration) -> None:
    with pytest.raises(AlreadyExists):
        _after(change)


def test_not_null_comes_and_goes_and_takes_no_null_default() -> None:
    found = _after(AddColumn(Column("n", "INT", nullable=False, default="1")))
    added = found.schema.column("n")
    assert added is not None
    assert (added.nullable, added.null_before) == (False, True)
    with pytest.raises(InvalidArgument, match="NOT NULL"):
        altered(found, SetDefault("n", "NULL"), NOW)
    loosened = altered(found, SetNullable("n", True), NOW).schema.column("n")
    assert loosened is not None
    assert (loosened.nullable, loosened.null_before) == (True, False)
    with pytest.raises(InvalidArgument, match="NOT NULL"):
        _after(SetDefault("content", "NULL"), SetNullable("content", False))


def test_options_change_without_a_schema_version() -> None:
    found = _after(SetOptions({"FLUSH_POLICY": "rows:5"}))
    assert (found.options.flush_policy, len(found.schemas)) == (FlushPolicy(5, None), 1)
