"""Evaluates defaults at append: one value for each row that does not have its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId, random_id, to_millis
from lakewarden.catalog.column_values import LiteralDefault, parse_default
from lakewarden.catalog.model import SchemaColumn
from lakewarden.tables.rows.columns import repeated

# Generates the values of `SNOWFLAKE_ID()`: ids that fit a BIGINT, differ between processes and roughly follow time.
_EPOCH_MILLIS = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1000)
_WORKER_BITS = 17
_SEQUENCE_BITS = 8


class Snowflake:
    """One process's generator. Safe for threads.

    Bits, from the top: 38 of time in 64ths of a second (136 years), 17 of the process, 8 of sequence. A caller that
    takes more than 256 in a tick runs ahead of the clock (a million ids: a minute) rather than into another process's
    ids; two processes meet only if they drew the same 17 bits, at 1 in 131,072, and take ids in the same tick.
    """

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._lock = threading.Lock()
        self._next = 0
        self._process = -1
        self._worker = 0

    def take(self, count: int, now: datetime) -> list[int]:
        """Returns the next ids, ascending and above all that this generator returned before."""
        millis = int(now.timestamp() * 1000) - _EPOCH_MILLIS
        with self._lock:
            self._be_own_process()
            first = max(self._next, (millis * 64 // 1000) << _SEQUENCE_BITS)
            self._next = first + count
            own = self._worker << _SEQUENCE_BITS
        low = (1 << _SEQUENCE_BITS) - 1
        return [((at & ~low) << _WORKER_BITS) | own | (at & low) for at in range(first, first + count)]

    def _be_own_process(self) -> None:
        if self._process != os.getpid():  # new, or forked
            self._process = os.getpid()
            self._worker = int(self._new_id(), 16) % (1 << _WORKER_BITS)


PROCESS_SNOWFLAKE = Snowflake(random_id)
"""One generator for the whole process: two could return the same id."""


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True)
class Defaults:
    """The inputs of default functions. `user` is the value of CURRENT_USER() when rows do not name their own users."""

    clock: Clock
    new_id: NewId
    user: str | None = None
    snowflake: Snowflake = field(default=PROCESS_SNOWFLAKE)

    def values(self, column: SchemaColumn, count: int, now: datetime, users: pa.Array[Any] | None = None) -> pa.Array[Any]:
        """Returns `count` values of the column's default; NULLs if it has none.

        `now` is the moment of the call; `users`, one for each value, override `user`.
        """
        arrow = column.type.arrow
        if column.default is None:
            return repeated(None, count, column.type)
        default = parse_default(column.default, column.type)
        if isinstance(default, LiteralDefault):
            return repeated(default.value, count, column.type)
        if default.name == "CURRENT_USER":
            return repeated(self.user, count, column.type) if users is None else users.cast(arrow)
        if default.name == "SNOWFLAKE_ID":
            return pa.array(self.snowflake.take(count, now), arrow)
        if default.name in _IDS:
            make = _IDS[default.name]
            return pa.array([make(self.new_id(), now) for _ in range(count)], arrow)
        return repeated(now, count, column.type)


def _uuid(digits: str, version: str) -> str:
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-{version}{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _uuid_v4(digits: str, _now: datetime) -> str:
    return _uuid(digits, "4")


def _uuid_v7(digits: str, now: datetime) -> str:
    return _uuid(f"{to_millis(now):012x}{digits[12:]}", "7")


def _ulid(digits: str, now: datetime) -> str:
    number = to_millis(now) << 80 | int(digits[:12] + digits[-8:], 16)  # leaves out the digits that a UUID fixes
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -5, -5))


_IDS: dict[str, Callable[[str, datetime], str]] = {"GENERATE_UUID": _uuid_v4, "UUID_V7": _uuid_v7, "ULID": _ulid}
