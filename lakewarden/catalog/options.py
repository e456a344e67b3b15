"""The table options, in one table: which type takes which, which values each may have, and how each is shown.

A new one is a row of `OPTIONS` and its field in `catalog.model.TableOptions`. CREATE TABLE, SET TBLPROPERTIES, the client, what
lists tables, the catalog's format and the reference follow from the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from lakewarden.base.quantities import seconds_of, text_of
from lakewarden.catalog.access import TableKind
from lakewarden.catalog.kept_settings import check_ratio
from lakewarden.catalog.model import Compression, EvictionStrategy, FlushPolicy, OnDuplicate, TableOptions, TableType
from lakewarden.catalog.names import AccessLevel, check_storage_id
from lakewarden.errors import InvalidArgument

_MAX_ROWS = 1_000_000
_MAX_INTERVAL = 86_400
MAX_HOURS = 2**32 - 1
"""Of a retention."""
_MAX_SECONDS = 10**10
"""Three hundred years: their microseconds still fit 64 bits."""
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_SIZE = re.compile(r"(\d{1,15})\s*([A-Za-z]*)")
MIN_SIZE, MAX_SIZE = 1 << 10, 1 << 40
"""Bytes of a data file that a table can aim at."""
_MAX_STREAM = 2**63 - 1
_DELTAS_NAMES = {"DELTA.ENABLECHANGEDATAFEED": "CHANGE_DATA_FEED"}
_DEFAULTS = TableOptions()
_SWITCH = {"on": True, "true": True, "off": False, "false": False}


Taking = Literal["taken", "required", "ignored", "refused"]
"""`ignored`: checked, accepted, and without effect; the answer to CREATE TABLE says so."""


def _itself(value: Any) -> Any:
    return value


Reader = Callable[[str, str], object]
"""Takes an option's name and a text, and returns its value; raises InvalidArgument where the text does not mean one."""


@dataclass(frozen=True)
class TableOption:
    """One option: a row of `OPTIONS`."""

    field: str
    """Of `TableOptions`; none of TYPE, which says again what stands before it."""
    takes: Mapping[TableKind, Taking]
    read: Reader
    show: Callable[[Any], Any] | None = _itself
    """What a list of tables shows for the value, as `read` takes it; None where the value has a column of its own there."""
    shown_as_default: bool = False
    """Whether it is shown where it has its default."""
    since: int = 1
    """The format of the catalog that has it (`catalog.store`)."""


def _by_type(user: Taking, shared: Taking, stream: Taking) -> dict[TableKind, Taking]:
    return {"USER": user, "SHARED": shared, "STREAM": stream, "SYSTEM": "refused"}


def check_type(text: str) -> TableType:
    """`user` → `USER`.

    Raises:
        InvalidArgument: no such type.
    """
    upper = text.strip().upper()
    if upper not in ("USER", "SHARED", "STREAM"):
        raise InvalidArgument(f"table type {text!r} must be USER, SHARED or STREAM")
    return cast("TableType", upper)


def parse_options(type: TableType, given: Mapping[str, object]) -> TableOptions:
    """The options of CREATE TABLE. Keys in any case; values as text or as what they mean.

    Raises:
        InvalidArgument: an option that is unknown, not for this type, missing, given twice, or out of its bounds.
    """
    texts = _texts(type, given)
    for option, spec in OPTIONS.items():
        if spec.takes[type] == "required" and option not in texts:
            raise InvalidArgument(f"a {type} table needs the option {option}, as in WITH ({option} = 30)")
    return _changed(type, TableOptions(), texts)


def alter_options(type: TableType, before: TableOptions, given: Mapping[str, object]) -> TableOptions:
    """The options after SET TBLPROPERTIES. FLUSH_POLICY is cleared by `NULL` or `DEFAULT`.

    Raises:
        InvalidArgument: as `parse_options`; also no property at all, TYPE, one that is ignored, or USE_USER_STORAGE that is
            neither TRUE nor FALSE.
    """
    if not given:
        raise InvalidArgument("at least one property is required, as in SET TBLPROPERTIES (FLUSH_POLICY = 'rows:1000')")
    texts = _texts(type, given)
    for option in texts:
        if option == "TYPE":
            raise InvalidArgument("a table's TYPE never changes; create another table")
        if OPTIONS[option].takes[type] == "ignored":
            raise InvalidArgument(f"{option} is not supported for {type} tables")
    cleared = texts.get("FLUSH_POLICY", "").upper() in ("NULL", "DEFAULT")
    if cleared:
        del texts["FLUSH_POLICY"]
    if texts.get("USE_USER_STORAGE", "TRUE").upper() not in ("TRUE", "FALSE"):
        raise InvalidArgument(f"USE_USER_STORAGE {texts['USE_USER_STORAGE']!r} must be TRUE or FALSE")
    if _ZERO.search(texts.get("FLUSH_POLICY", "")):
        raise InvalidArgument(f"FLUSH_POLICY {texts['FLUSH_POLICY']!r}: a 0 stands for nothing here; leave that half out")
    after = _changed(type, before, texts)
    return replace(after, flush_policy=None) if cleared else after


