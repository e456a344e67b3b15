"""What Debezium and Kafka Connect say of values by the schema beside them: each row of the table in docs/kafka.md."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Column, Lakehouse
from tests.ingest.fitting import fitted

_KINDS = (*("DATE", "TIME", "TIMESTAMP", "TEXT", "JSON", "BYTES", "UUID", "INT", "BIGINT", "DOUBLE", "BOOLEAN"), "DECIMAL(38,10)")
_NAMES = {kind: re.sub(r"\W+", "_", kind.lower()) + "c" for kind in _KINDS}
_CONNECT = "org.apache.kafka.connect.data."
_REJECTED = "rejected"


def b64(number: int) -> str:
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


_LONG = -12345678901234567890123456780123456789
_AT = datetime(2026, 11, 22, 9, 30, 0, 123000, UTC)
_MICROS = 1_795_339_800_123_000
assert datetime.fromtimestamp(_MICROS // 10**6, UTC).replace(microsecond=123000) == _AT

CASES: list[tuple[str, str, str, object, object]] = [
    # the schema's name, its type, the column, the value in the message, the value in the table
    ("io.debezium.time.Date", "int32", "DATE", 20779, date(2026, 11, 22)),
    ("io.debezium.time.Date", "int32", "DATE", -719162, date(1, 1, 1)),
    ("io.debezium.time.Date", "int32", "DATE", 2147483647, _REJECTED),
    ("io.debezium.time.Date", "int32", "INT", 20779, 20779),
    ("io.debezium.time.Date", "int32", "TIMESTAMP", 20779, datetime(2026, 11, 22, tzinfo=UTC)),
    ("io.debezium.time.Date", "int32", "TIME", 20779, _REJECTED),
    (_CONNECT + "Date", "int32", "DATE", 20779, date(2026, 11, 22)),
    ("io.debezium.time.Time", "int32", "TIME", 34200123, 34200123000),
    ("io.debezium.time.Time", "int32", "TIME", 86400000, _REJECTED),
    ("io.debezium.time.Time", "int32", "TIMESTAMP", 34200123, _REJECTED),
    (_CONNECT + "Time", "int32", "TIME", 34200123, 34200123000),
    ("io.debezium.time.MicroTime", "int64", "TIME", 34200123456, 34200123456),
    ("io.debezium.time.NanoTime", "int64", "TIME", 34200123456000, 34200123456),
    ("io.debezium.time.NanoTime", "int64", "TIME", 34200123456001, _REJECTED),
    ("io.debezium.time.Timestamp", "int64", "TIMESTAMP", _MICROS // 1000, _AT),
    ("io.debezium.time.Timestamp", "int64", "TIME", 5, _REJECTED),
    (_CONNECT + "Timestamp", "int64", "TIMESTAMP", _MICROS // 1000, _AT),
    ("io.debezium.time.MicroTimestamp", "int64", "TIMESTAMP", _MICROS, _AT),
    ("io.debezium.time.MicroTimestamp", "int64", "BIGINT", _MICROS, _MICROS),
    ("io.debezium.time.MicroTimestamp", "int64", "TIMESTAMP", 2**63 - 1, _REJECTED),
    ("io.debezium.time.NanoTimestamp", "int64", "TIMESTAMP", _MICROS * 1000, _AT),
    ("io.debezium.time.NanoTimestamp", "int64", "TIMESTAMP", _MICROS * 1000 + 1, _REJECTED),
    ("io.debezium.time.ZonedTimestamp", "string", "TIMESTAMP", "2026-11-22T10:30:00.123+01:00", _AT),
    ("io.debezium.time.ZonedTimestamp", "string", "TIMESTAMP", "2026-11-22T09:30:00.123456789Z", _REJECTED),
    ("io.debezium.time.ZonedTimestamp", "string", "TEXT", "2026-11-22T09:30:00Z", "2026-11-22T09:30:00Z"),
    ("io.debezium.time.ZonedTime", "string", "TEXT", "09:30:00Z", "09:30:00Z"),
    ("io.debezium.time.ZonedTime", "string", "TIME", "09:30:00Z", _REJECTED),
    ("io.debezium.time.IsoDate", "string", "DATE", "2026-11-22Z", date(2026, 11, 22)),
    ("io.debezium.time.IsoTime", "string", "TIME", "09:30:00.5Z", 34200500000),
    ("io.debezium.time.IsoTimestamp", "string", "TIMESTAMP", "2026-11-22T09:30:00.123Z", _AT),
    ("io.debezium.time.Year", "int32", "INT", 2026, 2026),
    ("io.debezium.time.Year", "int32", "TIME", 2026, _REJECTED),
    ("io.debezium.time.Interval", "string", "TEXT", "P1Y2M3DT4H5M6.78S", "P1Y2M3DT4H5M6.78S"),
    ("io.debezium.time.MicroDuration", "int64", "BIGINT", 5, 5),
    ("io.debezium.time.MicroDuration", "int64", "TIME", 5, _REJECTED),
    ("io.debezium.time.NanoDuration", "int64", "BIGINT", 5000, 5000),
    ("io.debezium.time.NanoDuration", "int64", "TIME", 5000, _REJECTED),
    (_CONNECT + "Decimal", "bytes", "DECIMAL(38,10)", b64(_LONG), Decimal("-1234567890123456789012345678.0123456789")),
    (_CONNECT + "Decimal", "bytes", "DECIMAL(38,10)", 0.1, Decimal("0.1000000000")),
    (_CONNECT + "Decimal", "bytes", "DECIMAL(38,10)", b64(10**38), _REJECTED),
    (_CONNECT + "Decimal", "bytes", "DECIMAL(38,10)", "no base64!", _REJECTED),
    (_CONNECT + "Decimal", "bytes", "TEXT", b64(-5), "-0.0000000005"),
    (_CONNECT + "Decimal", "bytes", "DOUBLE", b64(10**9), 0.1),
    (_CONNECT + "Decimal", "bytes", "BIGINT", b64(10**10), _REJECTED),
    (
        "io.debezium.data.VariableScaleDecimal",
        "struct",
        "DECIMAL(38,10)",
        {"scale": 2, "value": b64(-150)},
        Decimal("-1.5000000000"),
    ),
    ("io.debezium.data.VariableScaleDecimal", "struct", "BIGINT", {"scale": 0, "value": b64(7)}, 7),
    ("io.debezium.data.VariableScaleDecimal", "struct", "DECIMAL(38,10)", {"scale": 11, "value": b64(1)}, _REJECTED),
    ("io.debezium.data.VariableScaleDecimal", "struct", "DECIMAL(38,10)", "1.5", _REJECTED),
    ("io.debezium.data.Bits", "bytes", "BYTES", "BQE=", b"\5\1"),
    ("io.debezium.data.Json", "string", "JSON", '{"a": 1.10}', '{"a": 1.10}'),
    ("io.debezium.data.Uuid", "string", "UUID", "0191E3C5-7F4A-7CC2-98A1-3B5E0C9D2F11", "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11"),
    ("io.debezium.data.Xml", "string", "TEXT", "<a/>", "<a/>"),
    ("io.debezium.data.Enum", "string", "TEXT", "big", "big"),
    ("io.debezium.data.EnumSet", "string", "TEXT", "a,b", "a,b"),
    ("io.debezium.data.Ltree", "string", "TEXT", "a.b", "a.b"),
    ("io.debezium.data.TsVector", "string", "TEXT", "'a':1", "'a':1"),
    ("io.debezium.data.geometry.Geometry", "struct", "JSON", {"wkb": "AQ==", "srid": 4326}, '{"wkb":"AQ==","srid":4326}'),
    ("io.debezium.data.geometry.Geography", "struct", "JSON", {"wkb": "AQ==", "srid": None}, '{"wkb":"AQ==","srid":null}'),
    ("io.debezium.data.geometry.Point", "struct", "JSON", {"x": 1.5, "y": 2.0}, '{"x":1.5,"y":2.0}'),
    ("io.debezium.data.DoubleVector", "array", "JSON", [0.1, 1e300], "[0.1,1e+300]"),
    ("io.debezium.data.FloatVector", "array", "JSON", [0.5], "[0.5]"),
    (
        "io.debezium.data.SparseVector",
        "struct",
        "JSON",
        {"dimensions": 9, "vector": {"1": 2.5}},
        '{"dimensions":9,"vector":{"1":2.5}}',
    ),
    ("", "bytes", "BYTES", "AAE=", b"\0\1"),
    ("", "int64", "BIGINT", 2**63 - 1, 2**63 - 1),
    ("", "int64", "TIME", 5, 5),
    ("", "double", "DOUBLE", 0.1, 0.1),
    ("", "boolean", "BOOLEAN", True, True),
    ("", "string", "TEXT", "x", "x"),
    ("com.example.Ticks", "int64", "TIMESTAMP", 5, _REJECTED),
    ("com.example.Ticks", "int64", "TIME", 5, _REJECTED),
    ("com.example.Ticks", "int64", "BIGINT", 5, 5),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    lake = Lakehouse.open(str(tmp_path_factory.mktemp("lake")))
    lake.create_namespace("n")
    columns = [Column("id", "BIGINT"), *(Column(name, kind) for kind, name in _NAMES.items())]
    lake.create_table("n.t", columns=columns, primary_key=["id"])
    return lake


def message(name: str, kind: str, column: str, value: object) -> bytes:
    """As Kafka Connect's converter writes it, with its schema."""
    described = {"type": kind, "optional": True, "field": column, "version": 1, "parameters": {"scale": "10"}}
    fields = [{"type": "int64", "optional": False, "field": "id"}, described | ({"name": name} if name else {})]
    row = {"type": "struct", "optional": True, "name": "s.public.t.Value", "fields": fields}
    schema = {
        "type": "struct",
        "fields": [row | {"field": "before"}, row | {"field": "after"}, {"type": "string", "field": "op"}],
    }
    return json.dumps({"schema": schema, "payload": {"before": None, "after": {"id": 1, column: value}, "op": "c"}}).encode()


