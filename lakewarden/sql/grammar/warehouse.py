"""Parses statements about the whole warehouse."""

from __future__ import annotations

from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.warehouse import AlterWarehouse


def alter_warehouse(read: StatementReader) -> Statement:
    """Reads what follows ALTER WAREHOUSE."""
    read.expect("SET")
    return AlterWarehouse(read.pairs())
