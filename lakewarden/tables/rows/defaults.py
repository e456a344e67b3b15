"""Evaluates defaults at append: one value for each row that does not have its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId, to_millis
from lakewarden.catalog.column_values import LiteralDefault, parse_default
from lakewarden.catalog.model import SchemaColumn
from lakewarden.tables.rows.columns import repeated
from lakewarden.tables.rows.snowflake import PROCESS_SNOWFLAKE, Snowflake

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
