"""`delta('URI')` in FROM: tables of others, for the operator alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakewarden import Lakehouse
from lakewarden.errors import InvalidArgument, LakewardenError, NotFound, PermissionDenied, Unsupported
from lakewarden.sql.results import ResultRows
from tests.delta.hand_written import HandWritten, add, bitmap, inline


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "warehouse")) as opened:
        yield opened


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Two versions of a table that delta-rs wrote, and which no catalog has."""
    path = tmp_path / "there's one" / "t"
    for number in range(2):
        made = pa.table({"id": [number], "name": [f"n{number}"], "p": ["a b"]})
        write_deltalake(path, made, mode="append", partition_by=["p"])
    return str(path).replace("'", "''")


def rows(lake: Lakehouse, query: str) -> list[tuple[object, ...]]:
    found = lake.sql(query)[-1]
    assert isinstance(found, ResultRows)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_rows_of_the_newest_version_and_of_an_older_one(lake: Lakehouse, place: str) -> None:
    assert rows(lake, f"SELECT * FROM delta('{place}') ORDER BY id") == [(0, "n0", "a b"), (1, "n1", "a b")]
    assert rows(lake, f"SELECT count(*) FROM delta('{place}', version => 0)") == [(1,)]
    assert rows(lake, f"SELECT d.name FROM DELTA('file://{place.replace(' ', '%20')}') AS d WHERE id = 1") == [("n1",)]
    assert rows(lake, f"SELECT max(id) FROM delta('{place}', timestamp => '2999-01-01')") == [(1,)]


def test_it_joins_with_tables_and_with_itself(lake: Lakehouse, place: str) -> None:
    lake.sql("CREATE NAMESPACE app; CREATE SHARED TABLE app.t (id BIGINT PRIMARY KEY, v TEXT); INSERT INTO app.t VALUES (1, 'v')")
    query = f"SELECT name, v FROM delta('{place}') d JOIN app.t ON app.t.id = d.id"
    assert rows(lake, query) == [("n1", "v")]
    both = f"SELECT a.id, b.id FROM delta('{place}', version => 0) a, delta('{place}') b WHERE b.id IN (SELECT id FROM app.t)"
    assert rows(lake, both) == [(0, 1)]
    assert rows(lake, f"SELECT v FROM delta('{place}') JOIN app.t USING (id)") == [("v",)]
    assert rows(lake, f"WITH c AS (SELECT id i FROM delta('{place}')) SELECT sum(i) FROM c") == [(1,)]
    assert rows(lake, f"SELECT n FROM delta('{place}') AS x(i, n) WHERE i = 0") == [("n0",)]
    lake.sql(f"INSERT INTO app.t SELECT id + 10, name FROM delta('{place}')")
    assert rows(lake, "SELECT id FROM app.t ORDER BY id") == [(1,), (10,), (11,)]


def test_rows_that_a_vector_deletes_are_not_there(lake: Lakehouse, tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("a.parquet", [1, 2, 3], vector=inline(bitmap([1]), 1)), features=("deletionVectors",))
    assert rows(lake, f"SELECT id FROM delta('{table.path}')") == [(1,), (3,)]


@pytest.mark.parametrize("role", ["dba", "service", "user"])
def test_it_is_for_the_operator_alone(lake: Lakehouse, place: str, role: str) -> None:
    with pytest.raises(PermissionDenied, match="only the operator"):
        lake.sql(f"SELECT * FROM delta('{place}')", user="u", role=role)


def test_the_operator_in_a_users_place_is_no_operator(lake: Lakehouse, place: str) -> None:
    with pytest.raises(PermissionDenied, match="only the operator"):
        lake.sql(f"EXECUTE AS USER 'u' (SELECT * FROM delta('{place}'))")


def test_no_view_has_one(lake: Lakehouse, place: str) -> None:
    lake.sql("CREATE NAMESPACE app")
    with pytest.raises(LakewardenError):
        lake.sql(f"CREATE VIEW app.v AS SELECT * FROM delta('{place}'); SELECT * FROM app.v")


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "1",
        "'a', 'b'",
        "'a', version => 'x'",
        "'a', version => -1",
        "'a', version => 1, timestamp => '2024-01-01'",
        "'a', x => 1",
    ],
)
def test_wrong_arguments_are_refused(lake: Lakehouse, arguments: str) -> None:
    with pytest.raises(InvalidArgument):
        lake.sql(f"SELECT * FROM delta({arguments})")


def test_what_cannot_be_read_is_named(lake: Lakehouse, tmp_path: Path, place: str) -> None:
    with pytest.raises(NotFound, match="no Delta table"):
        lake.sql(f"SELECT * FROM delta('{tmp_path}')")
    with pytest.raises(NotFound, match="the newest is 1"):
        lake.sql(f"SELECT * FROM delta('{place}', version => 9)")
    table = HandWritten(tmp_path / "t")
    table.begin(add("../warehouse/x.parquet"))
    with pytest.raises(Unsupported, match="outside-path"):
        lake.sql(f"SELECT * FROM delta('{table.path}')")
