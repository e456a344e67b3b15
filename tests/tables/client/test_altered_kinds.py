"""A client from before an ALTER, by kind of table and way in: what the search of test_altered.py would meet by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.errors import Conflict, ConstraintViolation, NotFound, SchemaChanged, StorageUnavailable
from lakewarden.log.table_log import TableLog
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectCommit
from tests.fixtures.lakes import lake_fixture

KEYLESS = "CREATE SHARED TABLE n.t (id BIGINT NOT NULL, a BIGINT, b BIGINT)"
KEYED = "CREATE SHARED TABLE n.t (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT)"
IMAGES = "CREATE DYNAMIC TABLE n.t (id BIGINT, a BIGINT, b BIGINT, PRIMARY KEY (id)) WITH ('log.changelog-mode' = 'all')"
SWAP = "ALTER TABLE n.t RENAME COLUMN a TO c; ALTER TABLE n.t RENAME COLUMN b TO a; ALTER TABLE n.t RENAME COLUMN c TO b"
NOT_NULL = "ALTER TABLE n.t ALTER COLUMN a SET NOT NULL"

Row = dict[str, object]


lake = lake_fixture(sql="CREATE NAMESPACE n")


@pytest.fixture
def other(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        yield opened


def rows(lake: Lakehouse) -> list[Row]:
    return sorted(lake.table("n.t").read().to_pylist(), key=lambda row: int(row["id"]))


def opened(lake: Lakehouse, table: str) -> TableClient:
    lake.sql(f"{table}; INSERT INTO n.t VALUES (1, 10, 11)")
    return lake.table("n.t")


@pytest.mark.parametrize("table", [KEYLESS, KEYED, IMAGES])
def test_rows_are_completed_anew(lake: Lakehouse, other: Lakehouse, table: str) -> None:
    client = opened(lake, table)
    other.sql("ALTER TABLE n.t ADD COLUMN x TEXT NOT NULL DEFAULT 'x'")
    client.write(iter([{"id": 2, "a": 20}]))
    client.write(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), [pa.record_batch({"id": [3]})]))
    other.sql("ALTER TABLE n.t ALTER COLUMN x SET DEFAULT 'y'; ALTER TABLE n.t DROP COLUMN b")
    client.write([{"id": 4}])
    assert [(row["id"], row["a"], row["x"]) for row in rows(other)] == [
        (1, 10, "x"),
        (2, 20, "x"),
        (3, None, "x"),
        (4, None, "y"),
    ]
    with pytest.raises(SchemaChanged, match="'b' was dropped"):
        client.write([{"id": 5, "b": 1}])


def test_a_table_without_a_key_takes_nothing_under_another_name(lake: Lakehouse, other: Lakehouse) -> None:
    client = opened(lake, KEYLESS)
    other.sql("ALTER TABLE n.t RENAME COLUMN a TO c")
    with pytest.raises(SchemaChanged):
        client.direct.append([pa.table({"id": [2], "a": [20], "b": [21]})])
    other.sql("ALTER TABLE n.t RENAME COLUMN b TO a; ALTER TABLE n.t RENAME COLUMN c TO b")
    client.write([{"id": 2, "a": 20, "b": 21}])
    client.write(pa.table({"id": [3], "a": [30]}))
    assert rows(other) == [{"id": 1, "b": 10, "a": 11}, {"id": 2, "b": 20, "a": 21}, {"id": 3, "b": 30, "a": None}]
    other.sql("ALTER TABLE n.t DROP COLUMN b; ALTER TABLE n.t ADD COLUMN b BIGINT")
    with pytest.raises(SchemaChanged, match="'a' was dropped"):
        client.write([{"id": 4, "a": 20, "b": 21}])
    client.write([{"id": 4, "b": 41}, {"id": 5}])
    assert [(row["a"], row["b"]) for row in rows(other)] == [(11, None), (21, None), (None, None), (41, None), (None, None)]
    assert client.log.direct_upto() is None


@pytest.mark.parametrize("table", [KEYLESS, KEYED, IMAGES])
def test_a_null_comes_into_no_column_that_is_not_null_since(lake: Lakehouse, other: Lakehouse, table: str) -> None:
    client, session = opened(lake, table), lake.session(user="ann", role="system")
    other.sql(NOT_NULL)
    for write in (
        lambda: client.write([{"id": 2}]),
        lambda: session.sql("INSERT INTO n.t (id) VALUES (2)"),
        lambda: lake.k3.insert("n", "t", [{"id": 2}]),
    ):
        with pytest.raises(ConstraintViolation):
            write()
    assert len(rows(other)) == 1


def test_a_table_with_before_images_takes_no_rows_of_older_columns(lake: Lakehouse, other: Lakehouse) -> None:
    client = opened(lake, IMAGES)
    batch = client._intake.upserts([{"id": 2}], None)
    other.sql(NOT_NULL)
    with pytest.raises(SchemaChanged):
        client.reader.appending.append(batch)
    assert len(rows(other)) == 1


@pytest.mark.slow
def test_another_table_of_the_same_name_gets_nothing(lake: Lakehouse, other: Lakehouse) -> None:
    for table in (KEYLESS, KEYED):
        client = opened(lake, table)
        other.sql("DROP TABLE n.t")
        other.sql(f"{table.replace('b BIGINT', 'z TEXT')}")
        with pytest.raises(NotFound):
            client.write([{"id": 2, "a": 20}])
        assert rows(other) == []
        other.sql("DROP TABLE n.t")


class Meant(Exception):
    """Any error that is none of ours."""


@pytest.mark.parametrize("error", [Meant, KeyError, KeyboardInterrupt, StorageUnavailable, Conflict])
def test_whatever_is_raised_the_note_is_closed(lake: Lakehouse, error: type[BaseException]) -> None:
    client = opened(lake, KEYLESS)

    def given() -> Iterator[pa.Table]:
        yield client.completed([{"id": 2}], user=None)
        raise error("while the rows were read")

    with pytest.raises(error):
        client.direct.append(given())
    assert client.log.direct_upto() is None
    assert len(rows(lake)) == 1


def test_a_note_whose_answer_was_lost_is_closed(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    client, open_direct = opened(lake, KEYLESS), TableLog.open_direct

    def loses(log: TableLog, write_id: str) -> bool:
        assert not open_direct(log, write_id)
        raise StorageUnavailable("the answer was lost")

    monkeypatch.setattr(TableLog, "open_direct", loses)
    with pytest.raises(StorageUnavailable):
        client.write([{"id": 2}])
    assert client.log.direct_upto() is None


@pytest.mark.parametrize("error", [Meant, StorageUnavailable])
def test_a_commit_that_may_appear_later_keeps_its_note(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    client = opened(lake, KEYLESS)

    def breaks(*_: object) -> None:
        raise error("the answer was lost")

    monkeypatch.setattr(DirectCommit, "_commit", breaks)
    with pytest.raises(error):
        client.write([{"id": 2}])
    assert client.log.direct_upto() is not None


def before_the_commit(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    draft = DirectCommit._draft

    def meets(*args: Any) -> Any:
        monkeypatch.setattr(DirectCommit, "_draft", draft)
        work()
        return draft(*args)

    monkeypatch.setattr(DirectCommit, "_draft", meets)


def test_a_null_on_its_way_past_the_log_is_refused(lake: Lakehouse, other: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    client = opened(lake, KEYLESS)
    before_the_commit(monkeypatch, lambda: other.sql(NOT_NULL))
    with pytest.raises(ConstraintViolation):
        client.write([{"id": 2}])
    assert len(rows(other)) == 1


def test_a_null_that_comes_while_a_column_becomes_not_null_undoes_it(
    lake: Lakehouse, other: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = opened(lake, KEYED)
    require = type(client.log).require_columns

    def meets(*args: Any) -> None:
        monkeypatch.setattr(type(client.log), "require_columns", require)
        client.reader.appending.append(client._intake.upserts([{"id": 2}], None))
        require(*args)

    monkeypatch.setattr(type(client.log), "require_columns", meets)
    with pytest.raises(ConstraintViolation, match="cannot become NOT NULL"):
        other.sql(NOT_NULL)
    client.write([{"id": 3}])
    assert [row["a"] for row in rows(other)] == [10, None, None]
