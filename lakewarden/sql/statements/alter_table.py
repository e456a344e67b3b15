"""ALTER and DROP of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlglot.tokenizer_core import TokenType

from lakewarden.base.scope import TableName
from lakewarden.catalog.evolution import (
    AddColumn,
    AddColumns,
    Alteration,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SetDefault,
    SetNullable,
    SetOptions,
)
from lakewarden.catalog.model import Table
from lakewarden.delta.scope import open_scope
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.maintenance.admin.alter_table import alter
from lakewarden.maintenance.admin.create_table import begun
from lakewarden.maintenance.drop import drop_now
from lakewarden.maintenance.request import new_request
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs, Ref
from lakewarden.sql.results import ResultRows, StatementDone
from lakewarden.sql.rights import operation_right, table_right
from lakewarden.sql.statement import AuditEntrySpec, Grammar, OnTable, Statement, StatementSpec, UnsupportedStatement, registered
from lakewarden.sql.statements.clauses import (
    as_declared,
    if_exists,
    if_not_exists,
    options_of,
    partition_spec,
    read_column,
    read_type,
    table_words,
)
from lakewarden.sql.statements.dynamic_tables import CompactTable, DropPartition
from lakewarden.sql.statements.upkeep import planned


@dataclass(frozen=True)
class SetProperties:
    properties: Pairs


TableChange = AddColumn | AddColumns | DropColumn | ModifyColumn | RenameColumn | SetNullable | SetDefault | SetProperties


@dataclass(frozen=True)
class AlterTable(OnTable):
    change: TableChange


@dataclass(frozen=True)
class DropTable(OnTable):
    """`type` is the one of the prefix, as in DROP USER TABLE; None without one."""

    type: str | None = None
    if_exists: bool = False
    dry_run: bool = False

    def takes_temporary(self, name: TableName) -> bool:
        raise InvalidArgument(f"{name} means the session's temporary table here: DROP TEMPORARY TABLE {name} first")


_SHORTHAND_LEVELS = ("PUBLIC", "PRIVATE", "RESTRICTED")


def read_alter_table(read: StatementReader) -> Statement:
    """Reads what follows ALTER [type] TABLE."""
    table = read.ref()
    if read.word("CREATE", "VECTOR") or read.word("CREATE", "INDEX") or read.word("DROP", "VECTOR") or read.word("DROP", "INDEX"):
        read.rest()
        return UnsupportedStatement("vector indexes")
    if read.word("COMPACT"):
        return CompactTable(table)
    if (dropped := _dropped_partition(read, table)) is not None:
        return dropped
    change = _read_change(read)
    if read.symbol(TokenType.COMMA):
        raise InvalidArgument(f"ALTER TABLE {table}: a statement makes one change")
    return AlterTable(table, change)


def _dropped_partition(read: StatementReader, table: Ref) -> DropPartition | None:
    """Reads DROP [IF EXISTS] PARTITION and a bracket; without it, `partition` is a column's name."""
    start, optional = read._index, read.word("DROP", "IF", "EXISTS", "PARTITION")
    if (optional or read.word("DROP", "PARTITION")) and read._match(TokenType.L_PAREN, advance=False):
        return DropPartition(table, partition_spec(read), optional)
    read._retreat(start)
    return None


def _read_change(read: StatementReader) -> TableChange:
    match read.one_of("ADD", "DROP", "MODIFY", "ALTER", "RENAME", "SET TBLPROPERTIES", "SET ACCESS LEVEL"):
        case "ADD":
            return _add(read)
        case "DROP":
            read.word("COLUMN")
            return _refusing(read, DropColumn(read.column()), "CASCADE", "RESTRICT")
        case "MODIFY":
            read.expect("COLUMN")
            return _refusing(read, ModifyColumn(read.column(), read_type(read), _nullable(read)), "FIRST", "AFTER")
        case "ALTER":
            read.word("COLUMN")
            return _alter_column(read, read.column())
        case "RENAME":
            read.expect("COLUMN")
            name = read.column()
            read.expect("TO")
            return RenameColumn(name, read.column())
        case "SET TBLPROPERTIES":
            return SetProperties(read.pairs())
        case _:
            level = read.name("an access level").upper()
            if level not in _SHORTHAND_LEVELS:
                levels = ", ".join(_SHORTHAND_LEVELS)
                raise InvalidArgument(f"SET ACCESS LEVEL takes {levels}, not {level}; DBA is set by TBLPROPERTIES")
            return SetProperties((("ACCESS_LEVEL", level),))


def _add(read: StatementReader) -> TableChange:
    """Reads one column, or several: in brackets, or apart by commas, each with or without ADD COLUMN."""
    if not read.word("COLUMN") and read._next and read._next.token_type is TokenType.L_PAREN:
        read.word("COLUMNS")  # without a bracket behind it, it is a column's name
    if read._match(TokenType.L_PAREN, advance=False):
        return AddColumns(tuple(read.listed(lambda: _added(read))))
    added = [_added(read)]
    while read.symbol(TokenType.COMMA):
        if read.word("ADD"):
            read.word("COLUMN")
        elif any(read.word(word, "COLUMN") for word in ("DROP", "MODIFY", "ALTER", "RENAME")):
            raise InvalidArgument("ALTER TABLE: a statement makes one change, or adds several columns")
        added.append(_added(read))
    return added[0] if len(added) == 1 else AddColumns(tuple(added))


