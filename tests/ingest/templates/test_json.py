"""What the template `json` reads, infers and refuses."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakewarden.errors import LakewardenError
from lakewarden.ingest.templates import json_files
from lakewarden.ingest.templates.json_files import JSON
from tests.ingest.templates.objects import columns, object_of, read, types_of


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}\n{"a": 2}\n',
        b'{"a": 1}{"a": 2}',
        b'\xef\xbb\xbf \n[ {"a": 1} ,\r\n {"a": 2} ]\n',
        gzip.compress(b'[{"a": 1},{"a": 2}]', mtime=0),
    ],
)
def test_lines_and_arrays_of_objects_are_the_same(data: bytes) -> None:
    assert read(JSON, data).to_pylist() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, None, -(1 << 63)], "BIGINT"),
        ([1 << 63], "JSON"),
        ([1, 2.5], "DOUBLE"),
        ([(1 << 53) + 1, 0.5], "JSON"),
        ([True, None], "BOOLEAN"),
        ([True, 1], "JSON"),
        (["2026-11-22"], "DATE"),
        (["2026-11-22T09:30:00Z", "2026-11-22"], "TIMESTAMP"),
        (["1"], "TEXT"),
        (["a", 1], "JSON"),
        ([{"b": [1]}, None], "JSON"),
    ],
)
def test_a_column_is_as_wide_as_its_values(values: list[object], type: str) -> None:
    rows = read(JSON, "\n".join(json.dumps({"v": value}) for value in values).encode())
    assert types_of(rows) == {"v": type}
    if type == "JSON":
        assert [value and json.loads(value) for value in rows["v"].to_pylist()] == values


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["0.1", "1e2", "0.30000000000000004"], "DOUBLE"),
        (["999999999999999.99", "1"], "DECIMAL(38,2)"),
        (["999999999999999.99", "-0.0"], "JSON"),
        (["123456789012345678901234567890.123456789"], "JSON"),
        (['{"a": [1.10, 1e2]}', "5.0"], "JSON"),
    ],
)
def test_numbers_are_those_that_were_written(values: list[str], type: str) -> None:
    rows = read(JSON, "".join(f'{{"v": {value}}}' for value in values).encode())
    assert types_of(rows) == {"v": type}
    found = [each.replace(" ", "") for each in values]
    assert rows["v"].to_pylist() == (found if type == "JSON" else list(map(float if type == "DOUBLE" else Decimal, found)))


def test_keys_come_and_go_and_a_key_that_is_null_everywhere_is_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "_GROUP_ROWS", 2)
    lines = [{"a": 1, "never": None}, {"a": None}, {"b": "x"}, {}, {"a": 0.5}]
    rows = read(JSON, "\n".join(map(json.dumps, lines)).encode())
    assert types_of(rows) == {"a": "DOUBLE", "b": "TEXT"}
    assert rows["a"].to_pylist() == [1.0, None, None, None, 0.5]
    assert rows["b"].to_pylist() == [None, None, "x", None, None]


def test_values_of_a_column_of_the_table_take_its_type() -> None:
    table = columns(A="JSON", n="DOUBLE", d="TIMESTAMP", u="UUID", b="BYTES", t="TEXT")
    data = {"a": 1, "n": 2, "d": "2026-11-22", "u": "0191E3C5-7F4A-7CC2-98A1-3B5E0C9D2F11", "b": "AAE=", "t": "1"}
    assert read(JSON, json.dumps(data).encode(), table).to_pylist() == [
        {
            "A": "1",
            "n": 2.0,
            "d": datetime(2026, 11, 22, tzinfo=UTC),
            "u": "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11",
            "b": b"\0\1",
            "t": "1",
        }
    ]
    with pytest.raises(LakewardenError, match=r"key 't' of object 2: 5 does not fit TEXT"):
        read(JSON, b'{"t": "a"}{"t": 5}', table)


def test_dates_may_stay_text() -> None:
    assert read(JSON, b'{"d": "2026-11-22"}')["d"].to_pylist() == [date(2026, 11, 22)]
    assert types_of(read(JSON, b'{"d": "2026-11-22"}', dates=False)) == {"d": "TEXT"}


def test_no_object_is_no_row() -> None:
    for data in (b"", b" \n", b"[]", b"[ ]\n"):
        with pytest.raises(ValueError, match="Must pass schema"):
            read(JSON, data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": 1}\n{"a": ', "object 2 is not JSON"),
        (b'{"a": 1}\n3\n', "object 2 is expected, and there is '3'"),
        (b'[{"a": 1} {"a": 2}]', "',' or ']' is expected after object 1"),
        (b'[{"a": 1}, ]x', "there is 'x' behind the array"),
        (b'[{"a": 1},', "the array ends within"),
        (b'[{"a": 1}', "after object 1, and there is 'the end'"),
        (b'{"a": NaN}', r"object 1: NaN is not JSON, at `\$\.a`"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "object 1: Exceeds the limit"),
        (b'{"a": "\xff"}', "not text in UTF-8"),
        (b'{"a": 1}{"a": "\\ud800"}', "key 'a' of object 2"),
        (b'{"d": "2026-11-22"}{"d": "\\ud800"}', "key 'd' of object 2"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": "' + b"x" * 200_000 + b'"}', "more than the 100,000 bytes"),
        (json.dumps({f"k{n}": 1 for n in range(1001)}).encode(), "1,001 columns"),
        (b'{"a": 1, "A": 2}', "two columns have the name"),
        (b'{"a": {"b": 1e99999999999999999999}}', r"the exponent of .* is out of range, at `\$\.a\.b`"),
        (b'{"a": 1}{"a": {"b": 1, "b": 2}}', r"object 2: an object in it has the key 'b' twice, at `\$\.a`"),
        (b'{"a": {"b": "\\ud800"}}', "key 'a' of object 1"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_not_json_is_refused_with_the_reason(data: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "_BLOCK_BYTES", 1 << 16)
    with pytest.raises(LakewardenError, match=why):
        read(JSON, object_of(data, value_bytes=100_000))
