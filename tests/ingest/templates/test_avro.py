"""What the template `avro` reads and refuses."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from fastavro.write import LOGICAL_WRITERS

from lakewarden.errors import LakewardenError
from lakewarden.ingest.templates.avro_files import AVRO
from tests.ingest.templates.files import avro
from tests.ingest.templates.objects import columns, read, types_of


def _record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": each} for name, each in fields]}


_INNER = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]}
_FIELDS: list[tuple[str, Any, object, str]] = [
    ("i", "int", 1, "INT"),
    ("l", ["null", "long"], 1 << 40, "BIGINT"),
    ("f", "float", 0.5, "FLOAT"),
    ("b", "bytes", b"\0", "BYTES"),
    ("e", {"type": "enum", "name": "en", "symbols": ["A"]}, "A", "TEXT"),
    ("d", {"type": "int", "logicalType": "date"}, date(2026, 11, 22), "DATE"),
    ("t", {"type": "long", "logicalType": "timestamp-micros"}, datetime(2026, 11, 22, tzinfo=UTC), "TIMESTAMP"),
    ("c", {"type": "int", "logicalType": "time-millis"}, time(0, 0, 1), "TIME"),
    ("p", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("1.50"), "DECIMAL(5,2)"),
    ("u", {"type": "string", "logicalType": "uuid"}, UUID(int=1), "UUID"),
    ("n", ["null", _INNER], {"x": 1}, "JSON"),
    ("a", {"type": "array", "items": "string"}, ["x"], "JSON"),
    ("w", ["int", "string"], "x", "JSON"),
]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_each_type_has_one_in_the_catalog(codec: str) -> None:
    schema = _record(*(each[:2] for each in _FIELDS))
    rows = read(AVRO, avro(schema, [{name: value for name, _, value, _ in _FIELDS}] * 3, codec))
    assert types_of(rows) == {each[0]: each[3] for each in _FIELDS}
    found = rows.to_pylist()[2]
    for name, _, value, kind in _FIELDS:
        if kind == "JSON":
            assert json.loads(found[name]) == value
        elif kind not in ("UUID", "TIME"):
            assert found[name] == value
    assert (found["u"], found["c"]) == (str(UUID(int=1)), 1_000_000)


def test_values_of_a_column_of_the_table_take_its_type_where_that_is_exact() -> None:
    data = avro(_record(("ID", "long")), [{"ID": 1}])
    assert types_of(read(AVRO, data, columns(id="SMALLINT"))) == {"id": "SMALLINT"}
    with pytest.raises(LakewardenError, match="column 'id', row 1: 1 does not fit TEXT"):
        read(AVRO, data, columns(id="TEXT"))


_MICROS = datetime(2026, 11, 22, 9, 30, 0, 123456, UTC)
_NANOS = int(_MICROS.timestamp()) * 10**9 + 123456000
_MOMENT: dict[str, Any] = {"type": "long", "logicalType": "timestamp-nanos"}
_MILLIS: dict[str, Any] = {"type": "long", "logicalType": "timestamp-millis"}
_DAY: dict[str, Any] = {"type": "int", "logicalType": "date"}
_EXACT: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 20}
_WIDE = Decimal("123456789012345678.12345678901234567891")
_TREE = {"type": "record", "name": "tree", "fields": [{"name": "v", "type": "double"}, {"name": "t", "type": ["null", "tree"]}]}


def test_values_are_as_they_were_written() -> None:
    inner = {
        "type": "record",
        "name": "deep",
        "fields": [
            {"name": "at", "type": _MOMENT},
            {"name": "n", "type": _EXACT},
            {"name": "many", "type": {"type": "map", "values": ["int", "string", "null"]}},
            {"name": "raw", "type": {"type": "fixed", "name": "two", "size": 2}},
        ],
    }
    schema = _record(("at", _MOMENT), ("wide", _EXACT), ("s", {"type": "array", "items": ["null", inner]}), ("t", _TREE))
    value = {"at": _NANOS, "n": _WIDE, "many": {"a": 1, "b": "x", "c": None}, "raw": b"ab"}
    tree = {"v": 0.1, "t": {"v": 1e300, "t": None}}
    (row,) = read(AVRO, avro(schema, [{"at": _NANOS, "wide": _WIDE.copy_negate(), "s": [value, None], "t": tree}])).to_pylist()
    assert (row["at"], row["wide"]) == (_MICROS, _WIDE.copy_negate())
    deep = {"at": "2026-11-22T09:30:00.123456Z", "n": str(_WIDE), "many": {"a": 1, "b": "x", "c": None}, "raw": "YWI="}
    assert json.loads(row["s"]) == [deep, None]
    assert json.loads(row["t"]) == tree


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (_MOMENT, _NANOS + 1, "column 'v', row 1: .* does not fit TIMESTAMP"),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, 1, "does not fit TIMESTAMP"),
        (_MILLIS, -(2**53), "column 'v', row 1: .* does not fit TIMESTAMP"),
        (_DAY, -719_163, "column 'v', row 1: .* does not fit DATE"),
        ({"type": "array", "items": _DAY}, [-719_163], r"column 'v\[\]': .* does not fit DATE"),
        ({"type": "map", "values": _MOMENT}, {"a": 1}, r"column 'v\{\}': .* does not fit TIMESTAMP"),
        ({"type": "array", "items": "double"}, [float("nan")], r"column 'v\[\]': nan is not a number of JSON"),
        (["int", "double", "string"], float("inf"), "column 'v'"),
        (["int", _MILLIS, "string"], 1, "a union of several types, or a record within itself, with timestamp-millis"),
        (
            {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"},
            b"0" * 12,
            "no column type .* Avro's type duration",
        ),
    ],
)
def test_a_value_that_would_change_is_refused_with_its_path(kind: Any, value: object, why: str) -> None:
    kept = dict(LOGICAL_WRITERS)
    LOGICAL_WRITERS.clear()  # values as they are written
    try:
        data = avro(_record(("v", kind)), [{"v": value}])
    finally:
        LOGICAL_WRITERS.update(kept)
    with pytest.raises(LakewardenError, match=why):
        read(AVRO, data)


_GOOD = avro(_record(("v", "string")), [{"v": "x" * 100}] * 100, "null")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not an Avro file"),
        (b"Obj\1", "not an Avro file"),
        (_GOOD[:-500], "not an Avro file"),
        (_GOOD.replace(b"null", b"nule"), "not an Avro file"),
        (avro({"type": "string"}, ["x"]), "no records"),  # type: ignore[list-item]
        (avro(_record(*((f"k{n}", "int") for n in range(1001))), []), "1,001 columns"),
    ],
    ids=range(6),
)
def test_what_cannot_be_read_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(LakewardenError, match=why):
        read(AVRO, data)
