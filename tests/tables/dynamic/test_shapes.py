"""Tables of every shape, with and without a key and partitions: what is written is read, overwritten and streamed.

The counterparts of what table-store and Paimon test shape by shape (docs/reference/published-tests.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.errors import ConstraintViolation, InvalidArgument, NotFound
from lakewarden.sql.results import AffectedRows, Result, ResultRows
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.changes.value import Start

Sql = Callable[[str], list[Result]]
Row = tuple[object, ...]

FIRST = [("x", 1, 1, "one"), ("x", 2, 2, "two"), ("y", 1, 3, "three"), ("y", 2, 4, "four")]
LATER = [("x", 1, 1, "ONE"), ("y", 2, 5, "five")]
"""One of its rows has a key that is there, in every shape."""


CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "dt = 'x'": lambda row: row[0] == "x",
    "dt = 'y' AND hh = 2": lambda row: row[:2] == ("y", 2),
    "id = 1": lambda row: row[2] == 1,
    "v = 'five'": lambda row: row[3] == "five",
    "dt = 'none'": lambda _: False,
}


@dataclass(frozen=True)
class Shape:
    name: str
    key: str = ""
    partitions: str = ""

    def make(self, sql: Sql, purpose: str) -> str:
        table = f"{purpose}_{self.name}"
        key = f", PRIMARY KEY ({self.key})" if self.key else ""
        parts = f"PARTITIONED BY ({self.partitions})" if self.partitions else ""
        sql(f"CREATE DYNAMIC TABLE {table} (dt TEXT, hh INT, id INT, v TEXT{key}) {parts} WITH ('bucket' = '2')")
        return table

    def after(self, *writes: Iterable[Row]) -> Counter[Row]:
        """The rows that a table of this shape has after these writes."""
        rows = [row for write in writes for row in write]
        return Counter({row[:3]: row for row in rows}.values()) if self.key else Counter(rows)


SHAPES = (
    Shape("plain"),
    Shape("plain_by_day", partitions="dt"),
    Shape("plain_by_hour", partitions="dt, hh"),
    Shape("keyed", key="dt, hh, id"),
    Shape("keyed_by_day", key="dt, hh, id", partitions="dt"),
    Shape("keyed_by_hour", key="dt, hh, id", partitions="dt, hh"),
)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def values(rows: Iterable[Row]) -> str:
    return ", ".join(f"('{dt}', {hh}, {id_}, '{v}')" for dt, hh, id_, v in rows)


def found(lake: Lakehouse, query: str) -> Counter[Row]:
    (rows,) = lake.sql(query)
    assert isinstance(rows, ResultRows)
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.slow
@every_shape
def test_what_is_written_is_read(lake: Lakehouse, sql: Sql, shape: Shape) -> None:
    """Hot, half hot and cold: all rows, those of a partition, those with a value, and some columns."""
    name = shape.make(sql, "read")
    sql(f"INSERT INTO {name} VALUES {values(FIRST)}")
    assert found(lake, f"SELECT * FROM n.{name}") == Counter(FIRST)
    lake.flush(f"n.{name}")
    sql(f"INSERT INTO {name} VALUES {values(LATER)}")
    wanted = shape.after(FIRST, LATER)
    for _ in range(2):
        assert found(lake, f"SELECT * FROM n.{name}") == wanted
        for where, holds in CONDITIONS.items():
            left = Counter(row for row in wanted.elements() if holds(row))
            assert found(lake, f"SELECT * FROM n.{name} WHERE {where}") == left, where
        assert found(lake, f"SELECT v, id FROM n.{name}") == Counter((row[3], row[2]) for row in wanted.elements())
        lake.flush(f"n.{name}")


@every_shape
def test_an_overwrite_replaces_the_partitions_of_its_rows_or_the_table(lake: Lakehouse, sql: Sql, shape: Shape) -> None:
    name = shape.make(sql, "over")
    sql(f"INSERT INTO {name} VALUES {values(FIRST)}")
    fresh = [("x", 1, 9, "nine")]
    sql(f"INSERT OVERWRITE {name} VALUES {values(fresh)}")
    width = len(shape.partitions.split(", ")) if shape.partitions else 0
    kept = [row for row in FIRST if width and row[:width] != fresh[0][:width]]
    assert found(lake, f"SELECT * FROM n.{name}") == Counter([*kept, *fresh])
    sql(f"INSERT INTO {name} VALUES {values(LATER)}")
    assert found(lake, f"SELECT * FROM n.{name}") == shape.after(kept, fresh, LATER)
    sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE false")
    left = shape.after(kept, fresh, LATER) if width else Counter[Row]()
    assert found(lake, f"SELECT * FROM n.{name}") == left, "no row names a partition; a table without any is emptied"


@pytest.mark.slow
@pytest.mark.parametrize("shape", [each for each in SHAPES if "hh" in each.partitions], ids=lambda shape: shape.name)
def test_partitions_are_named_by_all_their_columns_or_by_some(lake: Lakehouse, sql: Sql, shape: Shape) -> None:
    name = shape.make(sql, "part")
    sql(f"INSERT INTO {name} VALUES {values(FIRST)}")
    sql(f"INSERT OVERWRITE {name} PARTITION (dt = 'x', hh = 1) SELECT id, v FROM {name} WHERE false")
    assert found(lake, f"SELECT * FROM n.{name}") == Counter(FIRST[1:])
    sql(f"INSERT OVERWRITE {name} PARTITION (dt = 'x') VALUES (2, 7, 'seven')")
    left = [*FIRST[2:], ("x", 2, 7, "seven")]
    assert found(lake, f"SELECT * FROM n.{name}") == Counter(left)
    sql(f"INSERT OVERWRITE {name} PARTITION (dt = 'x') VALUES (3, 8, 'eight')")
    assert found(lake, f"SELECT * FROM n.{name}") == Counter([*left, ("x", 3, 8, "eight")]), "dt = 'x', hh = 2 has no row here"
    assert sql(f"ALTER TABLE {name} DROP PARTITION (dt = 'x')") == [AffectedRows(2)]
    assert found(lake, f"SELECT * FROM n.{name}") == Counter(FIRST[2:])
    with pytest.raises(NotFound):
        sql(f"ALTER TABLE {name} DROP PARTITION (dt = 'x')")


@every_shape
def test_a_stream_begins_where_it_is_told_and_has_each_later_change(lake: Lakehouse, sql: Sql, shape: Shape) -> None:
    name = shape.make(sql, "scan")
    feed = ChangeFeed(lake.warehouse, TableName("n", name))
    from_nothing = feed.start(Start.parse("latest"))
    sql(f"INSERT INTO {name} VALUES {values(FIRST)}")
    lake.flush(f"n.{name}")
    latest = feed.start(Start.parse("latest"))
    assert latest is not None
    snapshot, full = feed.snapshot()
    sql(f"INSERT INTO {name} VALUES {values(LATER)}")
    later = changes(lake, name, latest)
    assert changes(lake, name, full) == later
    before = [("update_preimage", FIRST[0]), ("update_postimage", LATER[0])] if shape.key else [("insert", LATER[0])]
    assert later == [*before, ("insert", LATER[1])]
    assert Counter(replayed([("insert", row) for row in rows_of(snapshot)], later)) == shape.after(FIRST, LATER)
    starts = [from_nothing, *([feed.start(Start.parse("timestamp:0"))] if shape.key else [])]
    for start in starts:
        assert changes(lake, name, start) == [*[("insert", row) for row in FIRST], *later]
    if not shape.key:
        with pytest.raises(InvalidArgument, match="no times"):
            feed.start(Start.parse("timestamp:0"))
        return
    sql(f"DELETE FROM {name} WHERE id = 2")
    assert changes(lake, name, latest) == [*later, ("delete", FIRST[1])]


def changes(lake: Lakehouse, name: str, after: int | None) -> list[tuple[str, Row]]:
    rows = lake.table(f"n.{name}").changes(after=after).rows.to_pylist()
    return [(row["_change_type"], (row["dt"], row["hh"], row["id"], row["v"])) for row in rows]


def rows_of(snapshot: Iterable[object]) -> list[Row]:
    return [(row["dt"], row["hh"], row["id"], row["v"]) for part in snapshot for row in part.to_pylist()]  # type: ignore[attr-defined]


def replayed(*batches: list[tuple[str, Row]]) -> list[Row]:
    """The rows that a consumer has who follows the changes."""
    held: list[Row] = []
    for kind, row in (change for batch in batches for change in batch):
        if kind in ("update_preimage", "delete"):
            held.remove(row)
        else:
            held.append(row)
    return held


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id IN (1, 4, 9)", {1, 4}),
        ("v LIKE 't%'", {2, 3}),
        ("v LIKE '%o%'", {1, 2, 4}),
        ("v NOT LIKE '%e'", {2, 4}),
        ("length(v) > 3 OR id % 2 = 0", {2, 3, 4}),
        ("dt || hh = 'x1'", {1}),
        ("id IN (SELECT id FROM n.where_keyed_by_day WHERE hh = 1)", {1, 3}),
    ],
)
def test_a_condition_of_any_kind_has_its_rows(lake: Lakehouse, sql: Sql, where: str, ids: set[int]) -> None:
    shape = SHAPES[4]
    if TableName("n", "where_keyed_by_day") not in lake.warehouse.catalog.read().tables:
        sql(f"INSERT INTO {shape.make(sql, 'where')} VALUES {values(FIRST)}")
        lake.flush("n.where_keyed_by_day")
    assert {row[0] for row in found(lake, f"SELECT id FROM n.where_keyed_by_day WHERE {where}")} == ids


def test_writes_and_reads_take_turns(lake: Lakehouse, sql: Sql) -> None:
    name = SHAPES[4].make(sql, "turns")
    written: list[Row] = []
    for turn in range(3):
        written += [(day, turn, turn, str(turn)) for day in "xy"]
        sql(f"INSERT INTO {name} VALUES {values(written[-2:])}")
        assert found(lake, f"SELECT * FROM n.{name}") == Counter(written)
        sql(f"INSERT INTO {name} SELECT dt, hh + 100, id, v FROM {name} WHERE hh = {turn} AND dt = 'x'")
        written.append(("x", turn + 100, turn, str(turn)))
    assert found(lake, f"SELECT * FROM n.{name}") == Counter(written)


@every_shape
def test_rows_are_updated_and_deleted_by_any_condition(lake: Lakehouse, sql: Sql, shape: Shape) -> None:
    name = shape.make(sql, "changed")
    sql(f"INSERT INTO {name} VALUES {values(FIRST)}")
    lake.flush(f"n.{name}")
    sql(f"UPDATE {name} SET v = 'changed' WHERE v = 'two' AND dt = 'x'")
    sql(f"DELETE FROM {name} WHERE dt = 'y' AND hh = 1 OR v = 'one'")
    assert found(lake, f"SELECT * FROM n.{name}") == Counter([("x", 2, 2, "changed"), FIRST[3]])
    sql(f"DELETE FROM {name} WHERE true")
    assert found(lake, f"SELECT * FROM n.{name}") == Counter()


def test_a_key_is_never_null(sql: Sql) -> None:
    name = SHAPES[4].make(sql, "null")
    for row in ("('x', 1, NULL, 'v')", "(NULL, 1, 1, 'v')"):
        with pytest.raises(ConstraintViolation):
            sql(f"INSERT INTO {name} VALUES {row}")


def test_columns_may_have_the_names_of_files_and_buckets(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE named (bucket INT, path TEXT, size INT, PRIMARY KEY (bucket, path)) WITH ('bucket' = '2')")
    sql("INSERT INTO named VALUES (1, 'a', 1), (2, 'b', 2)")
    lake.flush("n.named")
    sql("INSERT INTO named VALUES (1, 'a', 3)")
    assert found(lake, "SELECT * FROM n.named") == Counter([(1, "a", 3), (2, "b", 2)])
    assert found(lake, "SELECT size FROM n.named WHERE bucket = 2 AND path = 'b'") == Counter([(2,)])
