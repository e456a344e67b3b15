"""Checks references to files that rows bring against the files: a reference is text, which anybody can write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.log.record import USER, LogBatch
from lakewarden.tables.files.objects import check_reference
from lakewarden.tables.reading.scope import where_it_lies
from lakewarden.tables.rows.files import FileRef, file_columns

Targets = Callable[[str | None], ScopeTarget]
"""The scope of a user; of a SHARED table, of None."""


def texts_of(rows: pa.Table, columns: Iterable[str]) -> frozenset[str]:
    """The references in these columns, as their rows have them."""
    present = (pc.unique(rows.column(name)).to_pylist() for name in columns if name in rows.column_names)
    return frozenset(text for texts in present for text in texts if text is not None)


def check_rows(schema: TableSchema, rows: pa.Table, user: str | None, targets: Targets, known: Collection[str] = ()) -> None:
    """
    Args:
        user: whose rows they are; None on a SHARED table.
        known: references that need no look: those of live rows, or to files that are stored with the rows.

    Raises:
        ConstraintViolation: a row refers to no file of its scope.
    """
    for text in texts_of(rows, file_columns(schema)).difference(known):
        ref = FileRef.parse(text)
        where_it_lies(partial(targets, user), partial(_checked, ref))


def _checked(ref: FileRef, target: ScopeTarget) -> tuple[None, bool]:
    check_reference(target, ref)
    return None, True


def check_batch(schema: TableSchema, batch: LogBatch, targets: Targets, known: Collection[str] = ()) -> None:
    """As `check_rows`, for rows of any users."""
    if not texts_of(batch.rows, file_columns(schema)).difference(known):
        return
    users = batch.rows.column(USER)
    for user in users.unique():
        check_rows(schema, batch.rows.filter(pc.equal(users, user)), user.as_py() or None, targets, known)
