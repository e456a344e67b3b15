from __future__ import annotations

import pytest

from lakewarden.catalog.access import ACCESS_LEVELS
from lakewarden.catalog.model import FlushPolicy, TableOptions, TableType
from lakewarden.catalog.options import OPTIONS, alter_options, check_type, ignored_options, parse_options, shown_options
from lakewarden.errors import InvalidArgument


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
        ("USER", "DELETED_RETENTION_HOURS", "soon", "not a whole number"),
        ("USER", "DELETED_RETENTION_HOURS", "-1", "not a whole number"),
        ("USER", "DELETED_RETENTION_HOURS", str(2**32), "more than"),
        ("USER", "TTL_SECONDS", "5", "only supported for STREAM"),
        ("SHARED", "EVICTION_STRATEGY", "hybrid", "only supported for STREAM"),
        ("USER", "ACCESS_LEVEL", "PUBLIC", "only supported for SHARED"),
        ("SHARED", "ACCESS_LEVEL", "SECRET", "PUBLIC, PRIVATE, RESTRICTED, DBA"),
        ("SHARED", "USE_USER_STORAGE", "true", "only supported for USER"),
        ("USER", "CHANGE_TRACKING", "perhaps", "must be on or off"),
        ("USER", "delta.enableChangeDataFeed", "perhaps", "CHANGE_DATA_FEED 'perhaps' must be on or off"),
        ("STREAM", "CHANGE_DATA_FEED", "on", "only supported for USER and SHARED"),
        ("USER", "COMPACTION_RATIO", "much", "COMPACTION_RATIO 'much' is not a number"),
        ("USER", "COMPACTION_RATIO", "-1", "COMPACTION_RATIO -1: a number from 0 to 1000000"),
        ("SHARED", "COMPACTION_RATIO", "nan", "COMPACTION_RATIO nan: a number from 0"),
        ("STREAM", "COMPACTION_RATIO", "3", "only supported for USER and SHARED"),
        ("STREAM", "CHANGE_TRACKING", "off", "only supported for USER and SHARED"),
        ("SHARED", "LOG_RETENTION", "a while", "'7 d'"),
        ("USER", "LOG_RETENTION", "0", "above 0"),
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


@pytest.mark.parametrize(("text", "uses"), [("TRUE", True), ("true", True), ("FALSE", False), ("yes", False)])
def test_a_user_table_may_use_its_users_storages(text: str, uses: bool) -> None:
    assert parse_options("USER", {"USE_USER_STORAGE": text}).use_user_storage is uses


@pytest.mark.parametrize("level", ACCESS_LEVELS)
def test_a_shared_table_has_an_access_level_and_private_is_the_default(level: str) -> None:
    assert parse_options("SHARED", {"ACCESS_LEVEL": level.lower()}).access_level == level
    assert parse_options("SHARED", {}).access_level == "PRIVATE"


def test_a_stream_has_a_time_to_live_and_may_bound_its_size() -> None:
    given = {"TTL_SECONDS": 30, "EVICTION_STRATEGY": "HYBRID", "MAX_STREAM_SIZE_BYTES": "1000"}
    assert parse_options("STREAM", given) == TableOptions(ttl_seconds=30, eviction_strategy="hybrid", max_stream_size=1000)


def test_what_a_stream_ignores_is_checked_named_and_not_kept() -> None:
    given = {"TTL_SECONDS": "5", "STORAGE_ID": "s3", "FLUSH_POLICY": "rows:5", "DELETED_RETENTION_HOURS": 1}
    assert parse_options("STREAM", given) == TableOptions(ttl_seconds=5)
    assert ignored_options("STREAM", given) == ["STORAGE_ID", "FLUSH_POLICY", "DELETED_RETENTION_HOURS"]
    assert ignored_options("USER", {"FLUSH_POLICY": "rows:5"}) == []
    with pytest.raises(InvalidArgument, match="FLUSH_POLICY"):
        parse_options("STREAM", {"TTL_SECONDS": "5", "FLUSH_POLICY": "sometimes"})


@pytest.mark.parametrize("ttl", ["0", "-1", "soon", "1.5", "10000000001"])
def test_a_time_to_live_outside_its_bounds_is_refused(ttl: str) -> None:
    with pytest.raises(InvalidArgument, match="TTL_SECONDS"):
        parse_options("STREAM", {"TTL_SECONDS": ttl})


