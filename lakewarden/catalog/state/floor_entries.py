"""What is known of scopes' Delta tables besides the tables themselves, and where that is kept; of many scopes, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.base.arrays import flags, numbers, values
from lakewarden.base.connection import Location
from lakewarden.base.scope import NOTHING

ON_STORAGES = ".lakewarden-floor"
IN_STATE = "known"

NEVER = 1 << 62
"""Milliseconds; the time of what has not happened."""

UNSEEN = -1
"""`looked_at` of a scope that was not looked at; and an amount that is not known."""

NO_TABLE = -1
"""The version, and the rule by which there is nothing to do, of a scope without a table."""

OPERATIONS = ("", "WRITE", "MERGE", "COMPACT", "OPTIMIZE", "VACUUM END", "RESTORE")
"""What commits of ours are called in a table's history."""


@dataclass(frozen=True)
class UpkeepNote:
    """What maintenance has to know of a scope's table, in one version of it. Times in milliseconds."""

    files: int
    bytes: int
    committed_at: int
    """When our newest commit that is known of was made; 0 when unknown."""
    operation: int
    """Which operation that was: its place in `OPERATIONS`; 0 when unknown."""
    looked_at: int
    """When the table was last opened, and another program's commits would have been seen."""
    compacted: int
    """The rule (`tables.upkeep_rules`) by which a compaction finds nothing to do; 0 when it may find something."""
    optimized: int
    """The same for packing."""
    dead_since: int
    """When the first of the files was replaced that exist and are not live; 0 when unknown, `NEVER` when there are none."""
    log_since: int
    """When the first checkpoint was written that makes older parts of the log superfluous; 0 and `NEVER` as above."""
    dead_bytes: int = UNSEEN
    """Those of the files that exist and are not live, as commits replaced them; `UNSEEN`, as all that follows, when unknown."""
    compact_bytes: int = UNSEEN
    """Bytes that compact's own rule would rewrite into one file."""
    optimize_bytes: int = UNSEEN
    """The same of packing, into `optimize_made` files."""
    compact_files: int = UNSEEN
    """How many files these are."""
    optimize_files: int = UNSEEN
    optimize_made: int = UNSEEN


