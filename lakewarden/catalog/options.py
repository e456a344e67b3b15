"""Table types and table options: read from text, checked, and turned into values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, cast

from lakewarden.catalog.model import Compression, FlushPolicy, TableOptions, TableType
from lakewarden.catalog.names import check_storage_id
from lakewarden.errors import InvalidArgument, Unsupported

_COMPRESSIONS = ("none", "snappy", "zstd")
_ACCESS_LEVELS = ("PUBLIC", "PRIVATE", "RESTRICTED", "DBA")
_STREAM_ONLY = frozenset({"TTL_SECONDS", "EVICTION_STRATEGY", "MAX_STREAM_SIZE_BYTES"})
_MAX_ROWS = 1_000_000
_MAX_INTERVAL = 86_400
_MAX_HOURS = 2**32 - 1
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_SIZE = re.compile(r"(\d{1,15})\s*([A-Za-z]*)")
_MIN_SIZE, _MAX_SIZE = 1 << 10, 1 << 40


def check_type(text: str) -> TableType:
    """`user` → `USER`.

    Raises:
        InvalidArgument: no such type.
        Unsupported: STREAM, for now.
    """
    upper = text.strip().upper()
    if upper == "STREAM":
        raise Unsupported("STREAM tables are not there yet; the types are USER and SHARED")
    if upper not in ("USER", "SHARED"):
        raise InvalidArgument(f"table type {text!r} must be USER, SHARED or STREAM")
    return cast("TableType", upper)


def parse_options(type: TableType, given: Mapping[str, object]) -> TableOptions:
    """The options of CREATE TABLE. Keys in any case; values as text or as what they mean.

    Raises:
        InvalidArgument: an option that is unknown, not for this type, given twice, or out of its bounds.
        Unsupported: an option that is known and not there yet.
    """
    return TableOptions(**_fields(type, given))  # type: ignore[arg-type]  # each reader returns its field's type


def changed_options(type: TableType, before: TableOptions, given: Mapping[str, object]) -> TableOptions:
    """The options after ALTER TABLE … SET TBLPROPERTIES; NULL or DEFAULT as FLUSH_POLICY clears it.

    Raises:
        InvalidArgument, Unsupported: as `parse_options`; also no option at all, or TYPE, which stays what it is.
    """
    if not given:
        raise InvalidArgument("at least one property is required")
    if any(key.strip().upper() == "TYPE" for key in given):
        raise InvalidArgument("a table's TYPE stays what it is")
    cleared = {key for key, value in given.items() if key.strip().upper() == "FLUSH_POLICY" and _clears(str(value))}
    fields = _fields(type, {key: value for key, value in given.items() if key not in cleared})
    return replace(before, **fields, **({"flush_policy": None} if cleared else {}))  # type: ignore[arg-type]  # as above


def _clears(text: str) -> bool:
    return text.strip().upper() in ("NULL", "DEFAULT")


def _fields(type: TableType, given: Mapping[str, object]) -> dict[str, object]:
    """The fields of TableOptions that are given."""
    texts: dict[str, str] = {}
    for key, value in given.items():
        if key.strip().upper() in texts:
            raise InvalidArgument(f"option {key} is given twice")
        texts[key.strip().upper()] = str(value).strip()
    fields: dict[str, object] = {}
    for key, text in texts.items():
        if key in _STREAM_ONLY:
            raise InvalidArgument(f"option {key} is only supported for STREAM tables, and this is a {type} table")
        if key in _REFUSALS:
            _REFUSALS[key](type, text)
        elif key in _READERS:
            field, read = _READERS[key]
            fields[field] = read(text)
        else:
            raise InvalidArgument(f"unknown table option {key}; the options are {', '.join(sorted({*_READERS, *_REFUSALS}))}")
    return fields


def parse_flush_policy(text: str) -> FlushPolicy:
    """`rows:1000,interval:60` → FlushPolicy(1000, 60).

    Raises:
        InvalidArgument: a part is not of that form, or a number is out of its bounds.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        key, colon, number = (piece.strip() for piece in part.partition(":"))
        if not colon or key.lower() not in ("rows", "interval") or key.lower() in found:
            raise InvalidArgument(f"FLUSH_POLICY {text!r}: {part!r} is not rows:N or interval:SECONDS; {_POLICY_FORM}")
        found[key.lower()] = _whole("FLUSH_POLICY", number)
    rows, interval = found.get("rows", 0), found.get("interval", 0)
    if not (rows or interval) or rows >= _MAX_ROWS or interval >= _MAX_INTERVAL:
        raise InvalidArgument(
            f"FLUSH_POLICY {text!r} is out of its bounds: rows below {_MAX_ROWS:,}, interval below {_MAX_INTERVAL:,} seconds, "
            "and one of them above 0"
        )
    return FlushPolicy(rows or None, interval or None)


