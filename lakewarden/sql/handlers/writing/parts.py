"""Writes the rows of a query that are too many to be in memory together: through the write log, by one position."""

from __future__ import annotations

from lakewarden.errors import Unsupported
from lakewarden.rows.intake import Parts, Rows
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.target import Target
from lakewarden.sql.results import Affected


def insert_parts(target: Target, given: Parts) -> Affected:
    replaces = target.table.options.on_duplicate == "replace"
    receipt = target.client.write_parts(given, user=target.user, mode="upsert" if replaces else "insert")
    return target.affected(receipt.rows)


def replace_by_parts(target: Target, given: Parts) -> Affected:
    """Replaces all rows of a user."""
    return target.affected(target.client.write_parts(given, user=target.user, mode="replace").rows)


def in_memory(context: Context, given: Rows | Parts, why: str) -> Rows:
    """
    Args:
        why: the statement needs all rows at once.

    Raises:
        Unsupported: they are too many.
    """
    if isinstance(given, Parts):
        most = context.limits.result_bytes
        raise Unsupported(
            f"the query's result has more than {most:,} bytes (sql.result_bytes), and {why}; nothing was written: divide the"
            " query by a condition, or raise the bound"
        )
    return given