def absent(at: int) -> UpkeepNote:
    """Returns the entry of a scope that had no table at that time."""
    return UpkeepNote(0, 0, 0, 0, at, NO_TABLE, NO_TABLE, NEVER, NEVER, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class KnownState:
    """The durable state of a scope's Delta table when this was noted: it cannot have less now.

    Of two notes the one with the higher watermark counts; of those with the same, a forgotten one, then the one with the
    higher version, then the later look. So notes can be joined in any order, and any number of times.
    """

    version: int
    watermark: int
    """`NOTHING` when no flush has committed."""
    rows: int
    deleted_upto: int = NOTHING
    """Watermark of the last flush or restore that removed rows; `NOTHING` when none did."""
    forgotten: bool = False
    """The table was given up: erased or swept. A later table at its place starts again."""
    upkeep: UpkeepNote | None = None
    """None when the scope was not looked at for maintenance. Only the state's copy has it."""

    @property
    def rank(self) -> tuple[int, bool, int, int]:
        # The watermark first: versions begin anew behind an erasure, `_seq` never does
        # (docs/decisions/0020-floors-and-identity.md).
        return self.watermark, self.forgotten, self.version, UNSEEN if self.upkeep is None else self.upkeep.looked_at

    def exceeds(self, version: int, watermark: int | None) -> bool:
        """Whether more is known than a version with that watermark has."""
        return not self.forgotten and (version < self.version or (NOTHING if watermark is None else watermark) < self.watermark)

    def joined(self, other: KnownState) -> KnownState:
        newer = self if self.rank >= other.rank else other
        # Of both, whichever note wins: a repair must not believe that no rows were removed.
        deleted = max(self.deleted_upto, other.deleted_upto)
        return newer if newer.deleted_upto == deleted else replace(newer, deleted_upto=deleted)


@dataclass(frozen=True)
class FloorLocation:
    """Where one copy of a table's floor is (`catalog.state.floor`)."""

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


# What is known of many scopes, in arrays, by the keyed hashes of the scopes.
_HASH: pa.DataType = cast("Any", pa.binary(16))

UPKEEP = tuple(field.name for field in fields(UpkeepNote))

AMOUNTS = UPKEEP[UPKEEP.index("dead_bytes") :]
"""What notes of earlier releases lack, and copies on storages: they stand last."""

_SHORT = frozenset({"compact_files", "optimize_files", "optimize_made"})
"""Columns of 32 bits."""

SCHEMA = pa.schema(
    [
        ("scope", _HASH),
        ("version", pa.int64()),
        ("watermark", pa.int64()),
        ("rows", pa.int64()),
        ("deleted_upto", pa.int64()),
        ("forgotten", pa.bool_()),
        *((name, pa.int32() if name in _SHORT else pa.int64()) for name in UPKEEP),
    ]
)
"""`scope` is the keyed hash of the user, or of the empty name when the table has one scope. Sorted by `scope`, each once.
Holds only counts, versions and times: no value of a row, and no name. `looked_at` is `UNSEEN` where there is no `UpkeepNote`."""

_NAMES = SCHEMA.names

Numbers = NDArray[np.int64]
Rows = NDArray[np.bool_]
_Halves = NDArray[np.uint64]

_COUNTS = ("version", "watermark", "rows", "deleted_upto")
_NONE = dict.fromkeys(UPKEEP, 0) | {"looked_at": UNSEEN} | dict.fromkeys(AMOUNTS, UNSEEN)


class KnownScopes:
    """Notes of many scopes: lookup by bisection, join without a loop over scopes."""

    def __init__(self, table: pa.Table) -> None:
        """`table` is sorted by `scope`; the columns of `UpkeepNote` may be missing."""
        there = table.column_names
        for name in (name for name in UPKEEP if name not in there):
            table = table.append_column(name, _column(name, np.full(table.num_rows, _NONE[name])))
        self.table = (table if there == _NAMES else table.select(_NAMES)).combine_chunks()

    @cached_property
    def _hashes(self) -> tuple[_Halves, _Halves]:
        return _halves(self.table.column("scope"))

    @classmethod
    def of(cls, known: Mapping[str, KnownState]) -> KnownScopes:
        """Returns the notes by keyed hash, in hexadecimal digits."""
        rows = sorted((bytes.fromhex(mark), one) for mark, one in known.items())
        hashes = scope_hashes(b"".join(mark for mark, _ in rows))
        counts = [numbers(np.array([getattr(one, name) for _, one in rows], np.int64)) for name in _COUNTS]
        forgotten = flags(np.array([one.forgotten for _, one in rows], np.bool_))
        noted = [(_NONE if one.upkeep is None else vars(one.upkeep)) for _, one in rows]
        upkeep = [_column(name, np.array([each[name] for each in noted], np.int64)) for name in UPKEEP]
        return cls(pa.table([hashes, *counts, forgotten, *upkeep], schema=SCHEMA))

    @classmethod
    def union(cls, parts: Iterable[KnownScopes]) -> KnownScopes:
        """Returns all scopes of the parts, with the notes of each joined as by `KnownState.joined`."""
        tables = [part.table for part in parts if len(part)]
        if len(tables) < 2:  # each part has a scope once
            return cls(tables[0]) if tables else cls.of({})
        table = pa.concat_tables(tables).combine_chunks()
        high, low = _halves(table.column("scope"))
        ranks = [values(table.column(name)) for name in ("looked_at", "version", "forgotten", "watermark")]
        # By scope, and within it by `rank`, the last key counting most: so the last row of each scope is the one that holds.
        order = np.lexsort((*ranks, low, high))
        high, low = high[order], low[order]
        last = np.append((high[1:] != high[:-1]) | (low[1:] != low[:-1]), np.True_)
        first = np.flatnonzero(np.insert(last[:-1], 0, np.True_))
        # As in `joined`: the highest of all notes.
        deleted = np.maximum.reduceat(values(table.column("deleted_upto"))[order], first)
        kept = table.take(numbers(order[last]))
        index = SCHEMA.get_field_index("deleted_upto")
        return cls(kept.set_column(index, SCHEMA.field(index), numbers(deleted)))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def get(self, mark: str) -> KnownState | None:
        row = self._row(mark)
        if row is None:
            return None
        columns = self._columns
        version, watermark, rows, deleted = [columns[name].item(row) for name in _COUNTS]
        seen = columns["looked_at"].item(row) != UNSEEN
        noted = UpkeepNote(*[columns[name].item(row) for name in UPKEEP]) if seen else None
        return KnownState(version, watermark, rows, deleted, bool(columns["forgotten"][row]), noted)

    def mark(self, row: int) -> str:
        """Returns the hash of the scope in this row."""
        return cast("bytes", self.table.column("scope")[row].as_py()).hex()

    def __getitem__(self, name: str) -> Numbers:
        """Returns one column, in the order of the scopes."""
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, Numbers]:
        return {name: values(self.table.column(name)) for name in _NAMES[1:]}

    @property
    def shortest(self) -> pa.Table:
        """The notes without amounts, where none is known."""
        known = any((self[name] != UNSEEN).any() for name in AMOUNTS)
        return self.table if known else self.table.drop_columns(list(AMOUNTS))

    def without_upkeep(self) -> KnownScopes:
        return KnownScopes(self.table.select(_NAMES[: -len(UPKEEP)]))

    def only(self, rows: Rows) -> KnownScopes:
        """Returns the notes in these rows."""
        return KnownScopes(self.table.filter(flags(rows)))

    def among(self, scopes: pa.Array[Any]) -> KnownScopes:
        """Returns the notes of these scopes, by keyed hash."""
        return KnownScopes(self.table.filter(pc.is_in(self.table.column("scope"), value_set=scopes)))

    def besides(self, others: KnownScopes) -> KnownScopes:
        """Returns the notes that are not among the others in the same words."""
        if not len(self):
            return self
        theirs = others.among(self.table.column("scope").combine_chunks())
        same = self.among(theirs.table.column("scope").combine_chunks())  # in the order of `theirs`
        changed = np.zeros(len(same), np.bool_)
        for name in _NAMES[1:]:
            changed |= same[name] != theirs[name]
        left = pc.invert(pc.is_in(self.table.column("scope"), value_set=theirs.table.column("scope").combine_chunks()))
        return KnownScopes(pa.concat_tables([self.table.filter(left), same.only(changed).table]).sort_by("scope"))

    def rows_of(self, others: KnownScopes) -> Rows:
        """Returns which rows are of scopes that the others have."""
        among = pc.is_in(self.table.column("scope"), value_set=others.table.column("scope").combine_chunks())
        return values(among)

    def hexadecimal(self, rows: Rows) -> list[str]:
        """Returns the hashes of these rows."""
        return hexadecimal(self.table.column("scope").filter(flags(rows)))

    def _row(self, mark: str) -> int | None:
        key = bytes.fromhex(mark)
        high, low = np.uint64(int.from_bytes(key[:8], "big")), np.uint64(int.from_bytes(key[8:], "big"))
        highs, lows = self._hashes
        row = int(highs.searchsorted(high))  # the method: numpy's function takes twice as long
        # Hashes are 128 bits in two columns; several may share the first half.
        while row < len(highs) and highs[row] == high:
            if lows[row] == low:
                return row
            row += 1
        return None


