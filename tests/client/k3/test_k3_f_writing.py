"""K3.F: the sixteen strategies, and what they do to rows."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.errors import AlreadyExists, ConstraintViolation, LakewardenError, NotFound, Unsupported
from lakewarden.sql.results import WriteStrategy
from tests.client.k3.tables import BUCKET, event, kinds, make, run, strategy, version


@pytest.fixture
def table(k3: K3, request: pytest.FixtureRequest) -> str:
    """A keyed table of four pending rows, named after the test."""
    name = make(k3, request.node.name[:20])
    k3.insert(BUCKET, name, [event(number) for number in range(1, 5)])
    return name


@pytest.fixture
def drained(k3: K3, table: str) -> str:
    """The same table with its rows in Delta."""
    k3.compact(BUCKET, table)
    return table


@pytest.fixture
def keyless(k3: K3, request: pytest.FixtureRequest) -> str:
    name = make(k3, f"{request.node.name[:20]}_keyless", keyed=False)
    k3.insert(BUCKET, name, [event(1), event(2)])
    return name


def logged(answer: Any, rows: int) -> str:
    """The strategy of a write of this many rows, which is in the log and nowhere else."""
    assert (answer["rowsWritten"], answer["pendingDrain"], answer["version"]) == (str(rows), rows > 0, "0")
    return strategy(answer)


def direct(k3: K3, table: str, answer: Any, rows: int, before: int) -> str:
    """The strategy of a write of this many rows, which is the next commit."""
    assert (answer["rowsWritten"], answer["pendingDrain"], answer["version"]) == (str(rows), False, str(before + 1))
    assert version(k3, table) == before + 1
    return strategy(answer)


def test_k3_077_one_row_of_values(k3: K3, table: str) -> None:
    answer = run(k3, f"INSERT INTO {table} VALUES (9, 'u', 'x', NULL)")
    assert logged(answer, 1) == "KEYED_INSERT_SINGLE"


def test_k3_078_several_rows_of_values_and_the_call(k3: K3, table: str) -> None:
    answer = run(k3, f"INSERT INTO {table} VALUES (9, 'u', 'x', NULL), (10, 'u', 'x', NULL)")
    assert logged(answer, 2) == "KEYED_INSERT_BULK"
    assert logged(k3.insert(BUCKET, table, [event(11)]), 1) == "KEYED_INSERT_BULK"


def test_k3_079_rows_of_a_query(k3: K3, table: str) -> None:
    answer = run(k3, f"INSERT INTO {table} SELECT id + 10, user_id, event_type, payload FROM {table}")
    assert logged(answer, 4) == "KEYED_INSERT_FROM_SELECT"


def test_k3_080_update_of_one_key(k3: K3, table: str) -> None:
    for answer in (
        run(k3, f"UPDATE {table} SET event_type = 'x' WHERE user_id = 'u' AND id = 1"),
        k3.update(BUCKET, table, {"event_type": "y"}, "id = 1 AND user_id = 'u'"),
    ):
        assert logged(answer, 1) == "KEYED_UPDATE"
    assert kinds(k3, table)[1] == "y"


def test_k3_081_update_of_a_range_of_keys(k3: K3, table: str) -> None:
    for where in ("id BETWEEN 1 AND 2 AND user_id = 'u'", "id < 3 AND user_id = 'u'", "id IN (1, 2) AND user_id = 'u'"):
        answer = run(k3, f"UPDATE {table} SET event_type = event_type || '+' WHERE {where}")
        assert logged(answer, 2) == "KEYED_RANGE"
    nothing = run(k3, f"UPDATE {table} SET event_type = 'x' WHERE id > 100 AND user_id = 'u'")
    assert (strategy(nothing), nothing["noop"], nothing["rowsWritten"]) == ("KEYED_RANGE", True, "0")


def test_k3_082_update_of_keys_of_a_query(k3: K3, table: str) -> None:
    where = f"(id, user_id) IN (SELECT id, user_id FROM {table} WHERE id > 2)"
    assert logged(run(k3, f"UPDATE {table} SET event_type = 'x' WHERE {where}"), 2) == "KEYED_FROM_SUBQUERY"


def test_k3_083_delete_of_one_key(k3: K3, table: str) -> None:
    assert logged(k3.delete_rows(BUCKET, table, "id = 1 AND user_id = 'u'"), 1) == "KEYED_DELETE"
    assert kinds(k3, table).keys() == {2, 3, 4}


def test_k3_084_delete_of_a_range_of_keys(k3: K3, table: str) -> None:
    assert logged(run(k3, f"DELETE FROM {table} WHERE id <= 2 AND user_id = 'u'"), 2) == "KEYED_RANGE_DELETE"
    assert kinds(k3, table).keys() == {3, 4}


def test_k3_085_delete_of_keys_of_a_query(k3: K3, table: str) -> None:
    where = f"(id, user_id) IN (SELECT id, user_id FROM {table} WHERE id > 2)"
    assert logged(run(k3, f"DELETE FROM {table} WHERE {where}"), 2) == "KEYED_DELETE_FROM_SUBQUERY"
    assert kinds(k3, table).keys() == {1, 2}


@pytest.mark.slow
def test_k3_086_update_past_the_keys_is_a_commit_with_a_warning(k3: K3, drained: str, keyless: str) -> None:
    for name, where in ((drained, " WHERE event_type = 'click'"), (drained, ""), (keyless, " WHERE id = 1 OR true")):
        before = version(k3, name)
        answer = run(k3, f"UPDATE {name} SET event_type = event_type || '+'{where}")
        rows = 2 if name == keyless else 4
        assert direct(k3, name, answer, rows, before) == "NON_KEYED_UPDATE"
        assert "past the write log" in answer["warnings"][0]
        assert ("flush the table first" in answer["warnings"][0]) == (name != keyless)
    assert set(kinds(k3, drained, "EVENTUAL").values()) == {"click++"}


def test_k3_087_delete_past_the_keys_is_a_commit_with_a_warning(k3: K3, drained: str, keyless: str) -> None:
    for name, where, rows in ((drained, "event_type = 'click' AND id > 2", 2), (keyless, "id = 1", 1)):
        answer: Any = k3.delete_rows(BUCKET, name, where)
        assert direct(k3, name, answer, rows, 1) == "NON_KEYED_DELETE"
        assert "past the write log" in answer["warnings"][0]
    assert kinds(k3, drained, "EVENTUAL").keys() == {1, 2}


def test_k3_088_insert_without_keys_is_a_commit(k3: K3, keyless: str) -> None:
    assert direct(k3, keyless, k3.insert(BUCKET, keyless, [event(3)]), 1, 1) == "NON_KEYED_INSERT"
    values = run(k3, f"INSERT INTO {keyless} VALUES (4, 'u', 'x', NULL), (4, 'u', 'x', NULL)")
    assert direct(k3, keyless, values, 2, 2) == "NON_KEYED_INSERT"
    assert run(k3, f"SELECT count(*) AS n FROM {keyless}", "FRESHNESS_EVENTUAL")["rows"] == [{"n": 5}]


def test_k3_089_insert_of_a_query_without_keys(k3: K3, keyless: str) -> None:
    answer = run(k3, f"INSERT INTO {keyless} SELECT id + 10, user_id, event_type, payload FROM {keyless}")
    assert direct(k3, keyless, answer, 2, 1) == "NON_KEYED_INSERT_FROM_SELECT"


ON = "ON t.id = s.id AND t.user_id = s.user_id WHEN MATCHED THEN UPDATE SET event_type = 'merged'"


def test_k3_090_merge_of_rows(k3: K3, table: str) -> None:
    values = "(VALUES (1, 'u'), (9, 'u')) AS s(id, user_id)"
    added = "WHEN NOT MATCHED THEN INSERT (id, user_id, event_type) VALUES (s.id, s.user_id, 'new')"
    assert logged(run(k3, f"MERGE INTO {table} t USING {values} {ON} {added}"), 2) == "MERGE_ROWS"
    given = [{"id": 2, "user_id": "u", "event_type": "call"}, {"id": 10, "user_id": "u", "event_type": "call"}]
    assert logged(k3.merge(BUCKET, table, given), 2) == "MERGE_ROWS"
    assert kinds(k3, table) == {1: "merged", 2: "call", 3: "click", 4: "click", 9: "new", 10: "call"}


def test_k3_091_merge_of_a_query(k3: K3, table: str) -> None:
    answer = run(k3, f"MERGE INTO {table} t USING (SELECT id, user_id FROM {table} WHERE id > 2) s {ON}")
    assert logged(answer, 2) == "MERGE_QUERY"


def test_k3_092_merge_of_a_table(k3: K3, table: str) -> None:
    other = make(k3, "merge_source")
    k3.insert(BUCKET, other, [event(4)])
    assert logged(run(k3, f"MERGE INTO {table} t USING {other} s {ON}"), 1) == "MERGE_TABLE"
    assert kinds(k3, table)[4] == "merged"


def test_k3_093_the_strategies_have_k3s_numbers() -> None:
    numbers = {each.name: each.value for each in WriteStrategy}
    assert (numbers["UNSPECIFIED"], numbers["NON_KEYED_DELETE"], numbers["MERGE_ROWS"], numbers["MERGE_TABLE"]) == (0, 11, 12, 14)
    assert (numbers["NON_KEYED_INSERT"], numbers["NON_KEYED_INSERT_FROM_SELECT"], len(numbers)) == (15, 16, 17)


@pytest.mark.slow
def test_k3_094_a_condition_on_another_column_is_not_keyed(k3: K3, drained: str) -> None:
    for where in ("id = 1 AND user_id = 'u' AND event_type = 'click'", "id = 1 OR event_type = 'x'"):
        assert strategy(run(k3, f"UPDATE {drained} SET payload = '1' WHERE {where}")) == "NON_KEYED_UPDATE"
        assert strategy(run(k3, f"DELETE FROM {drained} WHERE ({where}) AND false")) == "NON_KEYED_DELETE"


def test_k3_095_a_part_of_the_key_is_a_range_with_a_warning(k3: K3, table: str) -> None:
    answer = run(k3, f"UPDATE {table} SET event_type = 'x' WHERE id > 2")
    assert logged(answer, 2) == "KEYED_RANGE"
    assert "on id of the key (id, user_id)" in answer["warnings"][0]


def test_k3_096_a_pending_row_replaces_what_a_direct_write_did(k3: K3, drained: str) -> None:
    k3.update(BUCKET, drained, {"event_type": "pending"}, "id = 1 AND user_id = 'u'")
    answer: Any = k3.update(BUCKET, drained, {"event_type": "direct"}, "event_type = 'click'")
    assert "will replace" in answer["warnings"][0]
    assert kinds(k3, drained, "EVENTUAL")[1] == "direct"
    k3.compact(BUCKET, drained)
    assert kinds(k3, drained, "EVENTUAL") == {1: "pending", 2: "direct", 3: "direct", 4: "direct"}


def test_k3_097_after_a_compact_a_direct_write_stays(k3: K3, drained: str) -> None:
    k3.update(BUCKET, drained, {"event_type": "pending"}, "id = 1 AND user_id = 'u'")
    k3.compact(BUCKET, drained)
    k3.update(BUCKET, drained, {"event_type": "direct"}, "event_type = 'pending'")
    k3.insert(BUCKET, drained, [event(9)])
    k3.compact(BUCKET, drained)
    assert kinds(k3, drained, "EVENTUAL")[1] == "direct"


@pytest.mark.slow
def test_k3_098_a_drain_needs_no_call_of_the_writer(lake: Lakehouse) -> None:
    k3 = lake.k3
    make(k3, "due")
    k3.execute(BUCKET, "CREATE TABLE due_by_sql (id LONG PRIMARY KEY)")
    k3.execute(BUCKET, "CREATE TABLE due_later (id LONG PRIMARY KEY) WITH (FLUSH_POLICY = 'rows:9')")
    for table in ("due", "due_by_sql", "due_later"):
        k3.insert(BUCKET, table, [event(1) if table == "due" else {"id": 1}])
    lake.flush_scopes([one.pending.scope for one in lake.due()])  # what the sensor requests
    found = [run(k3, f"SELECT id FROM {table}", "FRESHNESS_EVENTUAL")["rows"] for table in ("due", "due_by_sql", "due_later")]
    assert found == [[{"id": 1}], [{"id": 1}], []]


def test_k3_099_of_one_key_the_last_write_counts(k3: K3, drained: str) -> None:
    k3.insert(BUCKET, drained, [event(10, "first")])
    k3.insert(BUCKET, drained, [event(10, "later")])
    k3.insert(BUCKET, drained, [event(11)])
    k3.delete_rows(BUCKET, drained, "id = 11 AND user_id = 'u'")
    k3.delete_rows(BUCKET, drained, "id = 1 AND user_id = 'u'")
    k3.insert(BUCKET, drained, [event(1, "again")])
    missing = k3.update(BUCKET, drained, {"event_type": "x"}, "id = 99 AND user_id = 'u'")
    assert missing["rowsWritten"] == "0"
    expected = {1: "again", 2: "click", 3: "click", 4: "click", 10: "later"}
    assert kinds(k3, drained) == expected
    k3.compact(BUCKET, drained)
    assert kinds(k3, drained, "EVENTUAL") == expected


def test_later_rows_win_in_one_call_and_in_a_table_of_sql_that_refuses_they_fail(k3: K3, lake: Lakehouse) -> None:
    make(k3, "later")
    k3.insert(BUCKET, "later", [event(1, "first"), event(1, "later")])
    assert kinds(k3, "later") == {1: "later"}
    lake.sql(f'CREATE SHARED TABLE "{BUCKET}".native (id BIGINT PRIMARY KEY)')
    k3.insert(BUCKET, "native", [{"id": 1}])
    with pytest.raises(ConstraintViolation, match="already"):
        k3.insert(BUCKET, "native", [{"id": 1}])


@pytest.mark.slow
def test_k3_100_overwrite_and_the_actions_of_a_merge(k3: K3, drained: str) -> None:
    k3.insert(BUCKET, drained, [event(5, "pending")])
    answer = k3.insert(BUCKET, drained, [event(7), event(8)], mode="overwrite")
    assert (strategy(answer), answer["rowsWritten"], answer["pendingDrain"]) == ("NON_KEYED_INSERT", "2", False)
    assert kinds(k3, drained, "EVENTUAL") == kinds(k3, drained) == {7: "click", 8: "click"}
    k3.merge(BUCKET, drained, [event(7, "x"), event(9, "x")], when_not_matched="ignore")
    assert kinds(k3, drained) == {7: "x", 8: "click"}
    k3.merge(BUCKET, drained, [event(7), event(10, "new")], when_matched="delete")
    assert kinds(k3, drained) == {8: "click", 10: "new"}
    with pytest.raises(LakewardenError, match="upsert"):
        k3.merge(BUCKET, drained, [event(7)], when_matched="upsert")
    with pytest.raises(ConstraintViolation):
        k3.insert(BUCKET, drained, [event(1), event(1)], mode="overwrite")
    emptied = k3.insert(BUCKET, drained, [], mode="overwrite")
    assert (emptied["rowsWritten"], emptied["noop"], emptied["version"] != "0") == ("0", False, True)
    assert kinds(k3, drained) == {}


@pytest.mark.slow
def test_k3_101_tables_are_defined_by_sql(k3: K3) -> None:
    made = run(k3, "CREATE TABLE by_sql (id LONG, v STRING, PRIMARY KEY (id))")
    assert made == {"op": "create_table", "targetTable": "by_sql", "version": "0"}
    assert k3.get_table(BUCKET, "by_sql")["mergeKeys"] == ["id"]
    run(k3, "INSERT INTO by_sql VALUES (1, 'a')")
    run(k3, "INSERT INTO by_sql VALUES (1, 'b')")
    made = run(k3, "CREATE TABLE by_query AS SELECT id, v, 1.5 AS d FROM by_sql")
    assert (made["op"], run(k3, "SELECT * FROM by_query", "FRESHNESS_EVENTUAL")["rows"]) == (
        "create_table_as_select",
        [{"id": 1, "v": "b", "d": 1.5}],
    )
    altered = run(k3, "ALTER TABLE by_sql ADD COLUMN n INT, ADD COLUMN m INT")
    assert altered == {"op": "alter_table", "targetTable": "by_sql", "version": "1"}
    run(k3, "ALTER TABLE by_sql ADD COLUMNS (o INT, p STRING)")
    run(k3, "INSERT INTO by_sql VALUES (2, 'c', 3, 4, 5, 'd')")
    assert run(k3, "SELECT n, m, o, p FROM by_sql ORDER BY id")["rows"] == [
        {"n": None, "m": None, "o": None, "p": None},
        {"n": 3, "m": 4, "o": 5, "p": "d"},
    ]
    with pytest.raises(AlreadyExists):
        run(k3, "ALTER TABLE by_sql ADD COLUMN q INT, o INT")
    assert run(k3, "SELECT * FROM by_sql LIMIT 0")["columns"] == ["id", "v", "n", "m", "o", "p"], "all columns or none"
    for change in ("DROP COLUMN n", "RENAME COLUMN n TO o"):
        with pytest.raises(Unsupported, match="drops and renames no column"):
            run(k3, f"ALTER TABLE by_sql {change}")
    assert run(k3, "DROP TABLE by_sql") == {"op": "drop_table", "targetTable": "by_sql"}


def test_k3_101_a_table_of_a_query_has_k3s_types(k3: K3) -> None:
    make(k3, "summed")
    k3.insert(BUCKET, "summed", [event(1), event(2)])
    run(k3, "CREATE TABLE sums AS SELECT event_type, count(*) AS n, sum(id) AS s, avg(id) AS a, 1.5 AS d FROM summed GROUP BY 1")
    kinds_of = [column["type"].removeprefix("COLUMN_TYPE_") for column in k3.get_table(BUCKET, "sums")["columns"]]
    assert kinds_of == ["STRING", "LONG", "LONG", "DOUBLE", "DOUBLE"]
    assert run(k3, "SELECT * FROM sums")["rows"] == [{"event_type": "click", "n": 2, "s": 3, "a": 1.5, "d": 1.5}]
    with pytest.raises(ConstraintViolation, match="BIGINT"):
        run(k3, "CREATE TABLE too_large AS SELECT sum(9223372036854775807) AS s FROM summed")
    with pytest.raises(NotFound):
        k3.get_table(BUCKET, "too_large")
