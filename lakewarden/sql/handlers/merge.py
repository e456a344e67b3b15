"""Executes MERGE: the source's rows are computed once, joined to the live rows by key, and written in one call of the log."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakewarden.errors import ConstraintViolation
from lakewarden.operations.intake import Revision
from lakewarden.operations.reading.scope import Wanted
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.merge_branches import SOURCE, Branches, Delete, Insert, Update
from lakewarden.sql.handlers.writing.merge_on import bounds_of, key_pairs
from lakewarden.sql.handlers.writing.target import Target, target_of
from lakewarden.sql.queries import select
from lakewarden.sql.results import Affected
from lakewarden.sql.statements.rows import Merge


def merge(context: Context, statement: Merge) -> Affected:
    """Raises:
    Unsupported: ON is not on the key, or the table has none.
    ConstraintViolation, InvalidArgument: a row cannot be changed or added as it says. Nothing was written.
    """
    target = target_of(context, statement)
    source = select.run(context, exp.select("*").from_(statement.source.copy(), copy=False))
    keys = key_pairs(statement, target, source.columns)
    branches = list(Branches(target, statement, keys, source.columns))

    def decide(live: pa.Table) -> Revision:
        read, extra = {target.table.name: live}, {SOURCE: source.table}
        found = [(branch, select.run(context, branch.query, read, extra)) for branch in branches]
        _check_once(target, [(each, each.keys(target, rows)) for each, rows in found if not isinstance(each, Insert)])
        written = [branch.rows(context, target, rows) for branch, rows in found if not isinstance(branch, Delete)]
        removed = [branch.keys(target, rows) for branch, rows in found if isinstance(branch, Delete)]
        return Revision(pa.concat_tables(written) if written else None, _once(target, removed) if removed else None)

    if not branches:
        return target.affected(0)
    wanted = Wanted(bounds=bounds_of(keys, source, target.schema))
    changes = target.client.revise(decide, user=target.user, wanted=wanted)
    return target.affected(source.table.num_rows if context.rules == "k3" else changes)


def _check_once(target: Target, matched: Sequence[tuple[Update | Delete, pa.Table]]) -> None:
    """Raises:
    ConstraintViolation: a row is matched by several rows of the source.
    """
    counted = [keys for branch, keys in matched if isinstance(branch, Update) or not branch.every]
    if not counted:
        return
    key = list(target.schema.primary_key)
    counts = pa.concat_tables(counted).group_by(key).aggregate([([], "count_all")])
    twice = counts.filter(pc.field("count_all") > 1).slice(0, 1).select(key).to_pylist()
    if twice:
        raise ConstraintViolation(
            f"MERGE INTO {target.table.name}: several rows of the source match the row {twice[0]}, which can be changed once; "
            "give each key once"
        )


def _once(target: Target, keys: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(keys).group_by(list(target.schema.primary_key)).aggregate([])
