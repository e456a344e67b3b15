"""Makes changes of rows of the log, with the rows before them: those that the log keeps, or else those that were live before.

It keeps no state: what came before is read again, so each batch can be read again, and by another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.delta.reading.before import rows_before
from lakewarden.log.before import before_of
from lakewarden.log.record import DELETE, OP, SEQ, TARGET, UPSERT
from lakewarden.tables.changes.value import DELETED, INSERT, POSTIMAGE, PREIMAGE

_TYPES = (PREIMAGE, INSERT, POSTIMAGE, DELETED)
_BEFORE, _NEW, _AFTER, _GONE = range(4)

_Indices = NDArray[np.int64]


@dataclass(frozen=True)
class TypedChanges:
    """Rows with `_seq` of their change, and the type of each."""

    rows: pa.Table
    types: pa.Array[Any]


def normalized(live: pa.Table, rows: pa.Table, primary_key: Sequence[str]) -> TypedChanges:
    """The changes that rows of one scope's log make.

    Args:
        live: the rows that were live before; as in `rows_before`.
        rows: of the log (`log.record.decode`), ascending by `_seq`.
    """
    before = rows_before(live, rows, primary_key)
    return _changes(before.rows, rows, before.prior, before.was)


def kept(rows: pa.Table) -> TypedChanges:
    """The same of rows that come with those before them (`_before`)."""
    before, was = before_of(rows)
    both = pa.concat_tables([before, rows.select(before.column_names)])
    return _changes(both, rows, np.arange(rows.num_rows), was.to_numpy(zero_copy_only=False))


def inserted(rows: pa.Table) -> TypedChanges:
    """The same where nothing was live before, each key is written once, and none is deleted."""
    return TypedChanges(rows.drop_columns([OP]), pa.repeat(INSERT, rows.num_rows))


def upserted(rows: pa.Table) -> TypedChanges:
    """The same without before images: any write of a row is an `update_postimage`, and a delete has the primary key alone."""
    deleted = pc.equal(rows.column(OP), pa.scalar(DELETE, pa.int8()))
    types = pc.if_else(deleted, DELETED, POSTIMAGE).combine_chunks()
    return TypedChanges(rows.drop_columns([OP]), cast("pa.Array[Any]", types))


def appended_and_removed(before: pa.Table, rows: pa.Table) -> TypedChanges:
    """The changes of a STREAM table, whose rows are only appended, and deleted by their `_seq`.

    Args:
        before: earlier rows of its log.
        rows: ascending by `_seq`. The delete of a row that is in neither is no change, nor is a second one.
    """
    both = pa.concat_tables([before, rows])
    ops, seqs = both.column(OP).to_numpy(), both.column(SEQ).to_numpy()
    targets = both.column(TARGET).fill_null(pa.scalar(-1)).to_numpy()
    deletes = np.flatnonzero(ops == DELETE)
    firsts = deletes[np.unique(targets[deletes], return_index=True)[1]]
    firsts = firsts[firsts >= before.num_rows]
    inserts = np.flatnonzero(ops == UPSERT)
    at = np.minimum(np.searchsorted(seqs[inserts], targets[firsts]), max(0, len(inserts) - 1))
    found = seqs[inserts][at] == targets[firsts] if len(inserts) else np.zeros(len(firsts), bool)
    added = inserts[inserts >= before.num_rows]
    columns = both.drop_columns([OP, SEQ, TARGET])
    gone = firsts[found]
    parts = ((added, added, _NEW), (inserts[at[found]], gone, _GONE))
    return _gathered(columns, rows.column(SEQ).to_numpy(), before.num_rows, parts)


def _changes(content: pa.Table, rows: pa.Table, prior: _Indices, was: NDArray[np.bool_]) -> TypedChanges:
    """
    Args:
        content: ends with the columns of these rows of the log.
        prior: for each of them, where in `content` the row before it is; any where there was none (`was`).
    """
    first = content.num_rows - rows.num_rows
    own = np.arange(first, content.num_rows)
    comes = rows.column(OP).to_numpy() == UPSERT
    updated = own[was & comes]
    parts = (
        (prior[was & comes], updated, _BEFORE),
        (own[~was & comes], own[~was & comes], _NEW),
        (updated, updated, _AFTER),
        (prior[was & ~comes], own[was & ~comes], _GONE),
    )
    return _gathered(content, rows.column(SEQ).to_numpy(), first, parts)


def _gathered(rows: pa.Table, seqs: NDArray[Any], first: int, parts: Sequence[tuple[_Indices, _Indices, int]]) -> TypedChanges:
    """For each part, which rows, and the rows of the log that changed them; in the order of these."""
    content = np.concatenate([which for which, _, _ in parts])
    cause = np.concatenate([by for _, by, _ in parts])
    kinds = np.concatenate([np.full(len(which), kind) for which, _, kind in parts])
    order = np.lexsort((kinds, cause))
    found = rows.take(pa.array(content[order])).append_column(SEQ, pa.array(seqs[cause[order] - first]))
    return TypedChanges(found, pa.array(_TYPES).take(pa.array(kinds[order])))
