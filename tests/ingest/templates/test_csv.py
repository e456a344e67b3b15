"""What the template `csv` reads, infers and refuses."""

from __future__ import annotations

import gzip
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lakewarden.errors import InvalidArgument, LakewardenError, Unsupported
from lakewarden.ingest.templates.csv_files import CSV, CsvOptions
from lakewarden.tables.rows import records
from tests.ingest.templates.objects import columns, object_of, read, types_of


def test_types_are_those_of_the_values() -> None:
    rows = read(
        CSV,
        b"id,share,day,at,ok,zip,long,name,nothing\n"
        b"1,2,2026-11-22,2026-11-22,true,007,12345678901234567890,x,\n"
        b'-3,2.5,2026-11-23,2026-11-22T09:30:00Z,FALSE,1,1,"",\n',
    )
    assert types_of(rows) == {
        "id": "BIGINT",
        "share": "DOUBLE",
        "day": "DATE",
        "at": "TIMESTAMP",
        "ok": "BOOLEAN",
        "zip": "TEXT",
        "long": "TEXT",
        "name": "TEXT",
        "nothing": "TEXT",
    }
    assert rows.to_pylist()[1] == {
        "id": -3,
        "share": 2.5,
        "day": date(2026, 11, 23),
        "at": datetime(2026, 11, 22, 9, 30, tzinfo=UTC),
        "ok": False,
        "zip": "1",
        "long": "1",
        "name": "",
        "nothing": None,
    }


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["9223372036854775807"], "BIGINT"),
        (["9223372036854775808"], "TEXT"),
        (["123456789012345678", "0.5"], "TEXT"),  # DOUBLE would change the first
        (["1", "NaN"], "DOUBLE"),
        (["1e400"], "TEXT"),
        (["0x10"], "TEXT"),
        (["2026-02-30"], "TEXT"),
        (["2026-02-28", "1"], "TEXT"),
        (["2026-11-22 10:00", "2026-11-22T10:00:00+02:00"], "TIMESTAMP"),
        (["true", "1"], "TEXT"),
        (["0.1", "0.30000000000000004", "-1.50", "1e300"], "DOUBLE"),
        (["999999999999999.99", "1"], "DECIMAL(38,2)"),  # DOUBLE would change the first
        (["1", "-0.12345678901234567891"], "DECIMAL(38,20)"),
        (["999999999999999.99", "-0.0"], "TEXT"),
        (["999999999999999.99", "1e2"], "TEXT"),
        (["0." + "1" * 38], "DECIMAL(38,38)"),
        (["1." + "1" * 38], "TEXT"),
    ],
)
def test_a_column_is_as_wide_as_its_values(values: list[str], type: str) -> None:
    rows = read(CSV, "\n".join(["v", *values]).encode())
    assert types_of(rows) == {"v": type}
    if type.startswith("DECIMAL"):
        assert rows["v"].to_pylist() == list(map(Decimal, values))


def test_types_widen_in_a_later_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK_BYTES", 16)
    rows = read(CSV, b"v\n" + b"1\n" * 40 + b"2.5\n" + b"3\n" * 40)
    assert types_of(rows) == {"v": "DOUBLE"}
    assert rows["v"].to_pylist() == [1.0] * 40 + [2.5] + [3.0] * 40


def test_values_of_a_column_of_the_table_take_its_type() -> None:
    rows = read(CSV, b"ID,code,new\n1,007,1\n2,8,2\n", columns(id="TEXT", code="DECIMAL(5,1)", gone="BIGINT"))
    assert types_of(rows) == {"id": "TEXT", "code": "DECIMAL(5,1)", "new": "BIGINT"}
    assert rows["id"].to_pylist() == ["1", "2"]


def test_a_value_that_does_not_fit_is_named_with_its_line() -> None:
    with pytest.raises(InvalidArgument, match=r"column 'b', line 4: 'x' does not fit BIGINT"):
        read(CSV, b'a,b\n"1\n2",3\n1,x\n', columns(b="BIGINT"))


