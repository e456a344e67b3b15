"""What a change feed returns, and where it begins: `full`, `latest`, `timestamp:…` or `seq:…`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import pyarrow as pa

from lakewarden.base.clock import Clock, from_micros, to_micros
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.parquet.files import CHANGE_TYPE
from lakewarden.errors import InvalidArgument
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.trail import Trail
from lakewarden.log.position import NOTHING, end_of, position_of
from lakewarden.log.record import SEQ, USER
from lakewarden.log.stream import is_over


@dataclass(frozen=True)
class Changes:
    """The changes beyond one `_seq`, up to another.

    `rows` have the columns of `change_schema`, ascending by `_seq`; of an update the row before it comes first.
    """

    rows: pa.Table
    upto: int
    """The `_seq` after which the next changes come."""


def change_schema(schema: TableSchema, owned: bool) -> pa.Schema:
    """The table's columns, `_user` where rows belong to users (`owned`), `_change_type`, `_seq`."""
    own = [pa.field(column.name, column.type.arrow) for column in schema.shown]
    user = [pa.field(USER, pa.string())] if owned else []
    return pa.schema([*own, *user, pa.field(CHANGE_TYPE, pa.string()), pa.field(SEQ, pa.int64())])


def typed(rows: pa.Table, types: pa.Array[pa.StringScalar] | str, schema: pa.Schema) -> pa.Table:
    """Rows, with `_user` where the schema has it, and their change types, in the form of `schema`."""
    count = rows.num_rows
    given = dict(zip(rows.column_names, rows.columns, strict=True))
    given[CHANGE_TYPE] = pa.chunked_array([pa.repeat(types, count) if isinstance(types, str) else types])
    return pa.Table.from_arrays([given[name] for name in schema.names], schema=schema)


def unexpired(table: Table, ranges: tuple[RowRange, ...], clock: Clock) -> tuple[RowRange, ...]:
    """Rows of the log; of a STREAM table those that have not expired."""
    ttl = table.options.ttl_seconds
    if table.type != "STREAM" or ttl is None:
        return ranges
    now = clock()
    return tuple(each for each in ranges if not is_over(each, ttl, now))


# Where a change feed begins: `full`, `latest`, `timestamp:…` or `seq:…`.
Kind = Literal["full", "latest", "timestamp", "seq"]


@dataclass(frozen=True)
class Start:
    """`full`: the rows as of now, then their changes. `latest`: changes from now on. `timestamp`: those that were stored at or
    after a moment (`at`, in microseconds since 1970; 0 for all that are kept). `seq`: those after a `_seq`."""

    kind: Kind = "full"
    seq: int = NOTHING
    at: int = 0

    @classmethod
    def of_table(cls, table: Table) -> Start:
        """Where streams of a table begin that do not say it: the `log.scan` of a dynamic table, and else `full`."""
        if table.dynamic is None or table.dynamic.log_scan == "full":
            return cls()
        if table.dynamic.log_scan == "latest":
            return cls("latest")
        return cls("timestamp", at=(table.dynamic.log_scan_timestamp or 0) * 1000)

    @classmethod
    def parse(cls, text: str) -> Start:
        """Raises InvalidArgument: it is not one of these."""
        kind, _, value = text.partition(":")
        if kind in ("full", "latest") and not value:
            return cls("full" if kind == "full" else "latest")
        if kind == "seq" and value.lstrip("-").isdecimal():
            return cls("seq", seq=int(value))
        if kind == "timestamp" and value:
            return cls("timestamp", at=_moment(value))
        raise InvalidArgument(
            f"starting_from {text!r} is not full, latest, timestamp:… (milliseconds since 1970, or 2026-11-23T10:00:00Z) or seq:…"
        )


def first_after(trail: Trail, ranges: Sequence[RowRange], where: Start, now: datetime, retention_seconds: float) -> int:
    """The `_seq` after which the changes stored at or after a moment begin; the end where there are none yet.

    Args:
        ranges: those of whose changes are read, ascending.

    Raises:
        InvalidArgument: changes of that moment are no longer kept; the message names the earliest moment that works.
    """
    kept = [each for each in ranges if each.first_seq > trail.forgotten]
    earliest = min([each.stored_at for each in kept] + [to_micros(now - timedelta(seconds=retention_seconds))])
    if 0 < where.at < earliest and trail.forgotten > NOTHING:
        moment = from_micros(earliest).isoformat(timespec="milliseconds")
        raise InvalidArgument(f"changes of that time are no longer kept (log.retention_seconds): start at timestamp:{moment}")
    first = next((each.first_seq for each in kept if each.stored_at >= where.at), None)
    if first is None:
        return trail.end
    whole = end_of(position_of(first) - 1) if position_of(first) else NOTHING
    upset = [end_of(each) for each in (trail.upset.rewound, trail.upset.erased) if each is not None]
    return max([whole, *upset])


def _moment(text: str) -> int:
    if text.isdecimal():
        return int(text) * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(f"timestamp {text!r}: give milliseconds since 1970, or a moment as 2026-11-23T10:00:00Z") from error
    return to_micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
