"""A version as a `ScopeTable` sees it when it is known without opening the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from lakewarden.connection import Location
from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.commit_log.delta_rs import DeltaRsVersion
from lakewarden.delta.commit_log.opening import open_version
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.schema import live_columns
from lakewarden.delta.snapshot import Snapshot
from lakewarden.delta.table_version import Bounds
from lakewarden.errors import Corrupt

_ARROW: Mapping[str, pa.DataType] = {
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "float": pa.float32(),
    "double": pa.float64(),
}


class KeptVersion:
    """A version by a snapshot. `TableVersion` says what the methods return; what the snapshot lacks, delta-rs reads."""

    def __init__(self, location: Location, snapshot: Snapshot) -> None:
        self._location = location
        self._snapshot = snapshot

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def head(self) -> TableHead:
        return self._snapshot.head

    @property
    def delta(self) -> DeltaTable:
        return self._opened.delta

    @property
    def files(self) -> tuple[DataFile, ...]:
        return self._snapshot.files

    @property
    def has_files(self) -> bool:
        return bool(self._snapshot.files)

    @property
    def stats(self) -> Mapping[str, str]:
        return self._snapshot.stats or {}

    def bounds(self, column: str) -> Bounds | None:
        type_ = _types(self.head.schema).get(column)
        if type_ is None:
            return None
        try:
            low, high = (_array([each.get(end, {}).get(column) for each in self._parsed], type_) for end in _ENDS)
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError):  # another writer's form: nothing is excluded by it
            return None
        return low, high

    def transaction(self, app_id: str) -> int | None:
        known = self._snapshot.transactions
        return known[app_id] if app_id in known else self._opened.transaction(app_id)

    @property
    def digest(self) -> str:
        return self._snapshot.digest

    @cached_property
    def _opened(self) -> DeltaRsVersion:
        delta = open_version(self._location, self.version).delta
        if delta is None:
            raise Corrupt(f"{self._location}: version {self.version} cannot be read from its log")
        return DeltaRsVersion(self._location, delta)

    @cached_property
    def _parsed(self) -> list[dict[str, dict[str, Any]]]:
        stats = self.stats
        return [_exactly(stats.get(file.path, "{}")) for file in self.files]


_ENDS = ("minValues", "maxValues")

_exactly = json.JSONDecoder(parse_float=Decimal).decode


@lru_cache(maxsize=1024)
def _types(schema_json: str) -> dict[str, pa.DataType | None]:
    """The types of the columns' bounds."""
    return {column.name: _arrow(column.type) for column in live_columns(schema_json)}


def _arrow(type_: str) -> pa.DataType | None:
    """Returns the type of a column's bounds; None for one without."""
    if type_.startswith("decimal("):
        precision, scale = type_[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW.get(type_)


def _array(values: list[Any], type_: pa.DataType) -> pa.ChunkedArray[Any]:
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return pa.chunked_array([pa.array(values, pa.string())]).cast(type_)
    if pa.types.is_decimal(type_):
        values = [None if value is None else Decimal(value) for value in values]
    elif pa.types.is_floating(type_):
        values = [None if value is None else float(value) for value in values]
    return pa.chunked_array([pa.array(values, type_)])
