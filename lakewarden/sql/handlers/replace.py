"""Executes INSERT OVERWRITE and TRUNCATE: by one commit in Delta; in a USER table by one call of the log."""

from __future__ import annotations

import pyarrow as pa

from lakewarden.operations.reading.scope import Wanted
from lakewarden.rows.intake import Rows
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.insert import incoming
from lakewarden.sql.handlers.writing.direct import overwrite_directly
from lakewarden.sql.handlers.writing.target import Target, target_of
from lakewarden.sql.results import Affected
from lakewarden.sql.statements.rows import Overwrite, Truncate
from lakewarden.table.intake import Revision


def overwrite(context: Context, statement: Overwrite) -> Affected:
    """Raises:
    ConstraintViolation, InvalidArgument: a row does not fit, or a key is given twice. Nothing was changed.
    """
    target = target_of(context, statement)
    return _replaced(target, incoming(context, statement, target.schema))


def truncate(context: Context, statement: Truncate) -> Affected:
    return _replaced(target_of(context, statement), None)


def _replaced(target: Target, given: Rows | None) -> Affected:
    rows = None if given is None else target.client.completed(given, user=target.user)
    if not target.plan.in_log:
        return overwrite_directly(target, rows)

    def decide(live: pa.Table) -> Revision:
        return Revision(rows, live.select(target.schema.primary_key))

    changes = target.client.revise(decide, user=target.user, wanted=Wanted(target.schema.primary_key))
    return target.affected(changes if rows is None else rows.num_rows)