@dataclass(frozen=True)
class DistinctScopes:
    """Keyed hashes of scopes in order, each once: so a million are compared in a quarter of the time that hash tables take."""

    high: _Halves
    low: _Halves

    @classmethod
    def of(cls, hashes: Iterable[pa.Array[Any]]) -> DistinctScopes:
        high, low = _halves(pa.chunked_array([*hashes], scope_hashes(b"").type))
        order = np.argsort(high)
        if not np.diff(high[order]).all():  # some stand twice, or share their first half
            order = np.lexsort((low, high))
        high, low = high[order], low[order]
        first = np.insert((high[1:] != high[:-1]) | (low[1:] != low[:-1]), 0, np.True_)[: len(high)]
        return cls(high[first], low[first])

    def __len__(self) -> int:
        return len(self.high)

    def besides(self, known: KnownScopes) -> DistinctScopes:
        """Returns those of which there is no note."""
        highs, lows = known._hashes
        at, left = highs.searchsorted(self.high), np.arange(len(self))
        unknown = np.ones(len(self), np.bool_)
        while len(left):  # again where notes share their first half
            left = left[at[left] < len(highs)]
            left = left[highs[at[left]] == self.high[left]]
            unknown[left] = lows[at[left]] != self.low[left]
            left = left[unknown[left]]
            at[left] += 1
        return DistinctScopes(self.high[unknown], self.low[unknown])

    def hexadecimal(self) -> list[str]:
        return [f"{high:016x}{low:016x}" for high, low in zip(self.high.tolist(), self.low.tolist(), strict=True)]


def scope_hashes(data: bytes) -> pa.Array[Any]:
    """Returns keyed hashes that follow one another as an array."""
    return pa.Array.from_buffers(_HASH, len(data) // _HASH.byte_width, [None, pa.py_buffer(data)])


def hexadecimal(hashes: pa.Array[Any] | pa.ChunkedArray[Any]) -> list[str]:
    """Returns keyed hashes in the digits by which scopes are looked up."""
    return [mark.hex() for mark in cast("list[bytes]", hashes.to_pylist())]


def _column(name: str, found: Numbers) -> pa.Array[Any]:
    return numbers(found, short=name in _SHORT)


def _halves(hashes: pa.ChunkedArray[Any]) -> tuple[_Halves, _Halves]:
    """Returns the hashes as two columns of numbers that sort in the same order."""
    if not len(hashes):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    whole = cast("Any", hashes.combine_chunks())
    both = np.frombuffer(whole.buffers()[1], ">u8", 2 * len(whole), 16 * whole.offset).reshape(-1, 2)
    return both[:, 0].astype(np.uint64), both[:, 1].astype(np.uint64)
