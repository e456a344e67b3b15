"""Executes SELECT and EXPLAIN, and what SET and SHOW are for."""

from __future__ import annotations

from lakewarden.base.commit_metadata import carried
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.results import Done, Rows, listing
from lakewarden.sql.statements.rows import Explain, Query
from lakewarden.sql.statements.session import SetFreshness, SetMetadata, ShowMetadata
from lakewarden.sql.system.listings import TEXT


def query(context: Context, statement: Query) -> Rows:
    return select.run(context, statement.query)


def explain(context: Context, statement: Explain) -> Rows:
    return select.explain(context, statement.query)


def set_freshness(_: Context, statement: SetFreshness) -> Done:
    """The session itself notes it."""
    return Done(f"freshness is {statement.freshness}")


def set_metadata(_: Context, statement: SetMetadata) -> Done:
    """The session itself notes it."""
    return Done("commit_metadata is set" if statement.metadata else "commit_metadata is empty")


def show_metadata(_context: Context, _statement: ShowMetadata) -> Rows:
    return listing({"commit_metadata": TEXT}, [{"commit_metadata": carried()}])
