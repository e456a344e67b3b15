"""Delta's own change data feed of a table's cold rows: `CHANGE_DATA_FEED`, whatever changes the table."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden import Column, Lakehouse
from lakewarden.errors import InvalidArgument
from lakewarden.sql.results import ResultRows
from tests.fixtures.change_data import Values, applied, counted, fed, rows_at
from tests.fixtures.examples import examples

_COLUMNS = ("id", "v", "p")
_NAMES = map("t{}".format, itertools.count())
pytestmark = pytest.mark.disk


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    place: Path = tmp_path_factory.mktemp("warehouse") / "w"
    with Lakehouse.open(str(place)) as opened:
        opened.create_namespace("n")
        yield opened


def place_of(lake: Lakehouse, name: str, user: str = "") -> Path:
    return Path(lake.warehouse.uri) / "data" / "n" / name / user


def changed_files(place: Path) -> set[Path]:
    return set((place / "_change_data").rglob("*.parquet"))


def options_of(lake: Lakehouse, name: str) -> dict[str, str]:
    (found,) = lake.sql(f"SELECT options FROM system.tables WHERE table_name = '{name}'")
    assert isinstance(found, ResultRows)
    return dict(json.loads(found.table.column(0)[0].as_py()))


def filled(lake: Lakehouse, **options: str) -> str:
    """A USER table whose user `ann` has an insert, and then an update and a delete."""
    name = next(_NAMES)
    columns = [Column("id", "INT"), Column("v", "INT")]
    table = lake.create_table(f"n.{name}", type="USER", columns=columns, primary_key=["id"], options=options)
    table.write([{"id": 1, "v": 1}, {"id": 2, "v": 2}], user="ann")
    lake.flush(f"n.{name}")
    table.write([{"id": 1, "v": 5}], user="ann")
    table.delete([{"id": 2}], user="ann")
    lake.flush(f"n.{name}")
    return name


_ID = st.integers(0, 5)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), _ID),
        st.tuples(st.just("update"), _ID),
        st.tuples(st.just("move"), _ID),
        st.tuples(st.just("delete"), _ID),
        st.tuples(st.just("overwrite"), _ID),
        st.tuples(st.just("overwrite x"), _ID),
        st.tuples(st.just("restore"), _ID),
        st.tuples(st.just("optimize"), _ID),
        st.tuples(st.just("widen"), st.just(0)),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(steps=_STEPS)
def test_changes_of_direct_writes_make_each_version_from_the_one_before(lake: Lakehouse, steps: list[tuple[str, int]]) -> None:
    """A keyless table of two partitions; a model says what each step leaves."""
    name = next(_NAMES)
    lake.sql(f"CREATE SHARED TABLE n.{name} (id INT, v INT, p TEXT) PARTITION BY (p) WITH (CHANGE_DATA_FEED = on)")
    first: list[Values] = [(key, key, "xy"[key % 2]) for key in range(6)]
    lake.sql(f"INSERT INTO n.{name} (id, v, p) VALUES " + ", ".join(map(str, first)))
    uri, model, widths = str(place_of(lake, name)), Counter(first), itertools.count()
    states = {DeltaTable(uri).version(): model}
    for step, key in steps:
        model = _stepped(lake, name, step, key, next(widths), model, states)
        newest, seen = DeltaTable(uri).version(), max(states)
        rows = states[seen]
        for version in range(seen + 1, newest + 1):
            rows = applied(rows, fed(uri, version, _COLUMNS))
            assert rows == rows_at(uri, version, _COLUMNS)
            states[version] = rows
        assert states[newest] == model


def _stepped(
    lake: Lakehouse, name: str, step: str, key: int, width: int, model: Counter[Values], states: dict[int, Counter[Values]]
) -> Counter[Values]:
    """Does one step; returns what the table holds then."""
    table = f"n.{name}"
    match step:
        case "restore":
            version = sorted(states)[key % len(states)]
            lake.restore(table, version=version, dry_run=False)
            return states[version]
        case "overwrite x":
            client = lake.table(table)
            given = pa.table({"id": [key], "v": [7], "p": ["x"]})
            for extra in client.table.schema.names[3:]:
                given = given.append_column(extra, pa.nulls(1, pa.int32()))
            client.direct.overwrite([given], within="p = 'x'")
        case "optimize":
            lake.optimize(table)
        case _:
            lake.sql(_SQL[step].format(table=table, key=key, width=width))
    return Counter(row for old in model.elements() for row in _kept(step, key, old)) + _COMING.get(step, _nothing)(key)


_SQL = {
    "insert": "INSERT INTO {table} (id, v, p) VALUES ({key}, 9, 'x')",
    "update": "UPDATE {table} SET v = v + 1 WHERE id >= {key}",
    "move": "UPDATE {table} SET p = 'y' WHERE id = {key}",
    "delete": "DELETE FROM {table} WHERE id = {key}",
    "overwrite": "INSERT OVERWRITE {table} (id, v, p) VALUES ({key}, 0, 'y')",
    "widen": "ALTER TABLE {table} ADD COLUMN more_{width} INT",
}


def _nothing(_: int) -> Counter[Values]:
    return Counter()


_COMING: dict[str, Callable[[int], Counter[Values]]] = {
    "insert": lambda key: Counter([(key, 9, "x")]),
    "overwrite": lambda key: Counter([(key, 0, "y")]),
    "overwrite x": lambda key: Counter([(key, 7, "x")]),
}


def _kept(step: str, key: int, row: Values) -> list[Values]:
    """What the step leaves of a row."""
    id_, v, p = row
    gone = {"delete": id_ == key, "overwrite": True, "overwrite x": p == "x"}
    if gone.get(step, False):
        return []
    return [(id_, v + 1 if step == "update" and id_ >= key else v, "y" if step == "move" and id_ == key else p)]


def test_it_is_asked_for_in_sql_and_python_and_shown(lake: Lakehouse) -> None:
    lake.sql("CREATE USER TABLE n.s1 (id INT PRIMARY KEY) WITH (delta.enableChangeDataFeed = true)")
    lake.sql("CREATE USER TABLE n.s2 (id INT PRIMARY KEY) WITH ('delta.enableChangeDataFeed' = 'true')")
    lake.sql("CREATE USER TABLE n.s3 (id INT PRIMARY KEY)")
    assert [options_of(lake, name).get("CHANGE_DATA_FEED") for name in ("s1", "s2", "s3")] == ["on", "on", None]
    lake.sql("ALTER TABLE n.s3 SET TBLPROPERTIES (CHANGE_DATA_FEED = 'on')")
    lake.sql("ALTER TABLE n.s1 SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    assert [options_of(lake, name).get("CHANGE_DATA_FEED") for name in ("s1", "s3")] == ["off", "on"]
    with pytest.raises(InvalidArgument, match="CHANGE_DATA_FEED 'perhaps' must be on or off"):
        lake.sql("ALTER TABLE n.s3 SET TBLPROPERTIES (delta.enableChangeDataFeed = perhaps)")
    with pytest.raises(InvalidArgument, match="only supported for USER and SHARED"):
        lake.sql("CREATE STREAM TABLE n.s4 (id INT PRIMARY KEY) WITH (TTL_SECONDS = 30, CHANGE_DATA_FEED = on)")


def test_dynamic_tables_have_it_too(lake: Lakehouse) -> None:
    lake.sql("CREATE DYNAMIC TABLE n.d1 (id INT PRIMARY KEY, v INT) WITH ('bucket' = '2', 'delta.enableChangeDataFeed' = 'true')")
    lake.sql("INSERT INTO n.d1 VALUES (1, 1), (2, 2), (3, 3)")
    lake.flush("n.d1")
    lake.table("n.d1").write([{"id": 1, "v": 5}])
    lake.flush("n.d1")
    uri = str(place_of(lake, "d1"))
    assert fed(uri, DeltaTable(uri).version(), ["id", "v"]) == [("update_preimage", (1, 1)), ("update_postimage", (1, 5))]
    (found,) = lake.sql("DESCRIBE TABLE EXTENDED n.d1")
    assert isinstance(found, ResultRows)
    assert found.table.to_pylist()[0]["delta.enableChangeDataFeed"] is True


@pytest.mark.slow
def test_an_alter_counts_from_the_next_flush(lake: Lakehouse) -> None:
    name = filled(lake)
    uri = str(place_of(lake, name, "ann"))
    assert not changed_files(Path(uri))
    lake.sql(f"ALTER TABLE n.{name} SET TBLPROPERTIES (CHANGE_DATA_FEED = on)")
    assert DeltaTable(uri).protocol().min_writer_version == 2
    lake.table(f"n.{name}").write([{"id": 1, "v": 6}], user="ann")
    lake.flush(f"n.{name}")
    assert fed(uri, 2, ["id", "v"]) == [("update_preimage", (1, 5)), ("update_postimage", (1, 6))]


def test_compacting_changes_no_row(lake: Lakehouse) -> None:
    name = filled(lake, CHANGE_DATA_FEED="on")
    table, uri = lake.table(f"n.{name}"), str(place_of(lake, name, "ann"))
    table.write([{"id": 7, "v": 7}], user="ann")
    lake.flush(f"n.{name}")
    assert lake.optimize(f"n.{name}")[0].outcome == "done"
    assert [counted(fed(uri, version, ["id"])) for version in (2, 3)] == [{"insert": 1}, {}]


def test_a_check_knows_whose_change_files_are(lake: Lakehouse) -> None:
    name = filled(lake, CHANGE_DATA_FEED="on")
    (named,) = changed_files(place_of(lake, name, "ann"))
    named.with_name("cdc-nobodys.parquet").write_bytes(named.read_bytes())
    (found,) = [each for each in lake.check() if each.check == "orphans" and name in each.subject]
    assert found.passed
    assert found.message.startswith("1 files of")


@pytest.mark.slow
def test_a_move_and_an_export_take_it_along_and_an_erasure_leaves_nothing(lake: Lakehouse, tmp_path: Path) -> None:
    name = filled(lake, CHANGE_DATA_FEED="on")
    before = fed(str(place_of(lake, name, "ann")), 1, ["id", "v"])
    lake.export("ann", str(tmp_path / "export"))
    assert fed(str(tmp_path / "export" / "n" / name), 1, ["id", "v"]) == before
    lake.create_storage(f"cold_{name}", type="filesystem", base=str(tmp_path / "cold"))
    assert {report.outcome for report in lake.move(f"n.{name}", f"cold_{name}")} == {"done"}
    moved = tmp_path / "cold" / "n" / name / "ann"
    assert fed(str(moved), 1, ["id", "v"]) == before
    assert not changed_files(place_of(lake, name, "ann"))
    assert changed_files(moved)
    assert lake.erase("ann", deep=True).result == "complete"
    assert not [found for found in moved.rglob("*.parquet") if "_delta_log" not in found.parts]
    lake.table(f"n.{name}").write([{"id": 1, "v": 1}], user="ann")
    lake.flush(f"n.{name}")
    assert DeltaTable(str(moved)).metadata().configuration["delta.enableChangeDataFeed"] == "true"
