"""What statements do with temporary tables, and what their names mean for the statements that follow."""

from __future__ import annotations

from lakewarden.base.scope import TableName
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.pipelines import CreateFromTemplate
from lakewarden.sql.statements.rows import Insert, Subscribe
from lakewarden.sql.statements.show import Describe
from lakewarden.sql.statements.tables import (
    CreateTable,
    CreateTableAs,
    CreateTemporaryTable,
    CreateView,
    DropTable,
    DropTemporaryTable,
)

Names = frozenset[TableName]

_OF_THE_WAREHOUSE = (CreateTable, CreateTableAs, CreateFromTemplate)
"""Statements whose name is that of a table of the warehouse, whatever the session has."""


def is_about(statement: Statement, name: TableName, shadowing: Names) -> bool:
    """Whether the statement is about a temporary table, which needs no right: it is the session's own.

    Raises:
        InvalidArgument, Unsupported: temporary tables take no such statement.
    """
    if name not in shadowing or isinstance(statement, _OF_THE_WAREHOUSE):
        return False
    if isinstance(statement, DropTable):
        raise InvalidArgument(f"{name} means the session's temporary table here: DROP TEMPORARY TABLE {name} first")
    plain = isinstance(statement, Insert) and statement.conflict is None and not statement.files
    shown = isinstance(statement, Describe) and not statement.versions
    if not (plain or shown or isinstance(statement, (CreateTemporaryTable, DropTemporaryTable))):
        raise Unsupported(
            f"{name} is a temporary table, which takes SELECT, INSERT (without ON CONFLICT and FILE), DESCRIBE and"
            " DROP TEMPORARY TABLE only"
        )
    return True


def check_read(statement: Statement, name: TableName, *, as_of: bool) -> None:
    """Raises:
    Unsupported: the query of the statement cannot read a temporary table.
    """
    if isinstance(statement, CreateView):
        raise Unsupported(f"{name} is a temporary table: a view outlives the session, and so reads tables of the warehouse only")
    if isinstance(statement, Subscribe):
        raise Unsupported(f"{name} is a temporary table, which has no changes to subscribe to")
    if as_of:
        raise Unsupported(f"{name} is a temporary table, which has no versions")


def shadowing_after(statement: CreateTemporaryTable | DropTemporaryTable, name: TableName, shadowing: Names) -> Names:
    """The names that mean temporary tables behind the statement."""
    return shadowing | {name} if isinstance(statement, CreateTemporaryTable) else shadowing - {name}
