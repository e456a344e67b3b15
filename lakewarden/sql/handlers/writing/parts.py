"""Writes the rows of a query that are too many to be in memory together: through the write log, by one position."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from lakewarden.errors import Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.target import WriteTarget
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.results import AffectedRows
from lakewarden.tables.rows.intake import RowParts


def insert_parts(target: WriteTarget, given: RowParts) -> AffectedRows:
    replaces = target.table.options.on_duplicate == "replace"
    receipt = target.client.write_parts(given, user=target.user, mode="upsert" if replaces else "insert")
    return target.affected(receipt.rows)


def replace_by_parts(target: WriteTarget, given: RowParts) -> AffectedRows:
    """Replaces all rows of a user."""
    return target.affected(target.client.write_parts(given, user=target.user, mode="replace").rows)


def of_shares(context: Context) -> Limits:
    """Of the query of a statement that compares its rows with the live ones. Beyond `result_bytes` of it, a share of so many
    bytes at a time is compared with its live rows, of as many: what is made of both is within `sql.result_bytes`.
    """
    return replace(context.limits, result_bytes=context.limits.result_bytes // 4)


def check_divides(context: Context, query: exp.Select, source: str) -> None:
    """Checks that a query over `source` and the live rows gives the same rows where it runs on a share of them at a time.

    Raises:
        Unsupported: it does not.
    """
    if any(window.find_ancestor(exp.Select) is query for window in query.find_all(exp.Window)):
        why = "a window function compares them with each other"
    elif sum(not table.db and table.name == source for table in query.find_all(exp.Table)) > 1:
        why = "a subquery reads all of them"
    else:
        return
    raise Unsupported(
        f"the rows have more than {of_shares(context).result_bytes:,} bytes (a fourth of sql.result_bytes), and {why}; nothing"
        " was written: compute it in the query that gives the rows, or raise the bound"
    )
