"""One statement: asks the gate, and does it."""

from __future__ import annotations

from lakewarden.sql import rights, select
from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.results import Result


def execute(context: Context, statement: of.Statement) -> Result:
    """Asks the gate once more, since the catalog may have changed, and does it.

    Raises:
        LakewardenError: it was not done.
    """
    if isinstance(statement, (of.Query, of.Explain)):
        context = context.at_once()
    rights.check(context, statement, {})
    return _run(context, statement)


def _run(context: Context, statement: of.Statement) -> Result:
    if isinstance(statement, of.ExecuteAs):
        return _run(context.through(context.door.execute_as(context.catalog(), statement.user)), statement.statement)
    if isinstance(statement, of.Query):
        return select.run(context, statement.query)
    if isinstance(statement, of.Explain):
        return select.explain(context, statement.query)
    from lakewarden.sql.verbs import do  # brings all operations, which a query need not wait for

    return do(context, statement)
