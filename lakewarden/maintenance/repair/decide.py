"""Decides which rows a repaired scope holds: a pure function of what was found of the scope, from any source.

A row comes back only if a later deletion can be excluded (docs/decisions/0021-repair.md). The others are set apart:
an operator who knows better may write them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.reading.rows import matches, upserts
from lakewarden.log.position import NOTHING
from lakewarden.log.record import OP, SEQ, UPSERT


@dataclass(frozen=True)
class RowDecision:
    """Both with the newest schema's columns and `_seq`."""

    rows: pa.Table
    doubtful: pa.Table


SURVIVED = "_survived"
"""Column of found rows: the `_seq` up to which no deletion removed the row, as far as its source shows."""


def decide(base: pa.Table, found: pa.Table, primary_key: Sequence[str], doubt_upto: int) -> RowDecision:
    """Returns the newest row of each key; a tombstone hides the older ones. Without a key no row stands for another, and
    nothing goes through the log: the base is all there is.

    Args:
        base: rows of the last version that can be read (the newest schema's columns and `_seq`).
        found: rows and tombstones from files that no readable commit names and from the write log (`_op` and `SURVIVED`
            besides). The same row may be in both, and more than once.
        doubt_upto: deletions beyond the base, up to this `_seq`, may have left no trace, so rows that are not known to have
            survived them are doubtful; `NOTHING` where all deletions are known.
    """
    if not primary_key:
        return RowDecision(base, base.slice(0, 0))
    # Rows of other programs have no `_seq` and cannot be ordered: any row of ours with the key is taken for newer.
    strangers, own = _split(base, pc.is_null(base.column(SEQ)))
    every = pa.concat_tables([_as_found(own), found.select([*base.column_names, OP, SURVIVED])])
    # Over all sources at once: a tombstone in the log hides a row of a file.
    newest = Keys.newest(_distinct(every), primary_key).rows
    live = upserts(newest)
    unseen = strangers.filter(pc.invert(matches(strangers, newest, primary_key))) if len(newest) else strangers
    if doubt_upto == NOTHING:
        return RowDecision(pa.concat_tables([unseen, live.select(base.column_names)]), base.slice(0, 0))
    # A row whose source was written behind the last possible deletion survived it; the others may have been deleted without a
    # trace.
    doubtful, certain = _split(live, pc.less(live.column(SURVIVED), pa.scalar(doubt_upto, pa.int64())))
    return RowDecision(certain.select(base.column_names), pa.concat_tables([unseen, doubtful.select(base.column_names)]))


def with_survival(rows: pa.Table, upto: int | None) -> pa.Table:
    """Adds the column to rows from a source where deletions up to this `_seq` had been applied; None: each only up to its own."""
    column = rows.column(SEQ) if upto is None else pa.chunked_array([pa.repeat(pa.scalar(upto, pa.int64()), rows.num_rows)])
    return rows.append_column(SURVIVED, column)


def doubt_after(base_watermark: int, last_delete: int, complete_after: int, undone_upto: int) -> int:
    """The `doubt_upto` of a scope whose commits beyond `base_watermark` cannot be read.

    Args:
        last_delete: no row that a flush settled beyond this `_seq` was ever deleted.
        complete_after: the log and its history hold every row and tombstone beyond this `_seq`.
        undone_upto: a restore that cannot be read any more may have taken back rows up to this `_seq`; `NOTHING` without one.
    """
    # A deletion beyond `complete_after` is in the log itself. What a restore took back no tombstone shows.
    unknown = max(min(last_delete, complete_after), undone_upto)
    return unknown if unknown > base_watermark else NOTHING


def _as_found(rows: pa.Table) -> pa.Table:
    return with_survival(rows.append_column(OP, pa.array([UPSERT] * rows.num_rows, pa.int8())), None)


def _distinct(rows: pa.Table) -> pa.Table:
    """One of the rows with the same `_seq`, with what is known of any of them: the log gives each number once, so they are
    copies of one row."""
    at = pa.array(range(rows.num_rows), pa.int64())
    numbered = pa.table({"seq": rows.column(SEQ), "survived": rows.column(SURVIVED), "at": at})
    each = numbered.group_by("seq", use_threads=False).aggregate([("at", "min"), ("survived", "max")])
    first = rows.take(each.column("at_min"))
    return first.set_column(first.schema.get_field_index(SURVIVED), SURVIVED, each.column("survived_max"))


def _split(rows: pa.Table, mask: Any) -> tuple[pa.Table, pa.Table]:
    return rows.filter(mask), rows.filter(pc.invert(mask))