def ignored_options(type: TableType, given: Mapping[str, object]) -> list[str]:
    """Options that a table of this type takes without effect, for the answer's message."""
    return [option for option in _texts(type, given) if OPTIONS[option].takes[type] == "ignored"]


def shown_options(type: TableType, options: TableOptions) -> dict[str, Any]:
    """What a table of that type has of its own, by the options' names: a text or a number that `parse_options` takes again."""
    found: dict[str, Any] = {}
    for option, spec in OPTIONS.items():
        if spec.show is not None and spec.takes[type] in ("taken", "required"):
            value = getattr(options, spec.field)
            if spec.shown_as_default or value != getattr(_DEFAULTS, spec.field):
                found[option] = spec.show(value)
    return found


def option_named(key: str) -> str | None:
    """The option of this name, in any case; Delta's own name of one will do."""
    name = key.strip().upper()
    name = _DELTAS_NAMES.get(name, name)
    return next((option for option in OPTIONS if option == name), None)


def _texts(type: TableType, given: Mapping[str, object]) -> dict[str, str]:
    """The options by their names, each of them one that the type takes."""
    texts: dict[str, str] = {}
    for key, value in given.items():
        option = option_named(key)
        if option is None:
            raise InvalidArgument(f"unknown table option {key.strip().upper()}; the options are {', '.join(sorted(OPTIONS))}")
        if option in texts:
            raise InvalidArgument(f"option {key} is given twice")
        if OPTIONS[option].takes[type] == "refused":
            takers = " and ".join(kind for kind, taking in OPTIONS[option].takes.items() if taking != "refused")
            raise InvalidArgument(f"option {option} is only supported for {takers} tables, and this is a {type} table")
        texts[option] = str(value).strip()
    return texts


def _changed(type: TableType, before: TableOptions, texts: Mapping[str, str]) -> TableOptions:
    fields: dict[str, object] = {}
    for option, text in texts.items():
        if option == "TYPE":
            _agrees(type, text)
        else:
            spec = OPTIONS[option]
            value = spec.read(option, text)
            if spec.takes[type] != "ignored":
                fields[spec.field] = value
    return replace(before, **fields)  # type: ignore[arg-type]  # each reader returns its field's type


