"""Executes SELECT and EXPLAIN, and what SET and SHOW are for."""

from __future__ import annotations

from lakewarden.base.commit_metadata import carried
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.results import ResultRows, StatementDone, listing
from lakewarden.sql.statements.rows import Explain, Query
from lakewarden.sql.statements.session import SetFreshness, SetMetadata, ShowMetadata
from lakewarden.sql.system.listings import TEXT


def query(context: Context, statement: Query) -> ResultRows:
    return select.run(context, statement.query)


def explain(context: Context, statement: Explain) -> ResultRows:
    return select.explain(context, statement.query)


def set_freshness(_: Context, statement: SetFreshness) -> StatementDone:
    """The session itself notes it."""
    return StatementDone(f"freshness is {statement.freshness}")


def set_metadata(_: Context, statement: SetMetadata) -> StatementDone:
    """The session itself notes it."""
    return StatementDone("commit_metadata is set" if statement.metadata else "commit_metadata is empty")


def show_metadata(_context: Context, _statement: ShowMetadata) -> ResultRows:
    return listing({"commit_metadata": TEXT}, [{"commit_metadata": carried()}])