_POLICY_FORM = "the form is rows:1000, interval:60 or rows:1000,interval:60"


def parse_size(text: str) -> int:
    """`128MB` → 134217728. A number alone is bytes; 1 MB is 1024 × 1024.

    Raises:
        InvalidArgument: the text is no size, or it is out of its bounds.
    """
    match = _SIZE.fullmatch(text)
    if not match or match[2].upper() not in _UNITS:
        raise InvalidArgument(f"TARGET_FILE_SIZE {text!r} must be bytes, or a number with KB, MB or GB, as in 128MB")
    size = int(match[1]) * _UNITS[match[2].upper()]
    if not _MIN_SIZE <= size <= _MAX_SIZE:
        raise InvalidArgument(f"TARGET_FILE_SIZE {text!r} must lie between 1KB and 1024GB")
    return size


def _whole(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{option}: {text!r} is no whole number")
    return int(text)


def _hours(text: str) -> int:
    hours = _whole("DELETED_RETENTION_HOURS", text)
    if hours > _MAX_HOURS:
        raise InvalidArgument(f"DELETED_RETENTION_HOURS {text} is more than {_MAX_HOURS}")
    return hours


def _compression(text: str) -> Compression:
    if text.lower() not in _COMPRESSIONS:
        raise InvalidArgument(f"COMPRESSION {text!r} must be one of {', '.join(_COMPRESSIONS)}")
    return cast("Literal['none', 'snappy', 'zstd']", text.lower())


def _access_level(type: TableType, text: str) -> None:
    if type != "SHARED":
        raise InvalidArgument(f"option ACCESS_LEVEL is only supported for SHARED tables, and this is a {type} table")
    if text.upper() not in _ACCESS_LEVELS:
        raise InvalidArgument(f"ACCESS_LEVEL {text!r} must be one of {', '.join(_ACCESS_LEVELS)}")
    if text.upper() != "PRIVATE":  # the default, and all that a table without access rules can be
        raise Unsupported(f"ACCESS_LEVEL {text.upper()} is not there yet; PRIVATE is the default")


def _user_storage(type: TableType, text: str) -> None:
    if type != "USER":
        raise InvalidArgument(f"option USE_USER_STORAGE is only supported for USER tables, and this is a {type} table")
    if text.upper() == "TRUE":
        raise Unsupported("USE_USER_STORAGE is not there yet: users have no storage of their own so far")


def _agrees(type: TableType, text: str) -> None:
    if text.upper() != type:
        raise InvalidArgument(f"conflicting table type definitions: {type} and TYPE {text!r}")


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "STORAGE_ID": ("storage_id", check_storage_id),
    "FLUSH_POLICY": ("flush_policy", parse_flush_policy),
    "COMPRESSION": ("compression", _compression),
    "TARGET_FILE_SIZE": ("target_file_size", parse_size),
    "DELETED_RETENTION_HOURS": ("retention_hours", _hours),
}
_REFUSALS: dict[str, Callable[[TableType, str], None]] = {
    "TYPE": _agrees,
    "ACCESS_LEVEL": _access_level,
    "USE_USER_STORAGE": _user_storage,
}
