"""Schemas and defaults that the tests of this room share."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

from lakewarden.catalog.model import Column, TableSchema
from lakewarden.catalog.schema import declare
from lakewarden.tables.rows.defaults import Defaults, Snowflake

NOW = datetime(2026, 11, 21, 9, 30, 0, 5, UTC)

MESSAGES: TableSchema = declare(
    [
        Column("id", "BIGINT"),
        Column("content", "TEXT", nullable=False, default="'empty'"),
        Column("at", "TIMESTAMP", default="NOW()"),
        Column("price", "DECIMAL(10,2)"),
        Column("extra", "JSON"),
    ],
    ["id"],
)


def defaults(user: str | None = "u_42") -> Defaults:
    numbers = count(1)

    def next_id() -> str:
        return f"{next(numbers) * 0x123456789ABCDEF0FEDCBA98:032x}"

    return Defaults(lambda: NOW, next_id, user, Snowflake(next_id))
