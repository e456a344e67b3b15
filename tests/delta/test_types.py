"""Every column type there and back, with statistics that never hide a row, for us and for other readers."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakewarden.catalog.model import Compression
from tests.delta.scopes import Row, flush, paths, rows_of, schema, stats_of, table_of, target

EVERY = schema(
    "id BIGINT NOT NULL",
    "bool BOOLEAN",
    "small SMALLINT",
    "int INT",
    "float FLOAT",
    "double DOUBLE",
    "dec DECIMAL(38,4)",
    "text TEXT",
    "bytes BYTES",
    "date DATE",
    "ts TIMESTAMP",
    "time TIME",
    "uuid UUID",
    "json JSON",
    "file FILE",
)

_ROWS: list[Row] = [
    {
        "id": -(2**63),
        "bool": True,
        "small": -32768,
        "int": -(2**31),
        "float": -1.5,
        "double": -1e300,
        "dec": Decimal("-9999999999999999999999999999999999.9999"),
        "text": "\u0000é\U0001f600" * 50,
        "bytes": b"\x00\xff",
        "date": date(1, 1, 1),
        "ts": datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        "time": 0,
        "uuid": "00000000-0000-0000-0000-000000000000",
        "json": '{"a": "\\""}',
        "file": "_files/x",
    },
    {"id": 0},
    {
        "id": 2**63 - 1,
        "bool": False,
        "small": 32767,
        "int": 2**31 - 1,
        "float": 1.5,
        "double": 1e300,
        "dec": Decimal("9999999999999999999999999999999999.9999"),
        "text": "zz",
        "bytes": b"",
        "date": date(9999, 12, 31),
        "ts": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "time": 86_399_999_999,
        "uuid": "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "json": "[]",
        "file": "_files/y",
    },
]
_WHOLE = [{name: row.get(name) for name in EVERY.names} for row in _ROWS]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_every_type_there_and_back(tmp_path: Path, compression: Compression) -> None:
    scope = target(tmp_path / "t", EVERY, compression=compression)
    flush(scope, _ROWS)
    flush(scope, [_ROWS[1] | {"text": "new"}], first_seq=3)
    assert rows_of(scope) == [_WHOLE[0], _WHOLE[1] | {"text": "new"}, _WHOLE[2]]
    (path,) = paths(scope)
    codec = pq.read_metadata(tmp_path / "t" / path).row_group(0).column(0).compression
    assert codec == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())


def test_other_readers_see_the_same(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVERY)
    flush(scope, _ROWS)
    flush(scope, [{"id": 5}], first_seq=3)
    ours = [*_WHOLE[:2], dict.fromkeys(EVERY.names) | {"id": 5}, _WHOLE[2]]
    theirs = pa.table(DeltaTable(scope.uri).scan().read_all()).drop_columns(["_seq"]).to_pylist()
    theirs.sort(key=lambda row: int(row["id"]))
    assert theirs == ours
    polars = pl.read_delta(scope.uri).drop("_seq").sort("id").to_dicts()
    assert polars == ours
    files = [os.fspath(tmp_path / "t" / path) for path in paths(scope)]
    counted = duckdb.execute("SELECT count(*), min(ts), max(dec), count(json) FROM read_parquet(?)", [files]).fetchone()
    assert counted == (4, _ROWS[0]["ts"], _ROWS[2]["dec"], 2)


def test_the_delta_columns_say_what_they_were(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVERY)
    flush(scope, _ROWS)
    delta = DeltaTable(scope.uri)
    fields = {field.name: field for field in delta.schema().fields}
    assert fields["uuid"].metadata == {"lakewarden.type": "UUID", "lakewarden.id": 13}
    assert (fields["id"].nullable, fields["text"].nullable, fields["_seq"].nullable) == (False, True, True)
    assert (delta.protocol().min_reader_version, delta.protocol().min_writer_version) == (1, 2)
    (path,) = paths(scope)
    footer = pq.read_metadata(tmp_path / "t" / path).metadata
    columns = {b"lakewarden.columns": (footer or {})[b"lakewarden.columns"]}
    whose = {b"lakewarden.table": b"chat.people", b"lakewarden.user": b"u_1"}
    seqs = {b"lakewarden.min_seq": b"0", b"lakewarden.max_seq": b"2", b"lakewarden.settled_upto": b"2"}
    assert footer == {b"lakewarden.schema_version": b"1"} | seqs | whose | columns
    assert pq.read_schema(tmp_path / "t" / path).field("uuid").metadata == {b"PARQUET:field_id": b"13"}


_VALUES = [(name, row[name]) for row in _WHOLE for name in EVERY.names if row[name] is not None and name != "bytes"]


@pytest.mark.parametrize(("column", "value"), _VALUES)
def test_statistics_never_hide_a_row(tmp_path_factory: pytest.TempPathFactory, column: str, value: Any) -> None:
    uri = _written(tmp_path_factory)
    found = pl.scan_delta(uri).filter(pl.col(column) == pl.lit(value, dtype=pl.read_delta(uri).schema[column])).collect()
    assert found.height >= 1
    literal = f"'{value}'" if isinstance(value, str) else None
    if literal and "\0" not in literal:
        assert DeltaTable(uri).scan(predicate=f"{column} = {literal}").read_all().num_rows == 1


def _written(factory: pytest.TempPathFactory) -> str:
    """One table for all the cases."""
    path = factory.getbasetemp() / "every"
    if not path.exists():
        flush(target(path, EVERY), _ROWS)
    return str(path)


def _stats(name: str, type_: pa.DataType, values: list[Any]) -> tuple[Any, Any, int]:
    stats = json.loads(stats_of(pa.table({name: pa.array(values, type_)})))
    assert stats["numRecords"] == len(values)
    return stats["minValues"].get(name), stats["maxValues"].get(name), stats["nullCount"][name]


def test_statistics_are_exact_where_they_can_be() -> None:
    micros = pa.timestamp("us", tz="UTC")
    moment = datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC)
    assert _stats("x", pa.int64(), [3, None, -1]) == (-1, 3, 1)
    assert _stats("x", micros, [moment]) == ("2024-02-29T12:00:00.000005Z", "2024-02-29T12:00:00.000005Z", 0)
    assert _stats("x", pa.date32(), [date(2024, 2, 29)]) == ("2024-02-29", "2024-02-29", 0)
    assert _stats("x", pa.string(), [None, None]) == (None, None, 2)
    text = stats_of(pa.table({"x": pa.array([Decimal("0.0000000001")], pa.decimal128(38, 10))}))
    assert '"minValues":{"x":0.0000000001}' in text


def test_there_are_no_bounds_where_readers_could_disagree() -> None:
    assert _stats("x", pa.float64(), [1.0, math.nan]) == (None, None, 0)
    assert _stats("x", pa.float64(), [1.0, math.inf]) == (None, None, 0)
    assert _stats("x", pa.bool_(), [True, False]) == (None, None, 0)
    assert _stats("x", pa.binary(), [b"a"]) == (None, None, 0)
    assert _stats("x", pa.timestamp("us", tz="UTC"), [2**62]) == (None, None, 0)
    assert _stats("x", pa.string(), ["\U0010ffff" * 65]) == (None, None, 0)


def test_zero_has_bounds_on_both_sides() -> None:
    low, high, _ = _stats("x", pa.float64(), [0.0])
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)


def test_long_texts_are_cut_and_rounded_up() -> None:
    low, high, _ = _stats("x", pa.string(), ["a" * 100, "b" * 100])
    assert low == "a" * 64
    assert high > "b" * 100
    assert len(high) == 65


def test_long_text_keys_are_found_again(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", schema("id TEXT NOT NULL", "v INT"))
    long = "k" * 200
    flush(scope, [{"id": long + "1", "v": 1}])
    flush(scope, [{"id": long + "2", "v": 2}], first_seq=1)
    flush(scope, [{"id": long + "1", "v": 3}], first_seq=2)
    assert rows_of(scope) == [{"id": long + "1", "v": 3}, {"id": long + "2", "v": 2}]


@pytest.mark.parametrize(("type_", "values"), [
    ("BYTES", [b"a", b"b"]), ("BOOLEAN", [True, False]), ("DATE", [date(2024, 1, 1), date(2024, 1, 2)]),
    ("DECIMAL(20,3)", [Decimal("1.500"), Decimal("2.500")]), ("SMALLINT", [1, 2]), ("UUID", ["a", "b"]), ("TIME", [1, 2]),
    ("TIMESTAMP", [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
])  # fmt: skip
def test_every_key_type_is_matched(tmp_path: Path, type_: str, values: list[Any]) -> None:
    scope = target(tmp_path / "t", schema(f"id {type_} NOT NULL", "v INT"))
    for number, value in enumerate([*values, *values]):
        flush(scope, [{"id": value, "v": number}], first_seq=number)
    assert {row["id"]: row["v"] for row in rows_of(scope)} == {values[0]: 2, values[1]: 3}
    assert table_of(scope).state(scope.app_id).rows == 2
