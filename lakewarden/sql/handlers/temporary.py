"""Executes the statements about temporary tables, which belong to one session and live in its memory."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_declaration import FILE_PATH, KAFKA
from lakewarden.catalog.model import Table
from lakewarden.catalog.names import check_table
from lakewarden.catalog.options import check_type
from lakewarden.delta.reading.rows import empty_rows, matches
from lakewarden.errors import AlreadyExists, ConstraintViolation, InvalidArgument, NotFound, Unsupported
from lakewarden.log.record import SEQ
from lakewarden.maintenance.admin.create_table import new_table
from lakewarden.maintenance.admin.dynamic_tables import DynamicDeclaration, new_dynamic_table
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.declaring import declared, options_of
from lakewarden.sql.handlers.dynamic import is_dynamic
from lakewarden.sql.results import AffectedRows, StatementDone
from lakewarden.sql.statements.tables import CreateTable, CreateTemporaryTable, DropTemporaryTable
from lakewarden.sql.temporary.tables import TemporaryTable
from lakewarden.tables.rows.intake import RowParts, Rows


def create_temporary_table(context: Context, statement: CreateTemporaryTable) -> StatementDone:
    """Raises:
    AlreadyExists: the session has a temporary table of this name.
    NotFound: there is no such namespace.
    InvalidArgument, Unsupported: the declaration is not valid, or is not for a table in memory.
    """
    name = context.named(statement.table)
    if context.temporary.find(name) is not None:
        if statement.declared.if_not_exists:
            return StatementDone(f"temporary table {name} already exists")
        raise AlreadyExists(f"temporary table {name} already exists")
    if name.namespace not in context.catalog.namespaces:
        raise NotFound(f"there is no namespace {name.namespace!r}: a temporary table has its name in one of the warehouse")
    check_table(name.name)
    table = _declared(context, statement.declared, name)
    context.temporary.add(TemporaryTable(table, empty_rows(table.schema)))
    return StatementDone(f"temporary table {name} created")


def drop_temporary_table(context: Context, statement: DropTemporaryTable) -> StatementDone:
    """Raises:
    InvalidArgument: the name means a table of the warehouse.
    NotFound: nothing has this name.
    """
    name = context.named(statement.table)
    if context.temporary.drop(name):
        return StatementDone(f"temporary table {name} dropped")
    if statement.if_exists:
        return StatementDone(f"skipped: there is no temporary table {name}")
    if name in context.catalog.tables:
        raise InvalidArgument(f"{name} is a table of the warehouse, not a temporary one; DROP TABLE {name} would remove it")
    raise NotFound(f"there is no temporary table {name}")


def insert_temporary(context: Context, held: TemporaryTable, given: Rows | RowParts) -> AffectedRows:
    """Adds rows. A row of a key that exists replaces it if the table's ON_DUPLICATE is `replace`, as that of dynamic tables is.

    Raises:
        ConstraintViolation: a key exists; or a value does not fit. The rows stay as they were.
        Unsupported: the session's tables would take more memory than they may.
    """
    table, before = held.table, held.rows
    whole = context.temporary.joined(table.name, given) if isinstance(given, RowParts) else given
    rows = open_table(context.warehouse, table).by(context.principal.user).completed(whole, user=None)
    if table.schema.primary_key and before.num_rows and rows.num_rows:
        again = matches(before, rows, table.schema.primary_key)
        if pc.any(again).as_py() and table.options.on_duplicate == "error":
            raise ConstraintViolation(f"{table.name}: a row with such a primary key exists already")
        before = before.filter(pc.invert(again))
    last = pc.max(held.rows.column(SEQ)).as_py() or 0
    numbered = rows.append_column(SEQ, pa.array(range(last + 1, last + 1 + rows.num_rows), pa.int64()))
    added = numbered.select(before.column_names).cast(before.schema)
    context.temporary.replace_rows(table.name, pa.concat_tables([before, added]))
    return AffectedRows(rows.num_rows)


def _declared(context: Context, statement: CreateTable, name: TableName) -> Table:
    """The table as CREATE TABLE would make it, without a place."""
    key, partition_by = declared(statement, statement.primary_key), declared(statement, statement.partition_by)
    options = options_of(statement.options)
    if any(option.strip().lower() == FILE_PATH or option.strip().lower().startswith(KAFKA) for option in options):
        raise InvalidArgument(f"{name} is temporary: it is in memory, and takes no option {FILE_PATH} and none of {KAFKA}…")
    if is_dynamic(context, statement):
        session = {option: value for option, value in context.table_storage.items() if option != FILE_PATH}
        given = DynamicDeclaration(name, statement.columns, key, partition_by, options, session)
        return new_dynamic_table(context.warehouse, context.catalog, given)
    if check_type(statement.type) != "SHARED":
        raise Unsupported(f"{name}: a temporary table belongs to its session, and is not of the type {statement.type}")
    return new_table(context.warehouse, name, "SHARED", statement.columns, key, options, partition_by)
