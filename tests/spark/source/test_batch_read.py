"""What `spark.read.format("lakewarden")` returns: each row once, whatever is hot and what is cold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNull, LessThanOrEqual
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import SparkSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.buckets import bucket_of
from lakewarden.errors import InvalidArgument
from lakewarden.spark.batch_read import ScopePack
from lakewarden.spark.options import ReadOptions
from tests.fixtures.examples import examples
from tests.fixtures.lakes import lake_fixture
from tests.spark.source.reading import read, reader, rows_of

_TABLES = """
CREATE NAMESPACE app;
CREATE USER TABLE app.notes (id INT PRIMARY KEY, text TEXT);
CREATE SHARED TABLE app.items (id INT PRIMARY KEY, text TEXT);
CREATE STREAM TABLE app.events (id INT PRIMARY KEY, text TEXT) WITH (TTL_SECONDS = 3600);
"""


lake = lake_fixture(sql=_TABLES)


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("oracle") / "warehouse")) as opened:
        opened.sql("CREATE NAMESPACE app")
        yield opened


_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["x", "y", None])),
        st.sampled_from(["flush", "compact"]),
    ),
    max_size=12,
)


@settings(max_examples=examples(12), deadline=None)
@given(steps=_steps)
def test_a_merged_read_equals_an_oracle(aged: Lakehouse, steps: list[str | tuple[str, int, str | None]]) -> None:
    name = f"app.t{aged.warehouse.new_id()}"
    aged.sql(f"CREATE USER TABLE {name} (id INT PRIMARY KEY, text TEXT)")
    live: dict[tuple[str, int], str] = {}
    flushed: dict[tuple[str, int], str] = {}
    for step in steps:
        if isinstance(step, tuple):
            user, key, text = step
            if text is None:
                aged.table(name).delete([{"id": key}], user=user)
                live.pop((user, key), None)
            else:
                aged.table(name).write([{"id": key, "text": text}], user=user)
                live[user, key] = text
        elif step == "flush":
            aged.flush(name)
            flushed = dict(live)
        else:
            aged.compact(name)
    for freshness, wanted in (("strong", live), ("eventual", flushed)):
        found = read(aged, name, freshness=freshness)
        assert len(found) == len(wanted)
        assert {(row["_user"], row["id"]): row["text"] for row in found} == wanted


def test_users_are_chosen_by_options_and_by_filters(lake: Lakehouse) -> None:
    notes = lake.table("app.notes")
    for user in ("a", "b", "c,d"):
        notes.write([{"id": 1, "text": user}], user=user)
    lake.flush("app.notes")
    chosen = {
        "b": read(lake, "app.notes", user="b"),
        "a b": read(lake, "app.notes", users="a, b"),
        "c,d": read(lake, "app.notes", users='["c,d"]'),
        "a": read(lake, "app.notes", [EqualTo(("_user",), "a")], users="a,b"),
        "": read(lake, "app.notes", [In(("_user",), ("c,d", "x")), EqualTo(("_user",), "a")]),
    }
    assert {users: " ".join(sorted(str(row["text"]) for row in rows)) for users, rows in chosen.items()} == {
        users: users for users in chosen
    }


@pytest.mark.parametrize(
    ("given_", "left"),
    [
        (EqualTo(("id",), 1), {1}),
        (GreaterThan(("id",), 2), {3}),
        (LessThanOrEqual(("text",), "1"), {1}),
        (In(("id",), (0, 2, 3)), {1, 3}),
        (IsNull(("id",)), set[int]()),
        (IsNull(("text",)), {1, 3}),
        (EqualTo(("id",), True), {1, 3}),
        (EqualTo(("_user",), "a"), set[int]()),
    ],
)
def test_a_filter_passes_files_over(lake: Lakehouse, given_: Filter, left: set[int]) -> None:
    """Spark applies the filter again, so rows that it leaves out may be read; files are left out by their statistics."""
    for key in (1, 3):
        lake.table("app.items").write([{"id": key, "text": str(key)}])
        lake.flush("app.items")
    assert {row["id"] for row in read(lake, "app.items", [given_])} == left


def test_a_shared_table_is_divided_by_its_files(lake: Lakehouse) -> None:
    items = lake.table("app.items")
    for start in (0, 10, 20):
        items.write([{"id": start + each, "text": "cold"} for each in range(10)])
        lake.flush("app.items")
    items.write([{"id": 5, "text": "hot"}, {"id": 40, "text": "hot"}])
    items.delete([{"id": 15}])
    small = Settings(spark=SparkSettings(task_bytes=1))
    planned = reader(lake, "app.items", small)
    assert len(planned.partitions()) == 4, "three files, and the pending rows"
    found = {row["id"]: row["text"] for row in rows_of(planned)}
    assert found == {each: "cold" for each in range(30) if each not in (5, 15)} | {5: "hot", 40: "hot"}
    assert len(rows_of(reader(lake, "app.items", small))) == len(found)


def test_fl_036_a_bucket_is_read_by_one_reader(lake: Lakehouse) -> None:
    lake.sql("CREATE DYNAMIC TABLE app.parted (id INT PRIMARY KEY, text TEXT) WITH ('bucket' = '3')")
    for start in (0, 30):
        lake.table("app.parted").write([{"id": start + each, "text": "cold"} for each in range(30)])
        lake.flush("app.parted")
    lake.table("app.parted").write([{"id": 5, "text": "hot"}])
    planned = reader(lake, "app.parted")
    parts = [pa.Table.from_batches(list(planned.read(part))) for part in planned.partitions()]
    found = [str(set(bucket_of(part, ["id"], 3).to_pylist())) for part in parts]
    assert sorted(found[:-1]) == ["{0}", "{1}", "{2}"], "two files of each bucket"
    assert parts[-1].to_pylist()[0]["text"] == "hot", "what waits in the log has a reader of its own"
    assert sum(part.num_rows for part in parts) == 60


def test_a_read_of_a_shared_table_is_of_the_moment_of_its_plan(lake: Lakehouse) -> None:
    items = lake.table("app.items")
    items.write([{"id": 1, "text": "before"}])
    planned = reader(lake, "app.items")
    parts = planned.partitions()
    items.write([{"id": 1, "text": "after"}])
    lake.flush("app.items")
    assert [row["text"] for part in parts for batch in planned.read(part) for row in batch.to_pylist()] == ["before"]


def test_scopes_are_packed_by_what_the_state_knows(lake: Lakehouse) -> None:
    for user in range(20):
        lake.table("app.notes").write([{"id": 1, "text": "x"}], user=f"user{user}")
    one = reader(lake, "app.notes").partitions()
    many = reader(lake, "app.notes", Settings(spark=SparkSettings(task_bytes=1 << 16))).partitions()
    assert len(one) == 1
    assert len(many) > 3
    packs = [part.users for part in many if isinstance(part, ScopePack)]
    assert sorted(user for pack in packs for user in pack if user) == sorted(f"user{each}" for each in range(20))


def test_rows_of_a_stream_table_are_read_from_the_log(lake: Lakehouse) -> None:
    lake.table("app.events").write([{"id": 1, "text": "x"}, {"id": 1, "text": "y"}], user="a")
    assert [(row["_user"], row["text"]) for row in read(lake, "app.events")] == [("a", "x"), ("a", "y")]
    with pytest.raises(PySparkException, match="UNSUPPORTED"):
        read(lake, "app.events", user="a", version="0")


def test_a_version_has_the_columns_that_it_had(lake: Lakehouse) -> None:
    lake.table("app.items").write([{"id": 1, "text": "old"}])
    lake.flush("app.items")
    lake.sql("ALTER TABLE app.items ADD COLUMN more INT; UPDATE app.items SET text = 'new', more = 1 WHERE id = 1")
    lake.flush("app.items")
    (old,) = read(lake, "app.items", version="0")
    assert old == {"id": 1, "text": "old", "_user": None, "_seq": old["_seq"]}
    (new,) = read(lake, "app.items")
    assert new["more"] == 1
    with pytest.raises(PySparkException, match=r"NOT_FOUND.*9"):
        read(lake, "app.items", version="9")


def test_a_scope_without_rows_is_empty(lake: Lakehouse) -> None:
    assert read(lake, "app.notes") == read(lake, "app.items") == read(lake, "app.notes", user="none") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name the table"),
        ({"table": "app.notes", "usr": "a"}, "unknown option 'usr'"),
        ({"table": "app.notes", "user": "a", "users": "b"}, "both given"),
        ({"table": "app.notes", "version": "-1"}, "whole numbers"),
        ({"table": "app.notes", "freshness": "new"}, "freshness"),
        ({"table": "app.notes", "users": "[1"}, "JSON list"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ReadOptions.of(options)


def test_a_past_needs_its_users(lake: Lakehouse) -> None:
    with pytest.raises(PySparkException, match=r"INVALID_ARGUMENT: .*name the user"):
        reader(lake, "app.notes", version="0")


def test_no_warehouse_is_made(tmp_path: Path) -> None:
    from lakewarden.errors import NotFound
    from lakewarden.spark.connection import SparkConnection

    with pytest.raises(NotFound):
        SparkConnection.of(str(tmp_path / "none"), Settings(), 1).open()


def _columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize("table", ["app.notes", "app.items", "app.events"])
@pytest.mark.parametrize("freshness", ["strong", "oltp_only"])
def test_a_query_reads_the_columns_that_it_names(lake: Lakehouse, table: str, freshness: str) -> None:
    user = None if table == "app.items" else "ann"
    lake.table(table).write([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], user=user)
    for flushed in (False, True) if table != "app.events" else (False,):
        if flushed:
            lake.flush(table)
            lake.table(table).write([{"id": 2, "text": "c"}], user=user)
        two, one = _columns(text=StringType(), id=IntegerType()), _columns(_user=StringType())
        wanted = {1: "a", 2: "b"} if not flushed else {2: "c"} if freshness == "oltp_only" else {1: "a", 2: "c"}
        found = rows_of(reader(lake, table, columns=two, freshness=freshness))
        assert [[*row] for row in found] == [["text", "id"]] * len(wanted)
        assert {row["id"]: row["text"] for row in found} == wanted
        assert rows_of(reader(lake, table, columns=one, freshness=freshness)) == [{"_user": user}] * len(wanted)
    if table != "app.events":
        one = _columns(id=IntegerType())
        past = (
            reader(lake, table, None, one, version="0")
            if user is None
            else reader(lake, table, None, one, version="0", user=user)
        )
        assert sorted(str(row["id"]) for row in rows_of(past)) == ["1", "2"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            _columns(id=IntegerType(), txt=StringType(), more=IntegerType()),
            "no such column: txt, more; the columns are id,",
        ),
        (_columns(id=LongType()), "has id as bigint; it is id int"),
        (_columns(), "names no column"),
    ],
)
def test_columns_that_are_refused(lake: Lakehouse, columns: StructType, message: str) -> None:
    with pytest.raises(PySparkException, match=f"INVALID_ARGUMENT: .*{message}"):
        reader(lake, "app.notes", columns=columns)
