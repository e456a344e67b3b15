"""One hash for keys, in this process and in Spark: golden vectors hold it still."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakewarden.catalog.buckets import bucket_of, divided_by_bucket, murmur3


@pytest.mark.parametrize(
    ("text", "seed", "number"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"test", 0, 0xBA6BD213),
        (b"Hello, world!", 0, 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723),
        (b"aaa", 0x9747B28C, 0x283E0130),
        (b"aa", 0x9747B28C, 0x5D211726),
        (b"a", 0x9747B28C, 0x7FA09EA6),
    ],
)
def test_the_hash_is_the_published_one(text: bytes, seed: int, number: int) -> None:
    among = pa.array([b"other", text, b"x" * 37], pa.binary())
    assert int(murmur3(among, seed)[1]) == number
    assert int(murmur3(among.slice(1, 1), seed)[0]) == number


def test_a_bucket_does_not_depend_on_the_width_of_the_type_nor_on_other_rows() -> None:
    narrow = pa.table({"id": pa.array([1, 2, 300], pa.int32()), "k": ["a", None, ""]})
    wide = pa.table({"id": pa.array([300, 2, 1], pa.int64()), "k": pa.array(["", None, "a"])})
    assert bucket_of(narrow, ["id", "k"], 7).to_pylist() == bucket_of(wide, ["id", "k"], 7).to_pylist()[::-1]


def test_null_and_empty_and_the_border_between_columns_count() -> None:
    rows = pa.table({"a": ["x", "xy", None, ""], "b": ["yz", "z", "", None]})
    assert len(set(bucket_of(rows, ["a", "b"], 997).to_pylist())) == 4


def test_rows_are_divided_in_their_order_and_spread() -> None:
    rows = pa.table({"id": pa.array(range(4_000), pa.int64()), "_seq": pa.array(range(4_000), pa.int64())})
    parts = dict(divided_by_bucket(rows, ["id"], 4))
    assert sorted(parts) == [0, 1, 2, 3]
    assert all(900 < part.num_rows < 1_100 for part in parts.values())
    assert all(part.equals(part.sort_by("id")) for part in parts.values())


def test_golden_buckets() -> None:
    rows = pa.table({"id": pa.array([0, 1, 2, 3, -1, 2**40], pa.int64()), "_seq": pa.array([9] * 6, pa.int64())})
    assert bucket_of(rows, ["id"], 4).to_pylist() == [1, 2, 0, 2, 2, 2]
    assert bucket_of(rows, [], 4).to_pylist() == [1, 2, 0, 2, 2, 2]
    several = pa.table({"dt": ["2026-11-22", "2026-11-23", "ä"], "id": pa.array([7, 7, 8])})
    assert bucket_of(several, ["dt", "id"], 10).to_pylist() == [4, 6, 4]
