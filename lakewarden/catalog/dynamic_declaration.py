"""Reads the options of CREATE DYNAMIC TABLE and of the session (FLIP-188): names, values, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast, get_args

from lakewarden.base.quantities import seconds_of
from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_options import ChangelogMode, Consistency, DynamicOptions, LogScan, LogSystem
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.options import option_named
from lakewarden.errors import InvalidArgument

PREFIX = "table-storage."
KIND = "kind"
FILE_PATH = "file.path"
KAFKA = "log.kafka."
_SERVERS = "bootstrap.servers"
_RETIRED = {
    "log.pk.consistency": "log.consistency",
    "log.pk.changelog-mode": "log.changelog-mode",
    "log.pkkey.key-format": "log.key-format",
}
_LATER = {"log.scan.timestamp-millis": "log.scan.timestamp-mills"}
"""Spellings that came after FLIP-188, in table-store and Paimon: they mean the same."""
_OWN_NAMES = {"CHANGE_TRACKING": "change-tracking", "LOG_RETENTION": "log.retention"}
"""Options of other tables, and what they are called here."""
_OF_TABLES = ("change-tracking", "log.scan", "log.scan.timestamp-mills", "watermark")
"""Options that no session has."""
_MOST_BUCKETS = 1_000


def check_session_option(key: str, value: str) -> None:
    """Checks what `SET 'table-storage.<key>' = '<value>'` says.

    Raises:
        InvalidArgument: the option does not exist, belongs to a table alone, or cannot have this value.
    """
    if key == KIND:
        if value.lower() not in ("dynamic", "plain"):
            raise InvalidArgument(f"{PREFIX}{KIND} {value!r} must be dynamic or plain: what CREATE TABLE creates")
        return
    key = _LATER.get(key, key)
    _check_name(key)
    if key in _OF_TABLES:
        raise InvalidArgument(f"{key} is an option of a table, not of a session: write it as WITH ('{key}' = '{value}')")
    _value(key, value)


def enriched(session: Mapping[str, str], table: Mapping[str, str]) -> dict[str, str]:
    """The options of a new table: its own, and for what it leaves out those of the session."""
    return {**{key: value for key, value in session.items() if key != KIND}, **table}


def divided_options(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What WITH says, as options of dynamic tables and as those that every SHARED table has.

    Raises:
        InvalidArgument: an option has another name in dynamic tables.
    """
    native = {key: value for key, value in given.items() if option_named(key) is not None}
    for key in native:
        if own := _OWN_NAMES.get(key.strip().upper()):
            raise InvalidArgument(f"{key.strip().upper()} is called {own!r} in dynamic tables")
    return {key.strip(): value for key, value in given.items() if key not in native}, native


def parse_dynamic(given: Mapping[str, str], schema: TableSchema) -> DynamicOptions:
    """The options of a dynamic table with these columns, checked one by one and against each other.

    Raises:
        InvalidArgument: an option does not exist, cannot have its value, or contradicts another one or the columns.
    """
    values: dict[str, object] = {}
    if twice := next((key for key in given if key in _LATER and _LATER[key] in given), None):
        raise InvalidArgument(f"{twice!r} and {_LATER[twice]!r} are two spellings of one option: give one of them")
    for key, text in ((_LATER.get(key, key), text) for key, text in given.items()):
        _check_name(key)
        if not key.startswith(KAFKA):
            values[_FIELDS[key]] = _value(key, text)
    values["kafka"] = {key.removeprefix(KAFKA): text for key, text in given.items() if key.startswith(KAFKA)}
    made = DynamicOptions(**values)  # type: ignore[arg-type]  # each reader returns its field's type
    _check_keys(schema)
    _check_log(made, schema)
    _check_scan(made)
    _check_watermark(made, schema)
    return made


def check_outside(table: TableName, given: Iterable[str]) -> None:
    """Checks the options of a table that is not a dynamic one.

    Raises:
        InvalidArgument: an option of dynamic tables is among these.
    """
    for key in given:
        low = key.strip().lower()
        if option_named(key) is None and (_LATER.get(low, low) in _READERS or low.startswith(KAFKA)):
            raise InvalidArgument(
                f"option {low!r} is of dynamic tables, and {table} would not be one: write CREATE DYNAMIC TABLE {table} (…) WITH"
                f" ('{low}' = …), or SET '{PREFIX}{KIND}' = 'dynamic' before CREATE TABLE"
            )


def check_no_dynamic_option(given: Iterable[str]) -> None:
    """Checks that an ALTER changes nothing that is frozen.

    Raises:
        InvalidArgument: an option of dynamic tables is among these.
    """
    for key in (_LATER.get(key.strip().lower(), key.strip().lower()) for key in given):
        if key == "bucket":
            raise InvalidArgument(
                "Bucket number has been changed. Manifest might be corrupted: drop the table and create it again"
            )
        if key in _READERS or key.upper() in _OWN_NAMES or key.startswith(KAFKA):
            raise InvalidArgument(f"{key} is frozen since the table was created: drop the table and create it again")


