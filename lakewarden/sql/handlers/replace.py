"""Executes INSERT OVERWRITE and TRUNCATE: by one commit in Delta; in a USER table by one call of the log."""

from __future__ import annotations

import pyarrow as pa

from lakewarden.errors import Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.insert import copied, incoming
from lakewarden.sql.handlers.overwrite import overwrite_dynamic
from lakewarden.sql.handlers.writing.direct import completed, overwrite_directly
from lakewarden.sql.handlers.writing.parts import replace_by_parts
from lakewarden.sql.handlers.writing.target import WriteTarget, target_of
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.statements.rows import Overwrite, Truncate
from lakewarden.tables.intake import Revision
from lakewarden.tables.reading.scope import ReadSelection
from lakewarden.tables.rows.intake import RowParts, Rows


def overwrite(context: Context, statement: Overwrite) -> AffectedRows:
    """Raises:
    ConstraintViolation, InvalidArgument: a row does not fit, or a key is given twice. Nothing was changed.
    """
    target = target_of(context, statement)
    if target.table.dynamic is not None:
        return overwrite_dynamic(context, statement, target)
    if statement.partition:
        raise Unsupported(f"INSERT OVERWRITE … PARTITION is for dynamic tables, and {target.table.name} is not one")
    if (files := copied(context, statement, target)) is not None:
        return overwrite_directly(target, files)
    return _replaced(target, incoming(context, statement, target.schema))


def truncate(context: Context, statement: Truncate) -> AffectedRows:
    return _replaced(target_of(context, statement), None)


def _replaced(target: WriteTarget, given: Rows | RowParts | None) -> AffectedRows:
    if not target.plan.in_log:
        return overwrite_directly(target, None if given is None else completed(target, given))
    if isinstance(given, RowParts):
        return replace_by_parts(target, given)
    rows = None if given is None else target.client.completed(given, user=target.user)

    def decide(live: pa.Table) -> Revision:
        return Revision(rows, live.select(target.schema.primary_key))

    changes = target.client.revise(decide, user=target.user, wanted=ReadSelection(target.schema.primary_key))
    return target.affected(changes if rows is None else rows.num_rows)
