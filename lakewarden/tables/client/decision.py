"""What a change decided from the rows that it read, and whether that still holds where others appended since."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.reading.bounds import rows_within
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import ConstraintViolation
from lakewarden.log.pending_keys import Key
from lakewarden.log.plain import Batch
from lakewarden.log.record import USER, decode
from lakewarden.log.touches import Touched, united
from lakewarden.log.view import LogView
from lakewarden.storage.objects import Missing
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.reading.keys import touched_by
from lakewarden.tables.reading.scope import ReadSelection

_USERS = 100
"""Of a write of more users' rows, what came in between is not looked at."""

_EXACT = ("SMALLINT", "INT", "BIGINT", "TEXT", "DATE")
"""Types of which equal values are the same value."""


@dataclass(frozen=True)
class DecisionRows:
    """The rows that a decision depends on."""

    users: Collection[str]
    """Whose; `""` in a SHARED table."""
    holds: Callable[[pa.Table], bool]
    """Whether they are the same where these users' rows of the log came since."""


@dataclass(frozen=True)
class Decision:
    """Rows to append right after what they were decided from."""

    batch: Batch
    read: DecisionRows | None = None
    """None where anything that came since may change it."""
    touched: Touched | None = None
    """The rows that were read and are written, if not all of the users'."""


def later_rows(reader: TableReader, former: LogView, view: LogView, users: Collection[str]) -> pa.Table | None:
    """The rows of the log that these users got between two views; None where something else may have happened to theirs."""
    chunks = view.since(former, users)
    if chunks is None:
        return None
    try:
        return decode(reader.log.chunks(chunks), chunks, reader.table.schemas)
    except Missing:
        return None  # settled and cleaned up since


def key_taken(table: Table, key: Key) -> ConstraintViolation:
    """What an INSERT of a key says that is live."""
    first = dict(zip(table.schema.primary_key, key, strict=True))
    return ConstraintViolation(
        f"{table.name} has a row with the key {first} already; use mode='upsert', or ON CONFLICT, to replace it"
    )


def absent(batch: Batch, schema: TableSchema) -> DecisionRows | None:
    """Of a decision that depends on no row with one of these keys being live."""
    users = [str(user) for user in batch.rows.column(USER).unique().to_pylist()]
    if len(users) > _USERS:
        return None
    return DecisionRows(users, lambda later: not _any(matches(later, batch.rows, schema.primary_key)))


def live_within(live: pa.Table, wanted: ReadSelection, schema: TableSchema, user: str | None) -> DecisionRows | None:
    """Of a decision that depends on the live rows within the bounds: they are the same unless one of them is written, or another
    row that is within.
    """
    if not set(schema.primary_key) <= set(live.column_names):
        return None

    def holds(later: pa.Table) -> bool:
        return not _any(matches(later, live, schema.primary_key)) and not rows_within(later, wanted.bounds).num_rows

    return DecisionRows((user or "",), holds)


def pinned_key(wanted: ReadSelection, schema: TableSchema) -> pa.Table | None:
    """The one key that rows within the bounds can have; None where there may be several, or none."""
    pinned = {bound.column: bound.low for bound in wanted.bounds if bound.low is not None and bound.low == bound.high}
    columns = [column for column in schema.columns if column.name in schema.primary_key]
    if not columns or not all(column.type.name in _EXACT and column.name in pinned for column in columns):
        return None
    try:
        return pa.table({column.name: pa.array([pinned[column.name]], column.type.arrow) for column in columns})
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None  # beyond the column's range


def touched_with(key: pa.Table, batch: Batch, schema: TableSchema, user: str | None) -> Touched | None:
    """The row with this key, which was read, and those that are written; None where they are many."""
    written = touched_by(schema, batch.rows)
    if written is None:
        return None
    read = tuple(key.column(name)[0].as_py() for name in schema.primary_key)
    return united({user or "": frozenset((read,))}, written)


def _any(found: Any) -> bool:
    return bool(pc.any(found).as_py())
