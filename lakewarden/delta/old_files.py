"""Live files of an older version, as files that a commit can add again, with their statistics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa

from lakewarden.delta.failures import delta_errors
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.table import ScopeTable


def known_files(table: ScopeTable, files: Iterable[DataFile]) -> tuple[NewFile, ...]:
    """Reads what the log of `table`'s version says about these files."""
    with delta_errors(f"cannot read the files of {table.uri}"):
        adds = pa.table(table.delta.get_add_actions(flatten=False))
    said = {unquote(add["path"]): add for add in adds.to_pylist()}  # the log's paths may be URL-encoded by other writers
    return tuple(_known(file, said[file.path]) for file in files)


def _known(file: DataFile, add: Mapping[str, object]) -> NewFile:
    rows = file.rows or 0
    return NewFile(file.path, file.size, rows, _stats(rows, add), file.min_seq, file.max_seq, file.schema_version or 1)


def _stats(rows: int, add: Mapping[str, object]) -> str:
    low, high, nulls = (_values(add.get(name)) for name in ("min", "max", "null_count"))
    return f'{{"numRecords":{rows},"minValues":{low},"maxValues":{high},"nullCount":{nulls}}}'


def _values(columns: object) -> str:
    """Writes JSON by hand: the library would write a DECIMAL as text or lose digits."""
    pairs = columns.items() if isinstance(columns, dict) else ()
    texts = [(name, _json(value)) for name, value in pairs]
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in texts if text is not None) + "}"


def _json(value: object) -> str | None:
    match value:
        case bool():
            return None  # what its writer meant by the bounds of booleans is not worth knowing
        case int() | str():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return repr(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return f'"{moment.isoformat(timespec="microseconds")}Z"'
        case date():
            return f'"{value.isoformat()}"'
    return None