def test_options() -> None:
    data = b"# made by hand\na\tb\nNA\t-\n\t5\n"
    rows = read(CSV, data, DELIMITER="\\t", SKIP_LINES="1", NULLS=["NA", "-"])
    assert rows.to_pylist() == [{"a": None, "b": None}, {"a": None, "b": 5}]
    named = read(CSV, b"1,2\n3,4\n", header="false", columns=["x", "y"], types="text")
    assert named.to_pylist() == [{"x": "1", "y": "2"}, {"x": "3", "y": "4"}]
    assert read(CSV, b'1,"2\n', header=False, quoted=False).column_names == ["column_1", "column_2"]


LINES = [
    b"id,name\r1,x\r2,y\r",
    b"id,name\r1,x\r\n2,y\r\n",
    b"id,name\n1,x\r2,y\r\n",
    b"id,name\r\n1,x\n\r\n2,y",
    b"\xef\xbb\xbfid,name\r1,x\r2,y",
]


@pytest.mark.parametrize("data", LINES)
@pytest.mark.parametrize("block", [3, 1 << 20])
def test_lines_end_at_cr_and_lf(data: bytes, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK_BYTES", block)
    assert read(CSV, data).to_pylist() == [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]
    with pytest.raises(InvalidArgument, match="line 2: 'x' does not fit BIGINT"):
        read(CSV, data, columns(name="BIGINT"))


@pytest.mark.parametrize("value", ['5" pipe', '5"', 'a""b', 'a"b"c"', ' "x"', "''", '"'])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_quote_within_a_value_is_a_letter(value: str, end: str) -> None:
    if value == '"':
        with pytest.raises(InvalidArgument, match="quote that is opened on or after line 2 is never closed"):
            read(CSV, f"id,name{end}1,{value}{end}2,y{end}".encode())
        return
    assert read(CSV, f"id,name{end}1,{value}{end}2,y{end}".encode())["name"].to_pylist() == [value, "y"]
    assert read(CSV, f"id;name{end}1;,{value}{end}".encode(), delimiter=";")["name"].to_pylist() == [f",{value}"]


def test_names_are_made_ones_that_the_catalog_takes() -> None:
    rows = read(CSV, "id,Air Time (min),2013,,select,Größe,_seq\n1,2,3,4,5,6,7\n".encode("utf-8-sig"))
    assert rows.column_names == ["id", "Air_Time_min", "c_2013", "column_4", "select_1", "Gro_e", "seq"]


def test_an_object_without_rows_has_no_batches() -> None:
    assert list(CSV.read(object_of(b"a,b\n\n\n"), CsvOptions(), {})) == []


_PACKED = gzip.compress(b"a\n1\n", mtime=0) + gzip.compress(b"2\n", mtime=0)


def _zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("data", [_PACKED, _zstd(b"a\n1\n2\n")], ids=["gzip", "zstd"])
def test_packed_objects_are_unpacked(data: bytes) -> None:
    assert read(CSV, data)["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the object is empty"),
        (b"\n1\n", "line 1 is empty"),
        (b"a,A\n1,2\n", "two columns have the name 'A'"),
        (b"a,b\n1\n", "line 2 has 1 values, and there are 2 columns"),
        (b'a,b\n"1\n2",3\n1,2,3\n', "line 4 has 3 values"),
        (b'a\n"1\n', "never closed"),
        (b"a\n\xff\n", "not CSV in UTF-8"),
        (b"\xff\n1\n", "first record is not CSV in UTF-8"),
        ("a\n1\n".encode("utf-16"), "UTF-16"),
        (_PACKED[:-6], "not a whole gzip file"),
        (_zstd(b"a\n1\n")[:-5], "not a whole zstd file"),
        (b"a\n" + b"1" * 2000 + b"\n", "more than 1,000 bytes"),
        (b"a" * 2000 + b"\n", "more than the 1,000 bytes"),
    ],
    ids=lambda each: each[:12] if isinstance(each, str) else "",
)
def test_what_is_not_csv_is_refused_with_the_reason(data: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK_BYTES", 500)
    with pytest.raises(LakewardenError, match=why):
        read(CSV, object_of(data, value_bytes=1000))


def test_an_object_that_unpacks_to_too_much_is_refused() -> None:
    bomb = gzip.compress(b"a\n" + b"\n" * 200_000)
    with pytest.raises(Unsupported, match="unpacks to more than the 100,000 bytes"):
        read(CSV, object_of(bomb, unpacked_bytes=100_000))
    assert zlib.decompress(bomb, 31).count(b"\n") == 200_001
