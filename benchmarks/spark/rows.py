"""The rows that Spark reads and streams here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewarden import Column

COLUMNS = (
    Column("id", "BIGINT", nullable=False),
    Column("kind", "TEXT"),
    Column("amount", "DOUBLE"),
    Column("note", "TEXT"),
)
_KINDS = np.array(["login", "order", "payment", "refund", "logout"])


def made(users: range, ids: range) -> pa.Table:
    """A row of each id for each user, whose name is in the column `who`."""
    numbers = np.tile(np.arange(ids.start, ids.stop), len(users))
    random = np.random.default_rng(users.start)
    return pa.table(
        {
            "id": numbers,
            "kind": _KINDS[random.integers(0, len(_KINDS), len(numbers))],
            "amount": random.random(len(numbers)),
            "note": np.char.add("note ", (numbers % 997).astype(str)),
            "who": np.repeat([f"user{each:06d}" for each in users], len(ids)),
        }
    )
