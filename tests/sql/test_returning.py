"""RETURNING: the rows that a statement writes or removes, as they are behind it; and nothing is written where it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.session import SqlSession

KINDS = {
    "users": ("USER TABLE", ""),
    "shared": ("SHARED TABLE", ""),
    "parts": ("SHARED TABLE", "PARTITION BY (kind)"),
    "dynamic": ("DYNAMIC TABLE", "WITH ('bucket' = '2', 'log.changelog-mode' = 'all')"),
}
_COLUMNS = (
    "id BIGINT, kind TEXT NOT NULL DEFAULT 'k', n INT DEFAULT 7, data JSON, at TIME, amount DECIMAL(8, 2), PRIMARY KEY (id)"
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.create_namespace("n")
        for name, (kind, more) in KINDS.items():
            opened.sql(f"CREATE {kind} n.{name} ({_COLUMNS}) {more}")
        opened.sql("CREATE STREAM TABLE n.stream (id BIGINT PRIMARY KEY, body TEXT) WITH (TTL_SECONDS = 3600)")
        opened.sql("CREATE SHARED TABLE n.keyless (id BIGINT, body TEXT)")
        yield opened


@pytest.fixture
def ann(lake: Lakehouse) -> SqlSession:
    return lake.session(user="ann", role="system")


def written(session: SqlSession, text: str) -> AffectedRows:
    found = session.sql(text)[-1]
    assert isinstance(found, AffectedRows)
    return found


def returned(session: SqlSession, text: str) -> list[tuple[Any, ...]]:
    found = written(session, text).returned
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("table", KINDS)
def test_rows_are_returned_as_they_are_behind_the_statement(lake: Lakehouse, ann: SqlSession, table: str) -> None:
    insert = f"INSERT INTO n.{table} (id, data, at, amount) VALUES (1, '{{\"a\": [1]}}', '09:30', 1.5), (2, NULL, NULL, NULL)"
    found = written(ann, f"{insert} RETURNING *, data->>'$.a[0]' AS a, {table}.n + 1, n.{table}.kind || '!' AS loud")
    assert found.returned is not None
    assert found.returned.columns == ["id", "kind", "n", "data", "at", "amount", "a", f"({table}.n + 1)", "loud"]
    rows = [tuple(map(str, row.values())) for row in found.returned.to_pylist()]
    assert rows[0] == ("1", "k", "7", '{"a": [1]}', "34200000000", "1.50", "1", "8", "k!")
    assert (found.rows, found.found) == (2, 2)
    for number in range(2):  # hot, then cold
        assert returned(ann, f"UPDATE n.{table} AS t SET n = t.n + 1, amount = 2 WHERE id = 1 RETURNING t.id, n, amount")[0][
            :2
        ] == (1, 8 + number)
        same = written(ann, f"UPDATE n.{table} SET n = {8 + number} WHERE id = 1 RETURNING n")
        assert (same.rows, same.found, same.returned and same.returned.to_pylist()) == (0, 1, [{"n": 8 + number}])
        lake.flush(f"n.{table}", user="ann" if table == "users" else None)
    upsert = f"INSERT INTO n.{table} (id, n) VALUES (1, 9), (3, 5) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING id, n"
    assert sorted(returned(ann, upsert)) == [(1, 9), (3, 5)]
    assert sorted(returned(ann, upsert)) == [(1, 9), (3, 5)], "also rows that had the values already"
    assert returned(ann, f"INSERT INTO n.{table} (id) VALUES (1), (4) ON CONFLICT DO NOTHING RETURNING id") == [(4,)]
    assert returned(ann, f"INSERT INTO n.{table} (id, n) SELECT id + 10, n FROM n.{table} WHERE id = 1 RETURNING id, n") == [
        (11, 9)
    ]
    assert returned(ann, f"UPDATE n.{table} SET n = 0 WHERE id = 99 RETURNING id") == []
    assert sorted(returned(ann, f"DELETE FROM n.{table} WHERE n < 8 RETURNING id, id, kind")) == [
        (2, 2, "k"),
        (3, 3, "k"),
        (4, 4, "k"),
    ]
    assert sorted(returned(ann, f"DELETE FROM n.{table} WHERE true RETURNING {table}.id, n")) == [(1, 9), (11, 9)]
    assert returned(ann, f"DELETE FROM n.{table} WHERE true RETURNING *") == []


def test_rows_of_a_stream_and_without_a_key_are_returned(ann: SqlSession) -> None:
    assert returned(ann, "INSERT INTO n.stream VALUES (1, 'a'), (1, 'b'), (2, 'c') RETURNING body") == [("a",), ("b",), ("c",)]
    assert sorted(returned(ann, "DELETE FROM n.stream WHERE id = 1 RETURNING *")) == [(1, "a"), (1, "b")]
    found = written(ann, "INSERT INTO n.keyless VALUES (1, 'a') RETURNING body")
    assert (found.version, found.returned and found.returned.to_pylist()) == (1, [{"body": "a"}])
    for text in ("UPDATE n.keyless SET body = 'z' WHERE id = 1", "DELETE FROM n.keyless WHERE id = 1"):
        with pytest.raises(Unsupported, match="straight into Delta"):
            ann.sql(f"{text} RETURNING body")
    assert [row["body"] for row in ann.sql("SELECT body FROM n.keyless")[0].to_pylist()] == ["a"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("CAST('x' AS INT)", InvalidArgument),
        ("missing", InvalidArgument),
        ("count(*)", Unsupported),
        ("row_number() OVER ()", Unsupported),
        ("(SELECT 1)", Unsupported),
        ("_seq", Unsupported),
        ("read_text('/etc/passwd')", PermissionDenied),
    ],
)
def test_what_cannot_be_returned_leaves_nothing(ann: SqlSession, what: str, error: type[LakewardenError]) -> None:
    ann.sql("DELETE FROM n.shared WHERE true; INSERT INTO n.shared (id) VALUES (1)")
    for text in (
        "INSERT INTO n.shared (id) VALUES (2)",
        "INSERT INTO n.shared (id) VALUES (1) ON CONFLICT DO UPDATE SET n = 0",
        "UPDATE n.shared SET n = 0 WHERE id = 1",
        "DELETE FROM n.shared WHERE id = 1",
    ):
        with pytest.raises(error):
            ann.sql(f"{text} RETURNING {what}")
    assert ann.sql("SELECT id, n FROM n.shared")[0].to_pylist() == [{"id": 1, "n": 7}]  # type: ignore[union-attr]


def test_who_may_not_read_is_returned_nothing(lake: Lakehouse) -> None:
    """An INSERT alone reads nothing; RETURNING reads the row, and is within the rights of a SELECT."""
    bob = lake.session(user="bob", role="user")
    for text in ("INSERT INTO n.shared (id) VALUES (5) RETURNING id", "SELECT id FROM n.shared"):
        with pytest.raises(PermissionDenied):
            bob.sql(text)


@pytest.mark.parametrize("text", ["INSERT OVERWRITE n.keyless VALUES (1, 'a') RETURNING id", "TRUNCATE n.keyless RETURNING id"])
def test_statements_without_it_say_so(ann: SqlSession, text: str) -> None:
    with pytest.raises(LakewardenError):
        ann.sql(text)
    assert written(ann, "DELETE FROM n.keyless WHERE false").rows == 0