def _added(read: StatementReader) -> AddColumn:
    missing = if_not_exists(read)
    column, in_key = read_column(read)
    if in_key:
        raise InvalidArgument(f"column {column.name!r}: the primary key of a table cannot be changed")
    _refuse(read, "FIRST", "AFTER")
    return AddColumn(column, missing)


def _nullable(read: StatementReader) -> bool | None:
    if read.word("NOT", "NULL"):
        return False
    return True if read.word("NULL") else None


def _alter_column(read: StatementReader, name: str) -> TableChange:
    match read.one_of("SET NOT NULL", "DROP NOT NULL", "SET DEFAULT", "DROP DEFAULT", "SET DATA TYPE", "TYPE"):
        case "SET NOT NULL":
            return SetNullable(name, False)
        case "DROP NOT NULL":
            return SetNullable(name, True)
        case "SET DEFAULT":
            return SetDefault(name, read.expression_text("a default"))
        case "DROP DEFAULT":
            return SetDefault(name, None)
        case _:
            raise InvalidArgument(f"column {name!r}: write MODIFY COLUMN {name} and the new type")


def _refusing(read: StatementReader, change: TableChange, *words: str) -> TableChange:
    _refuse(read, *words)
    return change


def _refuse(read: StatementReader, *words: str) -> None:
    for word in words:
        if read.word(word):
            raise InvalidArgument(f"ALTER TABLE takes no {word}")


def read_drop_table(read: StatementReader, prefix: str | None) -> Statement:
    there = if_exists(read)
    return DropTable(read.ref(), prefix, there, read.word("DRY", "RUN"))


def alter_table(context: Context, statement: AlterTable) -> StatementDone:
    """Raises InvalidArgument: several columns, which only K3's rules add by one statement."""
    table = context.table(statement.table)
    if isinstance(statement.change, AddColumns) and context.rules == "native":
        raise InvalidArgument(
            f"ALTER TABLE {table.name}: a statement makes one change; `Lakehouse.alter_table` takes several columns"
        )
    change = _change_of(table, statement.change)
    altered = alter(context.warehouse, table.name, change)
    if context.rules == "k3" and altered.type == "SHARED":
        begun(context.warehouse, context.warehouse.catalog.read(), altered, columns=True)
    return StatementDone(
        f"table {table.name} unchanged: no changes needed" if altered == table else f"table {table.name} altered"
    )


def _change_of(table: Table, change: TableChange) -> Alteration:
    """The change with the column's name as declared: names in SQL ignore case."""
    match change:
        case SetProperties(properties):
            return SetOptions(options_of(properties))
        case AddColumn() | AddColumns():
            return change
        case _:
            (name,) = as_declared(table.schema.names, [change.name])
            return replace(change, name=name)


def drop_table(context: Context, statement: DropTable) -> StatementDone | ResultRows:
    name = context.named(statement.table)
    catalog = context.catalog
    if name in catalog.views:
        raise InvalidArgument(f"{name} is a view; drop it by DROP VIEW {name}")
    table = catalog.tables.get(name) or catalog.blanks.get(name)
    if table is None and statement.if_exists:
        return StatementDone(f"skipped: there is no table {name}")
    if table is not None and statement.type not in (None, table.type):
        raise InvalidArgument(f"{name} is a {table.type} table, not a {statement.type} one")
    if statement.dry_run:
        return planned(context, new_request("drop", (str(name),)))
    if table is not None and not statement.if_exists:
        check_there(context, table)
    drop_now(context.services.operator(), name)
    return StatementDone(f"table {name} dropped")


def check_there(context: Context, table: Table) -> None:
    """Raises NotFound: a dynamic table's place is empty, which DROP TABLE does not pass over (FL-8)."""
    if table.dynamic is None or table.dropping:
        return
    target = context.warehouse.target_of(context.catalog, table, None)
    if open_scope(target) is None:
        raise NotFound(f"{table.name} has no Delta table at {target.location}: write DROP TABLE IF EXISTS to remove it anyway")


ROWS = registered(
    StatementSpec(
        "ALTER TABLE t ADD [COLUMN] [IF NOT EXISTS] c type […], DROP [COLUMN] c, RENAME COLUMN c TO d,"
        " MODIFY COLUMN c type [NOT NULL], ALTER COLUMN c SET or DROP NOT NULL or DEFAULT,"
        " SET TBLPROPERTIES (…) or SET ACCESS LEVEL …",
        "changes a table's columns or options",
        table_right("alter"),
        alter_table,
        audited=AuditEntrySpec("ALTER_TABLE", "table", "table"),
    ),
    StatementSpec(
        "DROP [USER, SHARED or STREAM] TABLE [IF EXISTS] t [DRY RUN]",
        "removes a table with its data; returns when it is gone",
        operation_right("drop"),
        drop_table,
        audited=AuditEntrySpec("DROP_TABLE", "table", "table"),
    ),
)

GRAMMARS: Mapping[str, Grammar] = {
    **dict.fromkeys(table_words("ALTER"), read_alter_table),
    **{words: partial(read_drop_table, prefix=kind) for words, kind in table_words("DROP").items()},
}
