"""One version of a table as delta-rs has opened it. Everything but the version is read on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.commit_log.commits import CommitLog, CommitRecord
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.parquet.column_ends import Bounds
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.schema import SEQ, live_columns
from lakewarden.delta.partitions import spelled
from lakewarden.storage.open import open_store

_FILE = ("path", "size_bytes", "num_records", "modification_time", f"min.{SEQ}", f"max.{SEQ}")
"""Columns of the add actions that a `DataFile` begins with, in its order."""


class DeltaRsVersion:
    """A version that delta-rs has read from the log. `TableVersion` says what the methods return."""

    def __init__(self, location: Location, delta: DeltaTable) -> None:
        self._location = location
        self.delta = delta
        self._transactions: dict[str, int | None] = {}

    @property
    def version(self) -> int:
        return self.delta.version()

    @cached_property
    def head(self) -> TableHead:
        found, protocol = self.delta.metadata(), self.delta.protocol()
        return TableHead(
            str(found.id),
            self.delta.schema().to_json(),
            dict(found.configuration),
            found.created_time,
            found.name,
            found.description,
            tuple(found.partition_columns),
            protocol.min_reader_version,
            protocol.min_writer_version,
            tuple(sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})),
        )

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        adds = self._adds
        lists = [adds.column(name).to_pylist() if name in adds.column_names else [None] * adds.num_rows for name in _FILE]
        columns = self.head.partition_columns
        if not columns:
            return tuple(DataFile(*values) for values in zip(*lists, strict=True))
        spellings = zip(*(spelled(adds.column(f"partition.{name}")).to_pylist() for name in columns), strict=True)
        parts = (tuple(zip(columns, texts, strict=True)) for texts in spellings)
        return tuple(
            DataFile(path, size, rows, modified_ms, min_seq, max_seq, None, partition)
            for path, size, rows, modified_ms, min_seq, max_seq, partition in zip(*lists, parts, strict=True)
        )

    @property
    def has_files(self) -> bool:
        return bool(self._adds.num_rows)

    def bounds(self, column: str) -> Bounds | None:
        names = self._adds.column_names
        if f"min.{column}" not in names or f"max.{column}" not in names:
            return None
        return _plain(self._adds.column(f"min.{column}")), _plain(self._adds.column(f"max.{column}"))

    def transaction(self, app_id: str) -> int | None:
        # the newest commit is usually a flush of ours, and contains all that is needed
        if self._newest is not None and app_id in self._newest.transactions:
            return self._newest.transactions[app_id]
        if app_id not in self._transactions:  # delta-rs reads every commit since the checkpoint again
            with delta_errors(f"cannot read the watermark of {self._location}"):
                self._transactions[app_id] = self.delta.transaction_version(app_id)
        return self._transactions[app_id]

    @property
    def known_transactions(self) -> Mapping[str, int | None]:
        return self._transactions

    @property
    def digest(self) -> str:
        return "" if self._newest is None else self._newest.digest

    @cached_property
    def stats(self) -> Mapping[str, str]:
        adds, names = self._adds, [column.name for column in live_columns(self.head.schema)]
        counts = adds.column("num_records").to_pylist()
        texts = map(_stats, counts, *(_values(adds, kind, names) for kind in ("min", "max", "null_count")))
        return dict(zip(map(str, adds.column("path").to_pylist()), texts, strict=True))

    @cached_property
    def _newest(self) -> CommitRecord | None:
        return CommitLog(open_store(self._location)).read(self.version)

    @cached_property
    def _adds(self) -> pa.Table:
        """One row per live file: path, size, and statistics as columns `min.<name>` and `max.<name>`."""
        with delta_errors(f"cannot read the files of {self._location}"):
            # not pa.table(): it would bring pandas into a command that only looks
            adds = pa.RecordBatchReader.from_stream(self.delta.get_add_actions(flatten=True)).read_all()
        encoded = [str(path) for path in adds.column("path").to_pylist()]
        if not any("%" in path for path in encoded):
            return adds
        # the log has URL-encoded paths, which deltalake encodes again where it is given them
        return adds.set_column(0, "path", pa.array([unquote(path) for path in encoded], pa.string()))


def _plain(ends: pa.ChunkedArray[Any]) -> list[Any]:
    try:
        return ends.to_pylist()
    except (ValueError, OverflowError):
        return [_within_calendar(end) for end in ends]


def _within_calendar(end: pa.Scalar[Any]) -> Any:
    """None for a moment that Python has not."""
    try:
        return end.as_py()
    except (ValueError, OverflowError):
        return None


def _stats(rows: int | None, low: str, high: str, nulls: str) -> str:
    """Delta's statistics of a file, without those that no reader could use."""
    counted = "" if rows is None else f'"numRecords":{rows},'
    return f'{{{counted}"minValues":{low},"maxValues":{high},"nullCount":{nulls}}}'


def _values(adds: pa.Table, kind: str, columns: Sequence[str]) -> list[str]:
    """One kind of statistics of each file. JSON by hand: the library would write a DECIMAL as text or lose digits."""
    there = [name for name in columns if f"{kind}.{name}" in adds.column_names]
    quoted = [json.dumps(name) for name in there]
    files = zip(*(_plain(adds.column(f"{kind}.{name}")) for name in there), strict=True) if there else [()] * adds.num_rows
    return [_object(quoted, values) for values in files]


def _object(names: Sequence[str], values: Sequence[object]) -> str:
    pairs = zip(names, map(_json, values), strict=True)
    return "{" + ",".join(f"{name}:{text}" for name, text in pairs if text is not None) + "}"


def _json(value: object) -> str | None:
    match value:
        case bool():
            return None  # what its writer meant by the bounds of booleans is not worth knowing
        case int() | str():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return repr(value) if isfinite(value) else None
        case Decimal():
            return f"{value:f}"
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return f'"{moment.isoformat(timespec="microseconds")}Z"'
        case date():
            return f'"{value.isoformat()}"'
    return None
