"""Executes SELECT and EXPLAIN."""

from __future__ import annotations

from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.results import Rows
from lakewarden.sql.statements.rows import Explain, Query


def query(context: Context, statement: Query) -> Rows:
    return select.run(context, statement.query)


def explain(context: Context, statement: Explain) -> Rows:
    return select.explain(context, statement.query)
