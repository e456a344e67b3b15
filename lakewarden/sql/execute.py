"""Executes a bound statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.sql.bind import Bound
from lakewarden.sql.queries import select
from lakewarden.sql.results import Result
from lakewarden.sql.statements.rows import Explain, Query

if TYPE_CHECKING:
    from lakewarden.rows.files import Upload


def execute(bound: Bound, uploads: Mapping[str, Upload]) -> Result:
    """Raises:
    LakewardenError: the statement failed.
    """
    bound = bound.entered()
    statement, context = bound.statement, replace(bound.context, uploads=uploads)
    if isinstance(statement, Query):
        return select.run(context, statement.query)
    if isinstance(statement, Explain):
        return select.explain(context, statement.query)
    from lakewarden.sql.handlers.dispatch import handle  # imports all operations, which a query does not need

    return handle(context, statement)