@pytest.mark.parametrize(("name", "kind", "column", "value", "expected"), CASES)
def test_a_value_is_what_its_schema_says_or_a_reject(
    lake: Lakehouse, name: str, kind: str, column: str, value: object, expected: object
) -> None:
    found = fitted(lake, "n.t", "debezium-json", (None, message(name, kind, _NAMES[column], value)))
    if expected == _REJECTED:
        assert _NAMES[column] in found.misfits[0].reason
        return
    assert not found.misfits, found.misfits
    (got,) = found.batch.rows[_NAMES[column]].to_pylist()
    assert (got, type(got)) == (expected, type(expected))


def test_the_table_in_the_docs_has_each_name_and_what_takes_it() -> None:
    page = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()
    table = page.partition("| the schema's name |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.*`.*) \| (.*) \| (.*) \|$", table, re.MULTILINE)
    said = {name: takes for names, _, takes in rows for name in re.findall(r"`([\w.]+)`", names)}
    assert said.keys() == {_short(name) for name, *_ in CASES if name and "example" not in name}
    for name, _, column, _, expected in CASES:
        short = _short(name)
        if short in said and expected != _REJECTED:
            assert column.partition("(")[0] in said[short] or column in ("INT", "BIGINT"), (name, column)


def _short(name: str) -> str:
    return name.removeprefix("io.debezium.").replace(_CONNECT, "connect.")


