"""Turns rows of the log into events: what each does to the rows that a subscriber's query returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.log.record import OP, SEQ, TARGET, UPSERT

Kind = Literal["initial", "insert", "update", "delete"]
Row = Mapping[str, object]
Key = tuple[object, ...]


@dataclass(frozen=True)
class Event:
    """What happened to one row of a subscription's result.

    `row` has the columns of the query; of a `delete`, the primary key's, or `_seq` of the removed row where the table is
    a STREAM. `seq` is that of the write.
    """

    kind: Kind
    seq: int
    row: Row


class Fold:
    """Which rows the query returns, as of the last event."""

    def __init__(self) -> None:
        self._shown: set[Key] = set()

    def __len__(self) -> int:
        return len(self._shown)

    def begin(self, rows: pa.Table, schema: TableSchema, matched: Mapping[int, Row]) -> None:
        """Starts from the rows that were live then, and those of them that the query returns, by `_seq`."""
        keys = zip(_keys(rows, schema), _whole(rows, SEQ), strict=True)
        self._shown = {key for key, seq in keys if seq in matched}

    def events(self, rows: pa.Table, schema: TableSchema, matched: Mapping[int, Row]) -> Iterator[Event]:
        """Events of further rows of the log, in order (`log.record.decode`), of which the query returns `matched`."""
        targets: list[int | None] = rows.column(TARGET).to_pylist() if schema.append_only else [None] * rows.num_rows
        for key, seq, op, target in zip(_keys(rows, schema), _whole(rows, SEQ), _whole(rows, OP), targets, strict=True):
            if op != UPSERT:
                gone: Key = key if target is None else (target,)
                if gone in self._shown:
                    yield self._deleted(gone, seq, schema)
            elif seq in matched:
                yield Event("update" if key in self._shown else "insert", seq, matched[seq])
                self._shown.add(key)
            elif key in self._shown:
                yield self._deleted(key, seq, schema)

    def forget_before(self, seq: int) -> None:
        """Events of the rows of a STREAM table that have expired."""
        self._shown = {key for key in self._shown if isinstance(key[0], int) and key[0] >= seq}

    def _deleted(self, key: Key, seq: int, schema: TableSchema) -> Event:
        self._shown.discard(key)
        names = (SEQ,) if schema.append_only else schema.primary_key
        return Event("delete", seq, dict(zip(names, key, strict=True)))


def _keys(rows: pa.Table, schema: TableSchema) -> list[Key]:
    """What identifies a row: its primary key, or its `_seq` where rows are only appended, or have no key."""
    names = (SEQ,) if schema.append_only or not schema.primary_key else schema.primary_key
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _whole(rows: pa.Table, name: str) -> list[int]:
    return cast("list[int]", rows.column(name).to_pylist())
