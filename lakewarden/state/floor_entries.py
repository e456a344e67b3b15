"""What is known of scopes' Delta tables besides the tables themselves, in arrays, by the keyed hashes of the scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.connection import Location

NOTHING = -1
"""The `_seq`, and the position, before the first one (`log.position`)."""

ON_STORAGES = ".lakewarden-floor"
IN_STATE = "known"

_HASH: pa.DataType = cast("Any", pa.binary(16))

SCHEMA = pa.schema(
    [
        ("scope", _HASH),
        ("version", pa.int64()),
        ("watermark", pa.int64()),
        ("rows", pa.int64()),
        ("deleted_upto", pa.int64()),
        ("forgotten", pa.bool_()),
    ]
)
"""`scope` is the keyed hash of the user, or of the empty name when the table has one scope. Sorted by `scope`, each once.
Holds only counts and versions: no value of a row, and no name."""

_Numbers = NDArray[np.uint64]

_COUNTS = ("version", "watermark", "rows", "deleted_upto")


@dataclass(frozen=True)
class Known:
    """The durable state of a scope's Delta table when this was noted: it cannot have less now.

    Of two notes the one with the higher watermark counts; of those with the same, a forgotten one, and then the one with
    the higher version. So notes can be joined in any order, and any number of times.
    """

    version: int
    watermark: int
    """`NOTHING` when no flush has committed."""
    rows: int
    deleted_upto: int = NOTHING
    """Watermark of the last flush or restore that removed rows; `NOTHING` when none did."""
    forgotten: bool = False
    """The table was given up: erased or swept. A later table at its place starts again."""

    @property
    def rank(self) -> tuple[int, bool, int]:
        return self.watermark, self.forgotten, self.version

    def joined(self, other: Known) -> Known:
        newer = max(self, other, key=lambda known: known.rank)
        deleted = max(self.deleted_upto, other.deleted_upto)
        return Known(newer.version, newer.watermark, newer.rows, deleted, newer.forgotten)


@dataclass(frozen=True)
class FloorLocation:
    """Where one copy of a table's floor is (`state.floors`)."""

    location: Location
    prefix: str

    @classmethod
    def on_storage(cls, base: Location, table_id: str) -> FloorLocation:
        return cls(base, f"{ON_STORAGES}/{table_id}")

    @property
    def table_id(self) -> str:
        return self.prefix.rpartition("/")[2]

    @classmethod
    def in_state(cls, state: Location, table_id: str) -> FloorLocation:
        return cls(state, f"{IN_STATE}/{table_id}")


class KnownScopes:
    """Notes of many scopes: lookup by bisection, join without a loop over scopes."""

    def __init__(self, table: pa.Table) -> None:
        """`table` is of `SCHEMA` (more columns are allowed) and sorted by `scope`."""
        self.table = table.select(SCHEMA.names).combine_chunks()
        self._high, self._low = _halves(self.table)

    @classmethod
    def of(cls, known: Mapping[str, Known]) -> KnownScopes:
        """Returns the notes by keyed hash, in hexadecimal digits."""
        rows = sorted((bytes.fromhex(mark), one) for mark, one in known.items())
        columns = [[mark for mark, _ in rows], *([getattr(one, name) for _, one in rows] for name in SCHEMA.names[1:])]
        return cls(pa.table([pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA))

    @classmethod
    def union(cls, parts: Iterable[KnownScopes]) -> KnownScopes:
        """Returns all scopes of the parts, with the notes of each joined as by `Known.joined`."""
        table = pa.concat_tables([SCHEMA.empty_table(), *(part.table for part in parts)]).combine_chunks()
        if not table.num_rows:
            return cls(table)
        high, low = _halves(table)
        ranks = [np.asarray(table.column(name)) for name in ("version", "forgotten", "watermark")]
        order = np.lexsort((*ranks, low, high))
        high, low = high[order], low[order]
        last = np.append((high[1:] != high[:-1]) | (low[1:] != low[:-1]), np.True_)
        first = np.flatnonzero(np.insert(last[:-1], 0, np.True_))
        deleted = np.maximum.reduceat(np.asarray(table.column("deleted_upto"))[order], first)
        kept = table.take(pa.array(order[last]))
        index = SCHEMA.get_field_index("deleted_upto")
        return cls(kept.set_column(index, SCHEMA.field(index), pa.array(deleted, pa.int64())))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def get(self, mark: str) -> Known | None:
        key = bytes.fromhex(mark)
        high, low = np.uint64(int.from_bytes(key[:8], "big")), np.uint64(int.from_bytes(key[8:], "big"))
        start, end = np.searchsorted(self._high, high, "left"), np.searchsorted(self._high, high, "right")
        row = int(start + np.searchsorted(self._low[start:end], low, "left"))
        if row >= end or self._low[row] != low:
            return None
        version, watermark, rows, deleted = (int(self.table.column(name)[row].as_py()) for name in _COUNTS)
        return Known(version, watermark, rows, deleted, bool(self.table.column("forgotten")[row].as_py()))


def _halves(table: pa.Table) -> tuple[_Numbers, _Numbers]:
    """Returns the hashes as two columns of numbers that sort in the same order."""
    if not table.num_rows:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    hashes = cast("Any", table.column("scope").combine_chunks())
    both = np.frombuffer(hashes.buffers()[1], ">u8", 2 * len(hashes), 16 * hashes.offset).reshape(-1, 2)
    return both[:, 0].astype(np.uint64), both[:, 1].astype(np.uint64)