def test_the_key_of_a_removed_row_has_a_schema_too(lake: Lakehouse) -> None:
    lake.create_table("n.days", columns=[Column("day", "DATE"), Column("price", "DECIMAL(4,2)")], primary_key=["day", "price"])
    day = {"type": "int32", "name": "io.debezium.time.Date", "field": "day"}
    price = {"type": "bytes", "name": _CONNECT + "Decimal", "parameters": {"scale": "2"}, "field": "price"}
    key = {"schema": {"type": "struct", "fields": [day, price]}, "payload": {"day": 20779, "price": b64(150)}}
    found = fitted(lake, "n.days", "debezium-json", (json.dumps(key).encode(), None))
    assert found.removed == 1
    assert found.batch.rows.select(["day", "price"]).to_pylist() == [{"day": date(2026, 11, 22), "price": Decimal("1.50")}]


def test_a_row_without_an_envelope_may_have_a_schema(lake: Lakehouse) -> None:
    column = _NAMES["TIME"]
    fields = [{"type": "int32", "name": "io.debezium.time.Time", "field": column}]
    value = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, column: 5}}
    found = fitted(lake, "n.t", "json", (None, json.dumps(value).encode()))
    assert found.batch.rows[column].to_pylist() == [5000]
    nothing: tuple[object, ...] = (None, {})
    for empty in nothing:
        without = fitted(lake, "n.t", "json", (None, json.dumps(value | {"schema": empty}).encode()))
        assert without.batch.rows[column].to_pylist() == [5]
    broken = fitted(lake, "n.t", "json", (None, json.dumps(value | {"schema": {"fields": 5}}).encode()))
    assert "schema is not one of Kafka Connect" in broken.misfits[0].reason


@pytest.mark.parametrize("value", ['{"id": 1, "id": 2}', '{"id": 1, "text": {"a" : 1.10, "a\\n": 2, "a":\n3}}'])
def test_a_message_whose_object_has_a_key_twice_is_rejected(lake: Lakehouse, value: str) -> None:
    for value_format, text in (("json", value), ("debezium-json", f'{{"op": "c", "after": {value}}}')):
        found = fitted(lake, "n.t", value_format, (None, text.encode()))
        assert [" twice" in each.reason for each in found.misfits] == [True]


_MARK = "__debezium_unavailable_value"
_UNAVAILABLE: list[tuple[str, object]] = [
    ("TEXT", _MARK),
    ("JSON", _MARK),
    ("BYTES", base64.b64encode(_MARK.encode()).decode()),
    ("JSON", [_MARK]),
    ("JSON", list(_MARK.encode())),
    ("JSON", {_MARK: _MARK}),
    ("JSON", json.dumps({_MARK: _MARK}, separators=(",", ":"))),
]


@pytest.mark.parametrize(("column", "value"), _UNAVAILABLE, ids=str)
def test_what_debezium_does_not_have_is_the_value_from_before_or_a_reject(lake: Lakehouse, column: str, value: object) -> None:
    name, old = _NAMES[column], {"TEXT": "long", "JSON": '{"a":1}', "BYTES": "AAE="}[column]

    def updated(before: object) -> Any:
        change = {"op": "u", "before": before, "after": {"id": 1, name: value}}
        return fitted(lake, "n.t", "debezium-json", (None, json.dumps(change).encode()))

    for before in (None, {"id": 1}, {"id": 1, name: value}):
        found = updated(before)
        assert (found.written, found.removed) == (0, 0)
        assert name in found.misfits[0].reason
        assert _MARK in found.misfits[0].reason
    kept = updated({"id": 1, name: old})
    assert not kept.misfits
    assert kept.batch.rows[name].to_pylist() == [b"\0\1" if column == "BYTES" else old]
    assert fitted(lake, "n.t", "json", (None, json.dumps({"id": 1, name: value}).encode())).misfits