@pytest.mark.parametrize("type", ["USER", "SHARED", "STREAM"])
@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_is_taken_by_the_types_that_the_table_names(type: TableType, option: str) -> None:
    value = _SOME[option] or type
    given: dict[str, object] = {"TTL_SECONDS": 9, option: value} if type == "STREAM" else {option: value}
    if OPTIONS[option].takes[type] == "refused":
        with pytest.raises(InvalidArgument, match=f"{option} is only supported for .*, and this is a {type} table"):
            parse_options(type, given)
    else:
        parse_options(type, given)


@pytest.mark.parametrize("type", ["USER", "SHARED", "STREAM"])
def test_what_is_shown_is_taken_again_and_says_all(type: TableType) -> None:
    taken = [name for name, spec in OPTIONS.items() if spec.show is not None and spec.takes[type] in ("taken", "required")]
    options = parse_options(type, {name: _OTHER.get(name, _SOME[name]) for name in taken})
    shown = shown_options(type, options)
    assert list(shown) == taken
    assert parse_options(type, shown) == options


def test_what_is_always_shown() -> None:
    assert shown_options("USER", TableOptions()) == {"COMPRESSION": "snappy"}
    assert shown_options("SHARED", TableOptions()) == {"COMPRESSION": "snappy", "ACCESS_LEVEL": "PRIVATE"}
    assert shown_options("STREAM", TableOptions(ttl_seconds=5)) == {"TTL_SECONDS": 5, "EVICTION_STRATEGY": "time_based"}


_OTHER = {"USE_USER_STORAGE": "TRUE"}
"""Than the default, where `_SOME` has that."""

_SOME: dict[str, str] = {
    "TYPE": "",
    "STORAGE_ID": "local",
    "USE_USER_STORAGE": "FALSE",
    "FLUSH_POLICY": "rows:5",
    "DELETED_RETENTION_HOURS": "1",
    "TTL_SECONDS": "30",
    "ACCESS_LEVEL": "DBA",
    "COMPRESSION": "zstd",
    "TARGET_FILE_SIZE": "1MB",
    "EVICTION_STRATEGY": "size_based",
    "MAX_STREAM_SIZE_BYTES": "1",
    "ON_DUPLICATE": "replace",
    "CHANGE_TRACKING": "off",
    "LOG_RETENTION": "7 d",
    "CHANGE_DATA_FEED": "on",
    "COMPACTION_RATIO": "2.5",
}


def test_altering_changes_what_is_given_and_leaves_the_rest() -> None:
    before = parse_options("USER", {"FLUSH_POLICY": "rows:5", "COMPRESSION": "zstd"})
    after = alter_options("USER", before, {"FLUSH_POLICY": "row_limit:7, interval_seconds:9"})
    assert (after.flush_policy, after.compression) == (FlushPolicy(7, 9), "zstd")
    assert alter_options("USER", after, {"flush_policy": "null"}).flush_policy is None
    assert alter_options("USER", after, {"FLUSH_POLICY": "DEFAULT"}).flush_policy is None


@pytest.mark.parametrize(
    ("type", "given", "says"),
    [
        ("USER", {}, "at least one property"),
        ("USER", {"TYPE": "USER"}, "TYPE never changes"),
        ("USER", {"ACCESS_LEVEL": "PUBLIC"}, "only supported for SHARED"),
        ("STREAM", {"FLUSH_POLICY": "rows:1"}, "not supported for STREAM"),
        ("USER", {"FLUSH_POLICY": "rows:0,interval:60"}, "leave that half out"),
        ("STREAM", {"TTL_SECONDS": "0"}, "TTL_SECONDS"),
        ("USER", {"COLOUR": "red"}, "unknown table option"),
    ],
)
def test_a_bad_property_is_refused(type: TableType, given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        alter_options(type, TableOptions(ttl_seconds=3), given)


def test_types_are_read_in_any_case() -> None:
    assert [check_type(text) for text in ("user", " Shared ", "Stream")] == ["USER", "SHARED", "STREAM"]
    with pytest.raises(InvalidArgument, match="USER, SHARED or STREAM"):
        check_type("table")
