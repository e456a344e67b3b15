"""The rows that benchmarks write: an event log of a few plain columns, the same for Lakewarden and for the alternatives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden import Column, Lakehouse

if TYPE_CHECKING:
    from lakewarden.tables.client import TableClient

TABLE = "bench.events"
COLUMNS = (
    Column("id", "BIGINT", nullable=False),
    Column("kind", "TEXT", nullable=False),
    Column("amount", "DOUBLE"),
    Column("note", "TEXT"),
    Column("at", "TIMESTAMP", nullable=False),
)
_KINDS = ("login", "order", "payment", "refund", "logout", "search", "view")
_EPOCH = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


def create(lake: Lakehouse) -> TableClient:
    lake.create_namespace("bench")
    return lake.create_table(TABLE, type="USER", columns=COLUMNS, primary_key=["id"])


def user_name(number: int) -> str:
    return f"u{number:06d}"


def users(count: int) -> list[str]:
    return [user_name(number) for number in range(count)]


def rows(who: list[str], first: int, count: int) -> pa.Table:
    """`count` rows for each of these users, their ids from `first` on; the column `user` names whose they are.

    Spread over the users as in an event log: the rows of a moment, one of each user, stand together.
    """
    numbers = [first + number for number in range(count) for _ in who]
    return _table(pa.array(who * count, pa.string()), pa.array(numbers, pa.int64()))


def rows_of_each(count: int) -> pa.Table:
    """One row of each of this many users, made without a list of them."""
    ids: pa.Array[Any] = pa.array(np.arange(count))
    texts = pc.utf8_lpad(pc.cast(ids, pa.string()), 6, "0")
    return _table(_behind("u", texts), ids)


def _table(owners: pa.Array[Any], ids: pa.Array[Any]) -> pa.Table:
    return pa.table(
        {
            "user": owners,
            "id": ids,
            "kind": pa.array(_KINDS).take(pc.subtract(ids, pc.multiply(pc.divide(ids, len(_KINDS)), len(_KINDS)))),
            "amount": pc.multiply(pc.cast(ids, pa.float64()), 1.25),
            "note": _behind("a note on event ", pc.cast(ids, pa.string())),
            "at": pc.cast(pc.add(pc.multiply(ids, 1_000_000), _EPOCH), pa.timestamp("us", tz="UTC")),
        }
    )


def _behind(text: str, texts: pa.Array[Any]) -> pa.Array[Any]:
    joined: Any = pc.binary_join_element_wise
    found: pa.Array[Any] = joined(text, texts, "")
    return found