def parse_flush_policy(option: str, text: str) -> FlushPolicy:
    """`rows:1000,interval:60` → FlushPolicy(1000, 60).

    Raises:
        InvalidArgument: a part is not of that form, or a number is out of its bounds.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        key, colon, number = (piece.strip() for piece in part.partition(":"))
        key = _POLICY_ALIASES.get(key.lower(), key)
        if not colon or key.lower() not in ("rows", "interval") or key.lower() in found:
            raise InvalidArgument(f"{option} {text!r}: {part!r} is not rows:N or interval:SECONDS; {_POLICY_FORM}")
        found[key.lower()] = _whole(option, number)
    rows, interval = found.get("rows", 0), found.get("interval", 0)
    if not (rows or interval) or rows >= _MAX_ROWS or interval >= _MAX_INTERVAL:
        raise InvalidArgument(
            f"{option} {text!r} is out of its bounds: rows below {_MAX_ROWS:,}, interval below {_MAX_INTERVAL:,} seconds, "
            "and one of them above 0"
        )
    return FlushPolicy(rows or None, interval or None)


_ZERO = re.compile(r":\s*0+\s*(,|$)")
_POLICY_ALIASES = {"row_limit": "rows", "interval_seconds": "interval"}
_POLICY_FORM = "the form is rows:1000, interval:60 or rows:1000,interval:60"


def parse_size(option: str, text: str) -> int:
    """`128MB` → 134217728. A number alone is bytes; 1 MB is 1024 × 1024.

    Raises:
        InvalidArgument: the text is not a size, or it is out of its bounds.
    """
    size = parse_bytes(option, text)
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise InvalidArgument(f"{option} {text!r} must lie between 1KB and 1024GB")
    return size


def parse_bytes(option: str, text: str) -> int:
    """As `parse_size`, without its bounds."""
    match = _SIZE.fullmatch(text)
    if not match or match[2].upper() not in _UNITS:
        raise InvalidArgument(f"{option} {text!r} must be bytes, or a number with KB, MB or GB, as in 128MB")
    return int(match[1]) * _UNITS[match[2].upper()]


def _whole(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{option}: {text!r} is not a whole number")
    return int(text)


def _at_most(most: int, hint: str = "") -> Reader:
    def read(option: str, text: str) -> int:
        number = _whole(option, text)
        if number > most:
            raise InvalidArgument(f"{option} {text} is more than {most}{hint}")
        return number

    return read


def _one_of(words: object) -> Reader:
    """Reads a word of a `Literal`, in any case."""
    allowed: tuple[str, ...] = get_args(words)

    def read(option: str, text: str) -> str:
        found = next((word for word in allowed if word.lower() == text.lower()), None)
        if found is None:
            listed = " or ".join(allowed) if len(allowed) == 2 else f"one of {', '.join(allowed)}"
            raise InvalidArgument(f"{option} {text!r} must be {listed}")
        return found

    return read


def _switch(option: str, text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise InvalidArgument(f"{option} {text!r} must be on or off")
    return _SWITCH[text.lower()]


def _ttl(option: str, text: str) -> int:
    seconds = _whole(option, text)
    if not 1 <= seconds <= _MAX_SECONDS:
        raise InvalidArgument(f"{option} {text} must lie between 1 and {_MAX_SECONDS}")
    return seconds


def _ratio(option: str, text: str) -> float | None:
    if text.upper() in ("NULL", "DEFAULT"):
        return None
    try:
        return check_ratio(option, float(text))
    except ValueError as error:
        raise InvalidArgument(f"{option} {text!r} is not a number, such as 3, or DEFAULT") from error


def _is_true(_option: str, text: str) -> bool:
    return text.upper() == "TRUE"


def _agrees(type: TableType, text: str) -> None:
    if text.upper() != type:
        raise InvalidArgument(f"conflicting table type definitions: {type} and TYPE {text!r}")


def _storage_id(_option: str, text: str) -> str:
    return check_storage_id(text)


def _truth(value: bool) -> str:
    return str(value).upper()


def _on_or_off(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


_OF_FILES = _by_type("taken", "taken", "refused")
_OF_STREAMS = _by_type("refused", "refused", "taken")
_NOT_OF_STREAMS = _by_type("taken", "taken", "ignored")

OPTIONS: Mapping[str, TableOption] = MappingProxyType(
    {
        "FLUSH_POLICY": TableOption("flush_policy", _NOT_OF_STREAMS, parse_flush_policy, show=str),
        "TARGET_FILE_SIZE": TableOption("target_file_size", _OF_FILES, parse_size),
        "DELETED_RETENTION_HOURS": TableOption("retention_hours", _NOT_OF_STREAMS, _at_most(MAX_HOURS)),
        "TTL_SECONDS": TableOption("ttl_seconds", _by_type("refused", "refused", "required"), _ttl),
        "EVICTION_STRATEGY": TableOption("eviction_strategy", _OF_STREAMS, _one_of(EvictionStrategy), shown_as_default=True),
        "MAX_STREAM_SIZE_BYTES": TableOption("max_stream_size", _OF_STREAMS, _at_most(_MAX_STREAM, "; 0 means any size")),
        "COMPRESSION": TableOption("compression", _OF_FILES, _one_of(Compression), shown_as_default=True),
        "ACCESS_LEVEL": TableOption(
            "access_level", _by_type("refused", "taken", "refused"), _one_of(AccessLevel), shown_as_default=True
        ),
        "USE_USER_STORAGE": TableOption("use_user_storage", _by_type("taken", "refused", "refused"), _is_true, show=_truth),
        "ON_DUPLICATE": TableOption("on_duplicate", _OF_FILES, _one_of(OnDuplicate), since=2),
        "CHANGE_TRACKING": TableOption("change_tracking", _OF_FILES, _switch, _on_or_off, since=2),
        "LOG_RETENTION": TableOption("log_retention", _OF_FILES, seconds_of, text_of, since=2),
        "COMPACTION_RATIO": TableOption("compaction_ratio", _OF_FILES, _ratio, "{:g}".format, since=3),
        "CHANGE_DATA_FEED": TableOption("change_data_feed", _OF_FILES, _switch, _on_or_off, since=2),
        "STORAGE_ID": TableOption("storage_id", _NOT_OF_STREAMS, _storage_id, show=None),
        "TYPE": TableOption("", _by_type("taken", "taken", "taken"), lambda _option, text: text, show=None),
    }
)
