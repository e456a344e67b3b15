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


def in_memory(context: Context, given: Rows | Parts) -> Rows:
    """Raises:
    Unsupported: the statement needs all rows at once, and they are too many.
    """
    if isinstance(given, Parts):
        most = context.limits.result_bytes
        raise Unsupported(
            f"the result is larger than {most:,} bytes (sql.result_bytes), and this statement needs all of it at once; insert the"
            " rows by several statements"
        )
    return given
