from __future__ import annotations

import pytest

from lakewarden.catalog.model import FlushPolicy, TableOptions, TableType
from lakewarden.catalog.options import check_type, parse_options
from lakewarden.errors import InvalidArgument, Unsupported


def test_no_options_are_the_defaults() -> None:
    assert parse_options("USER", {}) == TableOptions("local", None, "snappy", None, None)


def test_options_are_read_in_any_case_and_as_values_or_text() -> None:
    given = {
        "Storage_Id": "s3-prod",
        "FLUSH_POLICY": "rows:1000,interval:60",
        "compression": "ZSTD",
        "TARGET_FILE_SIZE": 1 << 20,
        "DELETED_RETENTION_HOURS": "0",
        "TYPE": "user",
        "USE_USER_STORAGE": "false",
    }
    assert parse_options("USER", given) == TableOptions("s3-prod", FlushPolicy(1000, 60), "zstd", 1 << 20, 0)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("rows:1", FlushPolicy(1, None)),
        ("interval:86399", FlushPolicy(None, 86_399)),
        ("ROWS:999999", FlushPolicy(999_999, None)),
        ("interval:5, rows:10", FlushPolicy(10, 5)),
        ("rows:0,interval:60", FlushPolicy(None, 60)),
    ],
)
def test_a_flush_policy_has_rows_or_an_interval(text: str, policy: FlushPolicy) -> None:
    assert parse_options("SHARED", {"FLUSH_POLICY": text}).flush_policy == policy


@pytest.mark.parametrize(
    "text",
    ["", "rows", "rows:", "rows:x", "rows:-1", "rows:1.5", "rows:0", "rows:1000000", "interval:86400", "rows:1,rows:2", "size:1",
     "rows:0,interval:0", "rows:1,", "rows:٣"],
)  # fmt: skip
def test_a_flush_policy_outside_its_bounds_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="FLUSH_POLICY"):
        parse_options("USER", {"FLUSH_POLICY": text})


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("128MB", 128 << 20), ("64 kb", 64 << 10), ("1GiB", 1 << 30), ("2048B", 2048)]
)
def test_a_size_is_bytes_or_has_a_unit(text: str, size: int) -> None:
    assert parse_options("USER", {"TARGET_FILE_SIZE": text}).target_file_size == size


@pytest.mark.parametrize("text", ["", "big", "-1", "1023", "0", "1.5MB", "12 parsecs", "2000000GB"])
def test_a_size_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="TARGET_FILE_SIZE"):
        parse_options("USER", {"TARGET_FILE_SIZE": text})


@pytest.mark.parametrize(
    ("type", "key", "value", "says"),
    [
        ("USER", "STORAGE_ID", "a b", "storage id"),
        ("USER", "COMPRESSION", "gzip", "none, snappy, zstd"),
        ("USER", "DELETED_RETENTION_HOURS", "soon", "no whole number"),
        ("USER", "DELETED_RETENTION_HOURS", "-1", "no whole number"),
        ("USER", "DELETED_RETENTION_HOURS", str(2**32), "more than"),
        ("USER", "TTL_SECONDS", "5", "only supported for STREAM"),
        ("SHARED", "EVICTION_STRATEGY", "hybrid", "only supported for STREAM"),
        ("USER", "ACCESS_LEVEL", "PUBLIC", "only supported for SHARED"),
        ("SHARED", "ACCESS_LEVEL", "SECRET", "PUBLIC, PRIVATE, RESTRICTED, DBA"),
        ("SHARED", "USE_USER_STORAGE", "true", "only supported for USER"),
        ("USER", "TYPE", "SHARED", "conflicting"),
        ("USER", "COLOUR", "red", "unknown table option COLOUR"),
    ],
)
def test_a_bad_option_is_refused_with_what_is_wrong(type: TableType, key: str, value: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse_options(type, {key: value})
    assert says in refusal.value.message


def test_an_option_stands_once() -> None:
    with pytest.raises(InvalidArgument, match="twice"):
        parse_options("USER", {"COMPRESSION": "zstd", "compression": "none"})


@pytest.mark.parametrize(("type", "key", "value"), [("SHARED", "ACCESS_LEVEL", "public"), ("USER", "USE_USER_STORAGE", "TRUE")])
def test_what_comes_later_is_not_silently_ignored(type: TableType, key: str, value: str) -> None:
    with pytest.raises(Unsupported):
        parse_options(type, {key: value})


def test_private_is_what_a_shared_table_is() -> None:
    assert parse_options("SHARED", {"ACCESS_LEVEL": "private"}) == TableOptions()


def test_types_are_read_in_any_case() -> None:
    assert (check_type("user"), check_type(" Shared ")) == ("USER", "SHARED")
    with pytest.raises(InvalidArgument, match="USER, SHARED or STREAM"):
        check_type("table")
    with pytest.raises(Unsupported):
        check_type("stream")
