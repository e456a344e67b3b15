"""What the template `parquet` reads and refuses."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.errors import LakewardenError
from lakewarden.ingest.templates.fitting import ObjectFitting
from lakewarden.ingest.templates.parquet_files import PARQUET
from tests.ingest.templates.objects import columns, object_of, read, types_of

_ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int32()),
        "small": pa.array([1, None], pa.uint8()),
        "wide": pa.array([1 << 63, 0], pa.uint64()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "at": pa.array([datetime(2026, 11, 22, tzinfo=UTC), None], pa.timestamp("ns", tz="UTC")),
        "clock": pa.array([time(9, 30), None]),
        "kind": pa.array(["a", "a"]).dictionary_encode(),
        "nested": pa.array([{"x": [1, 2]}, None]),
        "pairs": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        "raw": pa.array([b"\0", b""]),
    }
)


def _parquet(rows: pa.Table, **how: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **how)  # type: ignore[arg-type]
    return sink.getvalue()


def test_each_type_has_one_in_the_catalog() -> None:
    rows = read(PARQUET, _parquet(_ROWS))
    assert types_of(rows) == {
        "id": "INT",
        "small": "SMALLINT",
        "wide": "DECIMAL(20,0)",
        "price": "DECIMAL(9,2)",
        "at": "TIMESTAMP",
        "clock": "TIME",
        "kind": "TEXT",
        "nested": "JSON",
        "pairs": "JSON",
        "raw": "BYTES",
    }
    first = rows.to_pylist()[0]
    assert first["at"] == datetime(2026, 11, 22, tzinfo=UTC)
    assert json.loads(first["nested"]) == {"x": [1, 2]}
    assert json.loads(first["pairs"]) == {"k": 1}
    assert first["wide"] == 1 << 63


def test_nested_values_are_as_they_are() -> None:
    at = datetime(2026, 11, 22, 9, 30, 0, 5, UTC)
    wide = "123456789012345678.12345678901234567891"
    kinds: dict[str, tuple[pa.DataType, object, object]] = {
        "d": (pa.decimal128(38, 20), Decimal(wide), wide),
        "at": (pa.timestamp("ns", "UTC"), at, "2026-11-22T09:30:00.000005Z"),
        "local": (pa.timestamp("ms"), at.replace(year=1, microsecond=0, tzinfo=None), "0001-11-22T09:30:00Z"),
        "day": (pa.date32(), at.date(), "2026-11-22"),
        "clock": (pa.time64("ns"), time(9, 30, 0, 5), "09:30:00.000005"),
        "raw": (pa.binary(), b"\0\1", "AAE="),
        "fixed": (pa.binary(2), b"ab", "YWI="),
        "wide": (pa.uint64(), 2**64 - 1, str(2**64 - 1)),
        "x": (pa.float64(), 0.1, 0.1),
        "kind": (pa.dictionary(pa.int8(), pa.string()), "a", "a"),
        "long": (pa.large_string(), "b", "b"),
        "none": (pa.null(), None, None),
        "pairs": (pa.map_(pa.int32(), pa.list_(pa.bool_())), [(1, [True, None])], {"1": [True, None]}),
        "s": (pa.struct([("y", pa.int8())]), {"y": 1}, {"y": 1}),
    }
    whole = pa.struct([pa.field(name, kind) for name, (kind, _, _) in kinds.items()])
    given = [{name: value for name, (_, value, _) in kinds.items()}, None]
    batch = pa.record_batch({"n": pa.array(given, whole), "l": pa.array([given[:1], []], pa.list_(whole))})
    rows = pa.Table.from_batches([ObjectFitting({})(batch)]).to_pylist()
    expected = {name: said for name, (_, _, said) in kinds.items()}
    assert json.loads(rows[0]["n"]) == expected
    assert json.loads(rows[0]["l"]) == [expected]
    assert [row["n"] and 1 for row in rows] == [1, None]
    assert rows[1]["l"] == "[]"
    parts: list[Any] = [pa.array([1, 2], pa.int8()), pa.array(["a", "b"])]
    union: Any = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), parts)
    assert ObjectFitting({})(pa.record_batch({"u": union})).to_pylist() == [{"u": "1"}, {"u": '"b"'}]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([{"x": float("nan")}]), "column 'v.x': nan is not a number of JSON"),
        (pa.array([[0.5, float("-inf")]]), r"column 'v\[\]': -inf is not a number of JSON"),
        (pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int8())), "column 'v': a map has the key 'k' twice"),
        (pa.array([{"at": 1}], pa.struct([("at", pa.timestamp("ns"))])), "column 'v.at': .* does not fit TIMESTAMP"),
        (pa.array([{"t": 1}], pa.struct([("t", pa.time64("ns"))])), "column 'v.t': .* does not fit TIME"),
        (pa.array([[-800_000]], pa.list_(pa.date32())), r"column 'v\[\]': .* does not fit DATE"),
        (pa.array([{"d": 1}], pa.struct([("d", pa.duration("ns"))])), "column 'v.d': there is no column type for .* duration"),
        (pa.array([[1]], pa.list_(pa.duration("s"))), r"column 'v\[\]': there is no column type"),
        (
            pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]),
            "column 'v' has two fields 'x'",
        ),
    ],
)
def test_a_nested_value_that_would_change_is_refused_with_its_path(values: Any, why: str) -> None:
    with pytest.raises(LakewardenError, match=why):
        ObjectFitting({})(pa.record_batch({"v": values}))


@pytest.mark.slow
def test_row_groups_come_in_order_and_a_large_object_is_read_in_parts() -> None:
    rows = pa.table({"n": range(200_000), "text": [f"{n:0100}" for n in range(200_000)]})
    data = _parquet(rows, row_group_size=30_000, compression="none", use_dictionary=False)
    assert len(data) > 16 << 20
    lengths: list[int] = []

    def ranges(start: int, length: int) -> bytes:
        lengths.append(length)
        return data[start : start + length]

    source = object_of(data)
    source.ranges = ranges
    assert read(PARQUET, source).select(["n"]).equals(rows.select(["n"]).cast(pa.schema([("n", pa.int64())])))
    assert max(lengths) <= 4 << 20
    assert sum(lengths) < 1.5 * len(data)


def test_values_of_a_column_of_the_table_take_its_type_where_that_is_exact() -> None:
    data = _parquet(pa.table({"ID": pa.array([1, 2], pa.int64())}))
    assert types_of(read(PARQUET, data, columns(id="SMALLINT"))) == {"id": "SMALLINT"}
    with pytest.raises(LakewardenError, match=r"column 'id', row 2: 2 does not fit TEXT|column 'id', row 1: 1 does not fit TEXT"):
        read(PARQUET, data, columns(id="TEXT"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a Parquet file"),
        (b"PAR1", "not a Parquet file"),
        (_parquet(_ROWS)[:-9], "not a Parquet file"),
        (_parquet(_ROWS)[200:], "not a Parquet file"),
        (_parquet(pa.table({"d": pa.array([1], pa.duration("s"))})), "no column type for values of Arrow's type duration"),
        (_parquet(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), version="2.6"), "does not fit TIMESTAMP"),
        (_parquet(pa.table({str(n): [1] for n in range(1001)})), "1,001 columns"),
    ],
    ids=range(7),
)
def test_what_cannot_be_read_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(LakewardenError, match=why):
        read(PARQUET, data)
