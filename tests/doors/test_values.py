"""A value is stored as it was given, or refused with its place: each type through each door, read back by programs of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.spark import register
from tests.doors import exceptions, forms
from tests.doors.doors import DOORS, NAMESPACE, SPARK, Door
from tests.doors.samples import MISFITS, SAMPLES, UNREADABLE, Sample, columns, same, share


def _opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("doors") / "w")) as opened:
        opened.create_namespace(NAMESPACE)
        yield opened


lake = pytest.fixture(scope="module")(_opened)
lake_of_shares = pytest.fixture(scope="module", name="lake_of_shares")(_opened)
"""Another warehouse: what is uploaded belongs to the namespace, and not to a table."""


_AT_NIGHT = {
    *("SQL: literal of UPDATE", "HTTP: parameter in JSON", "Flight SQL: bulk ingest", "PostgreSQL: parameter in binary"),
    *("upload: CSV", "upload: JSON", "upload: Parquet", "upload: Avro"),
}
"""Doors that take a second or more of CPU for all values: the gate sends a share of them there, and all through others of the
same kind."""


def _is_dear(door: Door) -> bool:
    """Whether some twenty values take seconds of CPU: an upload is an object each; HTTP and Flight start a server."""
    return door.name.startswith(("upload", "HTTP", "Flight"))


def check_outcome(lake: Lakehouse, door: Door, place: Path, samples: tuple[Sample, ...]) -> None:
    """Each sample is there as it was given, hot and cold, or refused with its place where it is among the exceptions."""
    table = f"{NAMESPACE}.door_{DOORS.index(door)}_{len(samples)}"
    if not door.makes_its_table:
        lake.sql(f"CREATE SHARED TABLE {table} ({columns()}, PRIMARY KEY (id))")
    refused = dict(door.write(lake, table, place, samples))
    check_kept(lake, table, door, refused, samples)
    wanted = exceptions.refused(door.name)
    assert refused.keys() == {each.number for each in samples if each.label in wanted.get(each.type, ())}
    vague = [f"{sample.type} {sample.label}: {refused[sample.number]}" for sample in samples if _is_vague(sample, refused)]
    assert not vague, "\n".join(vague)


def check_kept(lake: Lakehouse, table: str, door: Door, refused: dict[int, str], samples: tuple[Sample, ...] = SAMPLES) -> None:
    hot = lake.table(table).read().to_pylist()
    lake.flush(table)
    uri = str(Path(lake.warehouse.uri) / "data" / Path(*table.split(".")))
    found = {"Lakewarden": hot, "delta-rs": DeltaTable(uri).to_pyarrow_table().to_pylist(), "DuckDB": _by_duckdb(uri)}
    wrong = [
        f"{sample.type} {sample.label}: {program} has {row.get(sample.column)!r} for {sample.value!r}"[:300]
        for program, rows in found.items()
        for sample, row in _rows(rows, refused, samples)
        if not _kept(sample, row.get(sample.column), door)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    "door", [pytest.param(door, marks=[pytest.mark.night] * (door.name in _AT_NIGHT), id=door.name) for door in DOORS]
)
def test_a_value_is_stored_as_it_was_given_or_refused_with_its_place(lake: Lakehouse, door: Door, tmp_path: Path) -> None:
    check_outcome(lake, door, tmp_path, SAMPLES)


@pytest.mark.parametrize("door", [pytest.param(door, marks=[pytest.mark.slow] * _is_dear(door), id=door.name) for door in DOORS])
def test_each_type_meets_each_door_and_each_value_some_door(lake_of_shares: Lakehouse, door: Door, tmp_path: Path) -> None:
    """A share of the values each, so that it takes little time; the test above tries them all, through some doors at night."""
    check_outcome(lake_of_shares, door, tmp_path, share(DOORS.index(door)))


def test_each_value_is_in_a_share() -> None:
    assert {each.number for number in range(len(DOORS)) for each in share(number)} == {each.number for each in SAMPLES}


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize("samples", [MISFITS, UNREADABLE], ids=["typed", "texts"])
@pytest.mark.parametrize("door", [door for door in DOORS if not door.makes_its_table], ids=lambda door: door.name)
def test_a_value_that_its_column_does_not_hold_is_refused_with_its_place(
    lake: Lakehouse, door: Door, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    table = f"{NAMESPACE}.misfits_{DOORS.index(door)}_{len(samples)}"
    lake.sql(f"CREATE SHARED TABLE {table} ({columns()}, PRIMARY KEY (id))")
    refused = dict(door.write(lake, table, tmp_path, samples))
    there = {row["id"]: row for row in lake.table(table).read().to_pylist() if row["id"] is not None}
    taken = {f"{each.type} {each.label}": there[each.number][each.column] for each in samples if each.number not in refused}
    assert not taken
    assert not [refused[sample.number] for sample in samples if _is_vague(sample, refused)]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO v.halves VALUES (2, 'a\ud800b')",
        "INSERT INTO v.halves SELECT 2, 'a\ud800b'",
        "UPDATE v.halves SET v = 'a\ud800b' WHERE id = 1",
    ],
)
def test_half_of_a_surrogate_pair_is_refused_as_such(lake: Lakehouse, text: str) -> None:
    lake.sql("CREATE SHARED TABLE IF NOT EXISTS v.halves (id BIGINT PRIMARY KEY, v TEXT)")
    lake.table("v.halves").write([{"id": 1, "v": "a"}])
    with pytest.raises(LakewardenError, match=r"does not fit TEXT|half of a surrogate pair") as refused:
        lake.sql(text)
    assert r"\ud800" in str(refused.value)
    assert lake.table("v.halves").read().column("v").to_pylist() == ["a"]


def _is_vague(sample: Sample, refused: dict[int, str]) -> bool:
    """Whether the refusal names neither its column nor its parameter; PostgreSQL's client refuses NUL before it sends it."""
    reason = refused.get(sample.number, sample.column)
    return not any(place in reason for place in (sample.column, "parameter 2", "$.params[1]", "cannot contain NUL"))


