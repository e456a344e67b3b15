"""A version as a `ScopeTable` sees it when it is known without opening the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, cast

import msgspec
from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.commit_log.delta_rs import DeltaRsVersion
from lakewarden.delta.commit_log.opening import open_version
from lakewarden.delta.parquet.column_ends import Bounds, Value
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.schema import live_columns
from lakewarden.delta.snapshot import Snapshot
from lakewarden.errors import Corrupt


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
        read = _readers(self.head.schema).get(column)
        if read is None:
            return None
        try:
            low = [_read(read, each.lowest.get(column)) for each in self._parsed]
            high = [_read(read, each.highest.get(column)) for each in self._parsed]
        except (ValueError, TypeError, ArithmeticError):  # another writer's form: nothing is excluded by it
            return None
        return low, high

    def transaction(self, app_id: str) -> int | None:
        known = self._snapshot.transactions
        return known[app_id] if app_id in known else self._opened.transaction(app_id)

    @property
    def known_transactions(self) -> Mapping[str, int | None]:
        return self._snapshot.transactions

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
    def _parsed(self) -> list[_Ends]:
        stats = self.stats
        return [_exactly(stats.get(file.path, "{}")) for file in self.files]


class _Ends(msgspec.Struct, frozen=True):
    """Of a file's statistics, its lowest and highest values by column."""

    lowest: dict[str, Any] = msgspec.field(name="minValues", default_factory=dict)
    highest: dict[str, Any] = msgspec.field(name="maxValues", default_factory=dict)


_exactly = msgspec.json.Decoder(_Ends, float_hook=Decimal).decode


@lru_cache(maxsize=1024)
def _readers(schema_json: str) -> dict[str, Callable[[Any], Value] | None]:
    """How the bounds of each column are read; None for a column without."""
    return {
        column.name: _exact if column.type.startswith("decimal(") else _READERS.get(column.type)
        for column in live_columns(schema_json)
    }


def _read(read: Callable[[Any], Value], value: object) -> Value | None:
    return None if value is None else read(value)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _moment(value: str) -> datetime:
    found = datetime.fromisoformat(value)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _exact(value: object) -> Decimal:
    return Decimal(cast("Any", value))


_READERS: Mapping[str, Callable[[Any], Value]] = {
    "short": _whole,
    "integer": _whole,
    "long": _whole,
    "string": _text,
    "date": date.fromisoformat,
    "timestamp": _moment,
}
