"""Catalog values that the tests of this room share."""

from __future__ import annotations

from datetime import UTC, datetime

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Column, Storage, Table, TableOptions, TableType
from lakewarden.catalog.schema import declare

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def base_of(storage: Storage) -> str:
    return storage.base if storage.base.startswith("/") or "://" in storage.base else f"/lake/{storage.base}"


def table(name: str, type: TableType = "USER", storage_id: str = "local") -> Table:
    schema = declare([Column("id", "BIGINT"), Column("content", "TEXT")], ["id"])
    return Table(f"id of {name}", TableName.parse(name), type, TableOptions(storage_id), (schema,), f"log of {name}", NOW)


def storage(storage_id: str, base: str, user_template: str = "", shared_template: str = "", folds_case: bool = False) -> Storage:
    return Storage(storage_id, "filesystem", base, user_template, shared_template, folds_case)