def _rows(
    rows: list[dict[str, Any]], refused: dict[int, str], samples: tuple[Sample, ...]
) -> Iterator[tuple[Sample, dict[str, Any]]]:
    by_id = {row["id"]: row for row in rows}
    assert by_id.keys() - {0} == {sample.number for sample in samples} - refused.keys()
    return ((sample, by_id[sample.number]) for sample in samples if sample.number not in refused)


def _by_duckdb(uri: str) -> list[dict[str, Any]]:
    files = DeltaTable(uri).file_uris()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows: pa.Table = connection.sql("SELECT * FROM read_parquet(?, union_by_name = true)", params=[files]).to_arrow_table()
        return rows.to_pylist()


def _kept(sample: Sample, found: object, door: Door) -> bool:
    value = sample.value
    if exceptions.is_null(door.name, sample.type, sample.label):
        return found is None
    if sample.type == "JSON" and isinstance(value, str):
        return isinstance(found, str) and _exact(found) == _exact(value)
    if same(value, found):
        return True
    if not door.makes_its_table:
        return False
    if isinstance(found, Decimal) and isinstance(value, (Decimal, float)):
        return found == Decimal(repr(value)) if isinstance(value, float) else found == value
    if sample.written and isinstance(found, float):  # DOUBLE there, of which FLOAT has the nearest
        return repr(found) == repr(float(sample.written))
    return isinstance(found, str) and value is not None and found == forms.text(sample)


def _exact(text: str) -> object:
    return json.loads(text, parse_float=lambda digits: ("number", digits), parse_int=lambda digits: ("number", digits))


def test_the_sink_of_spark_stores_every_value_as_it_was_given(spark: SparkSession, tmp_path: Path) -> None:
    """One write: none is refused. TIME is its microseconds there, as in Delta."""
    with Lakehouse.open(str(tmp_path / "w")) as lake:
        lake.sql(f"CREATE NAMESPACE {NAMESPACE}; CREATE SHARED TABLE {NAMESPACE}.spark ({columns()}, PRIMARY KEY (id))")
        register(spark, lake.warehouse.uri)
        rows = forms.all_rows()
        at = rows.schema.get_field_index("c_time")
        rows = rows.set_column(at, "c_time", rows.column(at).cast("int64"))
        made = spark.createDataFrame(rows)
        made.write.format("lakewarden").option("table", f"{NAMESPACE}.spark").mode("append").save()
        check_kept(lake, f"{NAMESPACE}.spark", SPARK, {})
