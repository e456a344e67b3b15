"""Executes MERGE: the source's rows are computed once, joined to the live rows by key, and written in one call of the log."""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.merge_branches import SOURCE, Branches
from lakewarden.sql.handlers.writing.merge_deciding import Merging
from lakewarden.sql.handlers.writing.merge_names import naming_source_shortly
from lakewarden.sql.handlers.writing.merge_on import bounds_of, key_pairs
from lakewarden.sql.handlers.writing.merge_shares import merge_parts
from lakewarden.sql.handlers.writing.parts import of_shares
from lakewarden.sql.handlers.writing.target import reads_itself, target_of
from lakewarden.sql.queries import select
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.statements.rows import Merge
from lakewarden.tables.reading.scope import EVERYTHING, ReadSelection
from lakewarden.tables.rows.intake import RowParts


def merge(context: Context, statement: Merge) -> AffectedRows:
    """Raises:
    Unsupported: ON is not on the key, or the table has none.
    ConstraintViolation, InvalidArgument: a row cannot be changed or added as it says. Nothing was written.
    """
    target, statement = target_of(context, statement), naming_source_shortly(context, statement)
    source = select.spooled(context, exp.select("*").from_(statement.source.copy(), copy=False), of_shares(context))
    keys = key_pairs(statement, target, source.columns)
    branches = tuple(Branches(target, statement, keys, source.columns))
    if not branches:
        return target.affected(0)
    every = any(reads_itself(context, branch.query, target.table, {SOURCE}) for branch in branches)
    merging = Merging(context, target, branches)
    if isinstance(source.rows, RowParts):
        changes = merge_parts(merging, statement, keys, source.rows, every=every)
        given = sum(part.num_rows for part in source.rows.tables()) if context.rules == "k3" else 0
    else:
        wanted = EVERYTHING if every else ReadSelection(bounds=bounds_of(keys, source.rows, target.schema))
        changes = target.client.revise(partial(merging.revision, source.rows), user=target.user, wanted=wanted)
        given = source.rows.num_rows
    return target.affected(given if context.rules == "k3" else changes)