def _check_name(key: str) -> None:
    if key in _RETIRED:
        raise InvalidArgument(f"option {key!r} has another name now: {_RETIRED[key]!r}")
    if key not in _READERS and not (key.startswith(KAFKA) and len(key) > len(KAFKA)):
        raise InvalidArgument(f"unknown option {key!r} of a dynamic table; the options are {', '.join(_READERS)} and {KAFKA}*")


def _value(key: str, text: str) -> object:
    return text if key.startswith(KAFKA) else _READERS[key](key, text.strip())


def _check_keys(schema: TableSchema) -> None:
    key, partitions = schema.primary_key, schema.partition_by
    if not key or not partitions:
        return
    if not set(partitions) <= set(key):
        raise InvalidArgument(
            f"Primary key constraint [{', '.join(key)}] should include all partition fields [{', '.join(partitions)}]"
        )
    if set(key) == set(partitions):
        raise InvalidArgument(
            f"Primary key constraint [{', '.join(key)}] should not be same with partition fields [{', '.join(partitions)}]:"
            " this will result in only one record in a partition"
        )


def _check_log(options: DynamicOptions, schema: TableSchema) -> None:
    mode, consistency = options.log_changelog_mode, options.log_consistency
    if options.log_system == "kafka" and not options.kafka.get(_SERVERS):
        raise InvalidArgument(f"log.system 'kafka' needs '{KAFKA}{_SERVERS}', as in '{KAFKA}{_SERVERS}' = 'localhost:9092'")
    if options.log_system == "none":
        if mode == "upsert":
            raise InvalidArgument("log.changelog-mode 'upsert' needs a log system: set log.system to object or kafka")
        if consistency == "eventual":
            raise InvalidArgument("log.consistency 'eventual' needs a log system: set log.system to object or kafka")
        if options.log_scan == "from-timestamp":
            raise InvalidArgument("log.scan 'from-timestamp' needs a log system: set log.system to object or kafka")
    # Without a key nothing says which row an update is of.
    if mode == "upsert" and not schema.keyed:
        raise InvalidArgument("log.changelog-mode 'upsert' needs a primary key, and the table has none")
    # A batch that runs again writes its rows again; the same keys make that right
    # (docs/decisions/0071-which-changes-are-kept.md).
    if consistency == "eventual" and not schema.keyed:
        raise InvalidArgument("log.consistency 'eventual' needs a primary key, and the table has none; use transactional")
    # The row before each row is found where the batch is published, and an eventual write has no such moment
    # (docs/decisions/0090-before-images-from-the-write.md).
    if consistency == "eventual" and mode == "all":
        raise InvalidArgument("log.changelog-mode 'all' needs log.consistency 'transactional', and this table's is eventual")


def _check_scan(options: DynamicOptions) -> None:
    if options.log_scan == "from-timestamp" and options.log_scan_timestamp is None:
        raise InvalidArgument("log.scan 'from-timestamp' needs log.scan.timestamp-mills, in milliseconds since 1970")
    if options.log_scan != "from-timestamp" and options.log_scan_timestamp is not None:
        raise InvalidArgument(f"log.scan.timestamp-mills is for log.scan 'from-timestamp', and this one is {options.log_scan}")


def _check_watermark(options: DynamicOptions, schema: TableSchema) -> None:
    if options.watermark is None:
        return
    column = schema.column(options.watermark)
    if column is None or column.type.name != "TIMESTAMP":
        raise InvalidArgument(f"watermark {options.watermark!r} must be a TIMESTAMP column of the table")


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def read(key: str, text: str) -> str:
        if text.lower() not in allowed:
            raise InvalidArgument(f"{key} {text!r} must be {' or '.join(', '.join(allowed).rsplit(', ', 1))}")
        return text.lower()

    return read


def _whole(least: int, most: int) -> Callable[[str, str], int]:
    def read(key: str, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
            raise InvalidArgument(f"{key} {text!r} must be a whole number from {least} to {most}")
        return int(text)

    return read


def _flag(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"{key} {text!r} must be true or false")
    return text.lower() == "true"


def _text(key: str, text: str) -> str:
    if not text:
        raise InvalidArgument(f"{key} is empty; leave it out, or give it a value")
    return text


def _words(kind: object) -> tuple[str, ...]:
    return cast("tuple[str, ...]", get_args(kind))


_READERS: Mapping[str, Callable[[str, str], object]] = {
    "bucket": _whole(1, _MOST_BUCKETS),
    "log.system": _one_of(*_words(LogSystem)),
    "log.retention": seconds_of,
    "log.scan": _one_of(*_words(LogScan)),
    "log.scan.timestamp-mills": _whole(0, 2**63 - 1),
    "log.consistency": _one_of(*_words(Consistency)),
    "log.changelog-mode": _one_of(*_words(ChangelogMode)),
    "log.key-format": _one_of("json"),
    "log.format": _one_of("debezium-json"),
    "change-tracking": _flag,
    FILE_PATH: _text,
    "file.format": _one_of("parquet"),
    "watermark": _text,
}

_FIELDS: Mapping[str, str] = {
    key: {"log.scan.timestamp-mills": "log_scan_timestamp"}.get(key, key.replace(".", "_").replace("-", "_")) for key in _READERS
}
"""The field of `DynamicOptions` for each option."""
