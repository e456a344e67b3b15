"""Each shape of a statement has K3's strategy (K3-77 to K3-95, D7)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlglot import exp

from lakewarden.base.scope import TableName
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn, Table, TableOptions, TableSchema, TableType
from lakewarden.errors import Unsupported
from lakewarden.sql.parse import parse
from lakewarden.sql.results import Rules, WriteStrategy
from lakewarden.sql.writing.shapes import SHAPES, RowWrite, WritePlan, plan_of

_COLUMNS = ("id", "user_id", "n", "event_type")
_KEYS = {"keyed": ("id", "user_id"), "single": ("id",), "keyless": (), "mine": ("id",), "stream": ()}
_TYPES: dict[str, TableType] = {"mine": "USER", "stream": "STREAM"}


def _table(name: str) -> Table:
    columns = tuple(SchemaColumn(at, each, ColumnType.parse("BIGINT"), True, None) for at, each in enumerate(_COLUMNS, 1))
    kind = _TYPES.get(name, "SHARED")
    schema = TableSchema(1, columns, _KEYS[name], kind == "STREAM")
    return Table(name, TableName("app", name), kind, TableOptions(), (schema,), "log", datetime(2026, 11, 22, tzinfo=UTC))


def _columns_of(node: exp.Table) -> tuple[str, ...] | None:
    return {"other": ("id", "user_id", "flag"), "single": _COLUMNS}.get(node.name)


def plan(text: str, rules: Rules = "native") -> WritePlan:
    (statement,) = parse(text)
    assert isinstance(statement, RowWrite)
    return plan_of(statement, _table(statement.table.name), rules, _columns_of)


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("INSERT INTO single VALUES (1, 2, 3, 4)", "KEYED_INSERT_SINGLE"),
        ("INSERT INTO single DEFAULT VALUES", "KEYED_INSERT_SINGLE"),
        ("INSERT INTO single VALUES (1, 2, 3, 4), (2, 2, 3, 4)", "KEYED_INSERT_BULK"),
        ("INSERT INTO single SELECT * FROM other", "KEYED_INSERT_FROM_SELECT"),
        ("INSERT INTO single SELECT * FROM (VALUES (1, 2, 3, 4)) v", "KEYED_INSERT_FROM_SELECT"),
        ("UPDATE keyed SET n = 1 WHERE id = 1 AND user_id = 2", "KEYED_UPDATE"),
        ("UPDATE keyed SET n = 1 WHERE ((2 = user_id) AND (keyed.ID = -1))", "KEYED_UPDATE"),
        ("UPDATE keyed k SET n = 1 WHERE (k.id, k.user_id) = (1, 2)", "KEYED_UPDATE"),
        ("UPDATE single SET n = 1 WHERE id = CAST('1' AS BIGINT) AND true", "KEYED_UPDATE"),
        ("UPDATE single SET n = 1 WHERE id BETWEEN 1 AND 9", "KEYED_RANGE"),
        ("UPDATE single SET n = 1 WHERE id IN (1, 2)", "KEYED_RANGE"),
        ("UPDATE single SET n = 1 WHERE id = 1 OR id = 2", "KEYED_RANGE"),
        ("UPDATE keyed SET n = 1 WHERE id > 0 AND user_id < 9", "KEYED_RANGE"),
        ("UPDATE keyed SET n = 1 WHERE id > 0", "KEYED_RANGE"),
        ("UPDATE single SET n = 1 WHERE id = (SELECT max(id) FROM other)", "KEYED_RANGE"),
        ("UPDATE single SET n = 1 WHERE id IN (SELECT id FROM other WHERE flag)", "KEYED_FROM_SUBQUERY"),
        ("UPDATE single SET n = 1 WHERE id IN (SELECT id FROM single WHERE n > 3)", "KEYED_FROM_SUBQUERY"),
        ("UPDATE single s SET n = 1 WHERE id IN (WITH o AS (SELECT 1 AS n) SELECT n FROM o)", "KEYED_FROM_SUBQUERY"),
        ("UPDATE keyed SET n = 1 WHERE (user_id, id) IN (SELECT 1, 2) AND id > 0", "KEYED_FROM_SUBQUERY"),
        ("UPDATE keyed SET n = 1 WHERE id IN (SELECT id FROM other)", "KEYED_RANGE"),
        ("DELETE FROM single WHERE id = 1", "KEYED_DELETE"),
        ("DELETE FROM single WHERE id >= 1", "KEYED_RANGE_DELETE"),
        ("DELETE FROM single WHERE id IN (SELECT id FROM other)", "KEYED_DELETE_FROM_SUBQUERY"),
        ("INSERT INTO keyless VALUES (1, 2, 3, 4)", "NON_KEYED_INSERT"),
        ("INSERT INTO keyless VALUES (1, 2, 3, 4), (1, 2, 3, 4)", "NON_KEYED_INSERT"),
        ("INSERT INTO keyless SELECT 1, 2, 3, 4", "NON_KEYED_INSERT_FROM_SELECT"),
        ("UPDATE keyless SET n = 1 WHERE id = 1", "NON_KEYED_UPDATE"),
        ("DELETE FROM keyless WHERE id = 1", "NON_KEYED_DELETE"),
        ("INSERT OVERWRITE keyed VALUES (1, 2, 3, 4)", "NON_KEYED_INSERT"),
        ("INSERT OVERWRITE TABLE keyless SELECT 1, 2, 3, 4", "NON_KEYED_INSERT_FROM_SELECT"),
        ("INSERT OVERWRITE mine VALUES (1, 2, 3, 4)", "KEYED_INSERT_BULK"),
        ("TRUNCATE TABLE keyed", "NON_KEYED_DELETE"),
        ("TRUNCATE mine", "KEYED_RANGE_DELETE"),
        ("INSERT INTO stream VALUES (1, 2, 3, 4)", "KEYED_INSERT_SINGLE"),
        ("DELETE FROM stream WHERE n = 1", "KEYED_RANGE_DELETE"),
        ("MERGE INTO single t USING (VALUES (1)) AS s(id) ON t.id = s.id WHEN MATCHED THEN DELETE", "MERGE_ROWS"),
        ("MERGE INTO mine t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE", "MERGE_QUERY"),
        ("MERGE INTO single t USING other ON t.id = other.id WHEN MATCHED THEN DELETE", "MERGE_TABLE"),
    ],
)
def test_both_rules_choose_alike(text: str, strategy: str) -> None:
    assert {plan(text, rules).strategy for rules in ("native", "k3")} == {WriteStrategy[strategy]}


@pytest.mark.parametrize(
    "where",
    [
        "id = 1 AND user_id = 2 AND event_type = 3",
        "id = 1 OR n = 2",
        "n = 1",
        "random() < 0.5 AND id > 0",
        "EXISTS (SELECT 1 FROM other WHERE flag = n)",
        "id IN (SELECT id FROM other WHERE other.flag = keyed.n)",
        "(id, n) IN (SELECT 1, 2)",
        "struct_pack(a := n).a = id",
        "keyed = 1",
        "true",
    ],
)
def test_what_is_not_on_the_key_alone_goes_into_delta_by_k_3_s_rules_and_through_the_log_by_ours(where: str) -> None:
    for verb, native, k3 in (
        ("UPDATE keyed SET n = 1", "KEYED_RANGE", "NON_KEYED_UPDATE"),
        ("DELETE FROM keyed", "KEYED_RANGE_DELETE", "NON_KEYED_DELETE"),
    ):
        ours, theirs = (plan(f"{verb} WHERE {where}", rules) for rules in ("native", "k3"))
        assert (ours.strategy.name, ours.in_log, ours.warnings) == (native, True, ())
        assert (theirs.strategy.name, theirs.in_log) == (k3, False)
        assert "flush" in theirs.warnings[0]
    assert plan(f"DELETE FROM mine WHERE {where.replace('keyed', 'mine')}", "k3").in_log


def test_k_3_takes_a_statement_without_where() -> None:
    assert plan("DELETE FROM keyed", "k3").strategy is WriteStrategy.NON_KEYED_DELETE
    assert plan("UPDATE keyed SET n = 1", "k3").why.startswith("it has no WHERE")


def test_the_reason_is_in_words_and_a_part_of_the_key_is_a_warning() -> None:
    assert plan("DELETE FROM keyed WHERE n = 1").why.startswith("n = 1 is on n, which is not in the key (id, user_id): ")
    partly = plan("DELETE FROM keyed WHERE id > 0")
    assert "on id of the key (id, user_id)" in partly.why
    assert partly.warnings == (partly.why,)
    assert plan("DELETE FROM keyed WHERE id > 0 AND user_id > 0").warnings == ()


def test_a_merge_needs_a_key() -> None:
    with pytest.raises(Unsupported, match="has no primary key"):
        plan("MERGE INTO keyless t USING other ON t.id = other.id WHEN MATCHED THEN DELETE")


def test_every_strategy_has_a_shape() -> None:
    assert {shape.strategy for shape in SHAPES} == set(WriteStrategy) - {WriteStrategy.UNSPECIFIED}
