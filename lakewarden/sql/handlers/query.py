"""Executes SELECT and EXPLAIN, and SET freshness."""

from __future__ import annotations

from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.results import Done, Rows
from lakewarden.sql.statements.rows import Explain, Query
from lakewarden.sql.statements.session import SetFreshness


def query(context: Context, statement: Query) -> Rows:
    return select.run(context, statement.query)


def explain(context: Context, statement: Explain) -> Rows:
    return select.explain(context, statement.query)


def set_freshness(_: Context, statement: SetFreshness) -> Done:
    """The session itself notes it."""
    return Done(f"freshness is {statement.freshness}")
