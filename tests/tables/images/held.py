"""A reader that holds what the changes of a table say, and finds every before image that does not continue it."""

from __future__ import annotations

from typing import Any

from lakewarden import Column, Lakehouse
from lakewarden.tables.changes.value import Changes
from lakewarden.tables.client import TableClient

ALL = {"log.changelog-mode": "all"}

Row = dict[str, Any]


def make(lake: Lakehouse, name: str = "n.t", **options: str) -> TableClient:
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    lake.create_namespace("n", if_not_exists=True)
    return lake.create_table(name, columns=columns, primary_key=["id"], dynamic=True, options={**ALL, **options})


def rows(texts: dict[int, str]) -> list[Row]:
    return [{"id": key, "text": text} for key, text in texts.items()]


def listed(found: Changes) -> list[tuple[str, int, str | None]]:
    return [(row["_change_type"], row["id"], row["text"]) for row in found.rows.to_pylist()]


def held_after(found: Changes, held: dict[int, Row] | None = None) -> dict[int, Row]:
    """What a reader has who had these rows, by key."""
    held = dict(held or {})
    for row in found.rows.to_pylist():
        kind, _ = row.pop("_change_type"), row.pop("_seq")
        if kind in ("update_preimage", "delete"):
            assert held.pop(row["id"], None) == row, "each change continues the one before"
        else:
            assert row["id"] not in held, "an insert is of a new key, and the row before an update comes first"
            held[row["id"]] = row
    return held


def live(table: TableClient) -> dict[int, Row]:
    return {row["id"]: row for row in table.read().to_pylist()}
