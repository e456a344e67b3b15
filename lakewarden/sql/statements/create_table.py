"""CREATE TABLE (kalamdb.md 1.1 to 1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from sqlglot.tokenizer_core import TokenType

from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_declaration import FILE_PATH, KIND
from lakewarden.catalog.model import Column
from lakewarden.catalog.options import check_type, ignored_options
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.maintenance.admin.create_table import make_table, new_table
from lakewarden.maintenance.admin.dynamic_tables import DynamicDeclaration, make_dynamic_table
from lakewarden.maintenance.drop import end_drop
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs
from lakewarden.sql.results import StatementDone
from lakewarden.sql.rights import creation_right
from lakewarden.sql.statement import AuditEntrySpec, Grammar, Statement, StatementSpec, TableCreation, registered
from lakewarden.sql.statements.clauses import as_declared, if_not_exists, options_of, read_column, table_words
from lakewarden.sql.statements.create_as import CreateTableAs
from lakewarden.sql.statements.pipelines import from_template


@dataclass(frozen=True)
class CreateTable(TableCreation):
    type: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    options: Pairs = ()
    if_not_exists: bool = False
    partition_by: tuple[str, ...] = ()
    dynamic: bool | None = False
    """None: the session decides, for a table whose type is not said."""

    def chooses_place(self, context: Context) -> bool:
        given = FILE_PATH in context.table_storage or any(key.lower() == FILE_PATH for key, _ in self.options)
        return given and self.dynamic is not False


DYNAMIC = "DYNAMIC"
"""The kind of SHARED table that FLIP-188 describes."""

_IGNORED = ("UNIQUE", "CHECK", "FOREIGN KEY")


def read_create_table(read: StatementReader, prefix: str | None) -> Statement:
    """Reads what follows CREATE [USER|SHARED|STREAM|DYNAMIC] TABLE."""
    missing = if_not_exists(read)
    table = read.ref()
    if read.word("FROM", "TEMPLATE"):
        return from_template(read, table, prefix, missing=missing)
    made = _DeclaredColumns()
    if read.keyword not in _CLAUSES:
        read.listed(lambda: _element(read, made), none=True)
    if read.keyword == "FROM":
        raise InvalidArgument(f"CREATE TABLE {table} … FROM TEMPLATE declares no columns: the template owns the schema")
    if read.word("USING"):
        read.name("a format")  # PostgreSQL's; it has no effect
    if read.word("PRIMARY", "KEY"):
        made.set_key(read.listed(read.column))
    partitioned = read.word("PARTITION", "BY") or read.word("PARTITIONED", "BY")
    partition_by = tuple(read.listed(read.column)) if partitioned else ()
    options = read.pairs() if read.word("WITH") else ()
    kind, key = _declared_type(prefix, options), tuple(made.key)
    if not read.word("AS"):
        said = prefix is not None or any(key.upper() == "TYPE" for key, _ in options)
        dynamic = prefix == DYNAMIC if said else None
        return CreateTable(table, kind, tuple(made.columns), key, options, missing, partition_by, dynamic)
    if prefix == DYNAMIC:
        raise Unsupported(f"CREATE DYNAMIC TABLE {table} … AS: create the table with its columns, then INSERT INTO it")
    if made.columns:
        raise InvalidArgument(f"CREATE TABLE {table} … AS takes its columns from the query: declare none, or cast them there")
    return CreateTableAs(table, kind, key, partition_by, read.query(), options, missing)


_CLAUSES = ("AS", "USING", "PRIMARY", "PARTITION", "PARTITIONED", "WITH")
"""What may follow the name of a table that declares no columns."""


def _declared_type(prefix: str | None, options: Pairs) -> str:
    """The type of the prefix, else of the option; the options' reader refuses a contradiction."""
    if prefix == DYNAMIC:
        return "SHARED"
    return prefix or next((value for key, value in options if key.upper() == "TYPE"), "SHARED")


@dataclass
class _DeclaredColumns:
    """What has been read of a table's columns."""

    columns: list[Column] = field(default_factory=list)
    key: list[str] = field(default_factory=list)

    def set_key(self, names: list[str]) -> None:
        if self.key:
            raise InvalidArgument(f"a table has one primary key; ({', '.join(self.key)}) is declared already")
        self.key = names


def _element(read: StatementReader, made: _DeclaredColumns) -> None:
    constraint = read.name("a constraint") if read.word("CONSTRAINT") else None
    if read.word("PRIMARY", "KEY"):
        made.set_key(read.listed(read.column))
    elif any(read.word(*words.split()) for words in _IGNORED):
        _skip(read)
    elif constraint is not None:
        raise read.failure("expected PRIMARY KEY")
    else:
        column, in_key = read_column(read)
        made.columns.append(column)
        if in_key:
            made.set_key([column.name])


def _skip(read: StatementReader) -> None:
    """Skips the rest of a constraint that is accepted and has no effect."""
    depth = 0
    while not read.over and (depth or not read._match_set((TokenType.COMMA, TokenType.R_PAREN), advance=False)):
        depth += (read._curr.token_type is TokenType.L_PAREN) - (read._curr.token_type is TokenType.R_PAREN)
        read._advance()


def create_table(context: Context, statement: CreateTable) -> StatementDone:
    name = context.named(statement.table)
    catalog, warehouse = context.catalog, context.warehouse
    if statement.if_not_exists and name in catalog.tables and not catalog.tables[name].dropping:
        return StatementDone(f"table {name} already exists")
    if name in catalog.tables and catalog.tables[name].dropping:
        end_drop(context.services.operator(), name)
    if is_dynamic(context, statement):
        make_dynamic_table(warehouse, declaration(statement, name, context.table_storage), adopt=statement.if_not_exists)
        return StatementDone(f"table {name} created")
    kind = check_type(statement.type)
    given = declaration(statement, name)
    table = new_table(warehouse, name, kind, given.columns, given.primary_key, given.options, given.partition_by)
    make_table(warehouse, table, at_once=context.rules == "k3")
    ignored = ignored_options(kind, given.options)
    note = f"; {', '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect on a {kind} table" if ignored else ""
    return StatementDone(f"table {name} created{note}")


def declaration(statement: CreateTable, name: TableName, session: Mapping[str, str] = MappingProxyType({})) -> DynamicDeclaration:
    names = [column.name for column in statement.columns]
    key, partition_by = (as_declared(names, given) for given in (statement.primary_key, statement.partition_by))
    return DynamicDeclaration(name, statement.columns, key, partition_by, options_of(statement.options), session)


def is_dynamic(context: Context, statement: CreateTable) -> bool:
    """Whether the statement says so; where it names no type, the session does."""
    if statement.dynamic is not None:
        return statement.dynamic
    return context.table_storage.get(KIND, "").lower() == "dynamic"


ROWS = registered(
    StatementSpec(
        "CREATE [USER, SHARED, STREAM or DYNAMIC] TABLE [IF NOT EXISTS] t (c type [NOT NULL] [DEFAULT e] [PRIMARY KEY], …,"
        " [PRIMARY KEY (…)]) [PARTITION BY (c, …)] [WITH (KEY = value, …)]",
        "creates a table",
        creation_right(),
        create_table,
        audited=AuditEntrySpec("CREATE_TABLE", "table", "table"),
    ),
)

GRAMMARS: Mapping[str, Grammar] = {
    words: partial(read_create_table, prefix=kind)
    for words, kind in (table_words("CREATE") | {"CREATE DYNAMIC TABLE": DYNAMIC}).items()
}
