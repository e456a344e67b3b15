"""K3's sample table, and what the tests ask of it."""

from __future__ import annotations

from typing import Any

from lakewarden.client.k3 import K3

BUCKET = "kb-prod"


def column(name: str, kind: str, *, nullable: bool = True, default: str = "") -> dict[str, object]:
    return {"name": name, "type": f"COLUMN_TYPE_{kind}", "nullable": nullable, "default_expression": default}


COLUMNS = [
    column("id", "LONG", nullable=False),
    column("user_id", "STRING", nullable=False),
    column("event_type", "STRING"),
    column("payload", "JSON"),
]


def make(k3: K3, name: str, *, keyed: bool = True, parted: bool = False) -> str:
    """The seed's table, with or without its keys and partitions."""
    keys, parts = (["id", "user_id"] if keyed else []), (["event_type"] if parted else [])
    k3.create_table(BUCKET, name, COLUMNS, partition_columns=parts, merge_keys=keys)
    return name


def event(number: int, kind: str | None = "click", user: str = "u") -> dict[str, object]:
    return {"id": number, "user_id": user, "event_type": kind}


def run(k3: K3, sql: str, freshness: str = "FRESHNESS_STRONG") -> Any:
    return k3.execute(BUCKET, sql, freshness=freshness)


def kinds(k3: K3, table: str, freshness: str = "STRONG") -> dict[int, str]:
    """`event_type` by `id`, each key once."""
    rows = run(k3, f"SELECT id, event_type FROM {table} ORDER BY id", f"FRESHNESS_{freshness}")["rows"]
    found = {row["id"]: row["event_type"] for row in rows}
    assert len(found) == len(rows), "one row per key"
    return found


def version(k3: K3, table: str) -> int:
    return int(str(k3.get_table(BUCKET, table)["deltaVersion"]))


def strategy(answer: Any) -> str:
    return str(answer["strategy"]).removeprefix("WRITE_STRATEGY_")
