"""Parses CREATE, ALTER and DROP of tables and views (kalamdb.md 1.1 to 1.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot.tokenizer_core import TokenType

from lakewarden.catalog.evolution import AddColumn, AddColumns, DropColumn, ModifyColumn, RenameColumn, SetDefault, SetNullable
from lakewarden.catalog.model import Column
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.grammar.pipelines import from_template
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Pairs, Ref, Statement
from lakewarden.sql.statements.definitions import (
    AlterTable,
    CompactTable,
    CreateTable,
    CreateTableAs,
    CreateTemporaryTable,
    CreateView,
    DropPartition,
    DropTable,
    DropTemporaryTable,
    DropView,
    PartitionSpec,
    SetProperties,
    TableChange,
)
from lakewarden.sql.statements.others import UnsupportedStatement


def partition_spec(read: StatementReader) -> PartitionSpec:
    """Reads `(column = value, …)`, which follows PARTITION."""
    return tuple(read.listed(lambda: _value(read)))


def _value(read: StatementReader) -> tuple[str, str | None]:
    name = read.column("a partition column")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {name}")
    if read.word("NULL"):
        return name, None
    return name, read.text("a value") if read.at_text else read.value_of(name)


TYPES = ("USER", "SHARED", "STREAM")
DYNAMIC = "DYNAMIC"
"""The kind of SHARED table that FLIP-188 describes."""
_SHORTHAND_LEVELS = ("PUBLIC", "PRIVATE", "RESTRICTED")
_SERIALS = frozenset({"SMALLSERIAL", "SERIAL", "BIGSERIAL"})
"""All become BIGINT: the numbers of SNOWFLAKE_ID() need 64 bits."""
_GENERATED = "SNOWFLAKE_ID()"
_IGNORED = ("UNIQUE", "CHECK", "FOREIGN KEY")


def create_table(read: StatementReader, prefix: str | None) -> Statement:
    """Reads what follows CREATE [USER|SHARED|STREAM|DYNAMIC] TABLE."""
    missing = if_not_exists(read)
    table = read.ref()
    if read.word("FROM", "TEMPLATE"):
        return from_template(read, table, prefix, missing=missing)
    made = _Declared()
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
    kind, key = _type(prefix, options), tuple(made.key)
    if not read.word("AS"):
        dynamic = _dynamic(prefix, options)
        return CreateTable(table, kind, tuple(made.columns), key, options, missing, partition_by, dynamic)
    if prefix == DYNAMIC:
        raise Unsupported(f"CREATE DYNAMIC TABLE {table} … AS: create the table with its columns, then INSERT INTO it")
    if made.columns:
        raise InvalidArgument(f"CREATE TABLE {table} … AS takes its columns from the query: declare none, or cast them there")
    return CreateTableAs(table, kind, key, partition_by, read.query(), options, missing)


def create_temporary_table(read: StatementReader, prefix: str | None) -> Statement:
    """Reads what follows CREATE TEMPORARY [DYNAMIC] TABLE."""
    found = create_table(read, prefix)
    if not isinstance(found, CreateTable):
        raise Unsupported("CREATE TEMPORARY TABLE … AS or FROM TEMPLATE: create it with its columns, then INSERT INTO it")
    return CreateTemporaryTable(found.table, found)


def drop_temporary_table(read: StatementReader) -> Statement:
    there = if_exists(read)
    return DropTemporaryTable(read.ref(), there)


_CLAUSES = ("AS", "USING", "PRIMARY", "PARTITION", "PARTITIONED", "WITH")
"""What may follow the name of a table that declares no columns."""


def _type(prefix: str | None, options: Pairs) -> str:
    """The type of the prefix, else of the option; the options' reader refuses a contradiction."""
    if prefix == DYNAMIC:
        return "SHARED"
    return prefix or next((value for key, value in options if key.upper() == "TYPE"), "SHARED")


def _dynamic(prefix: str | None, options: Pairs) -> bool | None:
    """Whether it is a dynamic table; None where the statement leaves it to the session."""
    said = prefix is not None or any(key.upper() == "TYPE" for key, _ in options)
    return prefix == DYNAMIC if said else None


@dataclass
class _Declared:
    """What has been read of a table's columns."""

    columns: list[Column] = field(default_factory=list)
    key: list[str] = field(default_factory=list)

    def set_key(self, names: list[str]) -> None:
        if self.key:
            raise InvalidArgument(f"a table has one primary key; ({', '.join(self.key)}) is declared already")
        self.key = names


def _element(read: StatementReader, made: _Declared) -> None:
    constraint = read.name("a constraint") if read.word("CONSTRAINT") else None
    if read.word("PRIMARY", "KEY"):
        made.set_key(read.listed(read.column))
    elif any(read.word(*words.split()) for words in _IGNORED):
        _skip(read)
    elif constraint is not None:
        raise read.failure("expected PRIMARY KEY")
    else:
        column, in_key = column_of(read)
        made.columns.append(column)
        if in_key:
            made.set_key([column.name])


def column_of(read: StatementReader) -> tuple[Column, bool]:
    """Reads `name type …`; returns the column and whether it is the PRIMARY KEY."""
    name = read.column()
    kind = type_of(read)
    default = _GENERATED if kind.upper() in _SERIALS else None
    nullable, in_key = True, False
    while True:
        if read.word("PRIMARY", "KEY"):
            in_key = True
        elif read.word("NOT", "NULL"):
            nullable = False
        elif read.word("NULL"):
            nullable = True
        elif read.word("DEFAULT"):
            default = read.expression_text("a default")
        elif _generated(read):
            default = _GENERATED
        elif not _ignored(read):
            return Column(name, "BIGINT" if kind.upper() in _SERIALS else kind, nullable, default), in_key


def _ignored(read: StatementReader) -> bool:
    """Skips a constraint of one column that is accepted and has no effect."""
    if read.word("CHECK"):
        read.open()
        read.bracketed()
        return True
    if read.word("REFERENCES"):
        read.ref()
        if read.symbol(TokenType.L_PAREN):
            read.bracketed()
        return True
    return read.word("UNIQUE")


def _generated(read: StatementReader) -> bool:
    """Reads AUTO_INCREMENT, or GENERATED … AS IDENTITY."""
    if read.word("AUTO_INCREMENT") or read.word("AUTO", "INCREMENT"):
        return True
    if not read.word("GENERATED"):
        return False
    if not read.word("ALWAYS"):
        read.expect("BY", "DEFAULT")
    read.expect("AS", "IDENTITY")
    return True


def type_of(read: StatementReader) -> str:
    """A type as written, with its numbers: `catalog.column_types` decides which are valid."""

    def words() -> str:
        name = read.name("a type")
        if read.symbol(TokenType.L_PAREN):
            read.whole("a precision")
            while read.symbol(TokenType.COMMA):
                read.whole("a scale")
            read.close()
        return name

    return read.source(words, "a type")


def _skip(read: StatementReader) -> None:
    """Skips the rest of a constraint that is accepted and has no effect."""
    depth = 0
    while not read.over and (depth or not read._match_set((TokenType.COMMA, TokenType.R_PAREN), advance=False)):
        depth += (read._curr.token_type is TokenType.L_PAREN) - (read._curr.token_type is TokenType.R_PAREN)
        read._advance()


def alter_table(read: StatementReader) -> Statement:
    """Reads what follows ALTER [type] TABLE."""
    table = read.ref()
    if read.word("CREATE", "VECTOR") or read.word("CREATE", "INDEX") or read.word("DROP", "VECTOR") or read.word("DROP", "INDEX"):
        read.rest()
        return UnsupportedStatement("vector indexes")
    if read.word("COMPACT"):
        return CompactTable(table)
    if (dropped := _dropped_partition(read, table)) is not None:
        return dropped
    change = _change(read)
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


def _change(read: StatementReader) -> TableChange:
    match read.one_of("ADD", "DROP", "MODIFY", "ALTER", "RENAME", "SET TBLPROPERTIES", "SET ACCESS LEVEL"):
        case "ADD":
            return _add(read)
        case "DROP":
            read.word("COLUMN")
            return _refusing(read, DropColumn(read.column()), "CASCADE", "RESTRICT")
        case "MODIFY":
            read.expect("COLUMN")
            return _refusing(read, ModifyColumn(read.column(), type_of(read), _nullable(read)), "FIRST", "AFTER")
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
            return SetProperties((("ACCESS_LEVEL", _level(read)),))


def _add(read: StatementReader) -> TableChange:
    """Reads one column, or several: in brackets, or apart by commas, each with or without ADD COLUMN."""
    if not read.word("COLUMN") and _before_bracket(read):
        read.word("COLUMNS")
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


def _before_bracket(read: StatementReader) -> bool:
    """Whether the next word is COLUMNS before a bracket, and so no column's name."""
    return bool(read._next) and read._next.token_type is TokenType.L_PAREN


def _added(read: StatementReader) -> AddColumn:
    missing = if_not_exists(read)
    column, in_key = column_of(read)
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


def _level(read: StatementReader) -> str:
    level = read.name("an access level").upper()
    if level not in _SHORTHAND_LEVELS:
        raise InvalidArgument(f"SET ACCESS LEVEL takes {', '.join(_SHORTHAND_LEVELS)}, not {level}; DBA is set by TBLPROPERTIES")
    return level


def drop_table(read: StatementReader, prefix: str | None) -> Statement:
    there = if_exists(read)
    return DropTable(read.ref(), prefix, there, read.word("DRY", "RUN"))


def create_view(read: StatementReader, *, or_replace: bool = False) -> Statement:
    missing = if_not_exists(read)
    view = read.ref("a view")
    read.expect("AS")
    start = read.here
    query = read.query()
    return CreateView(view, read.since(start), query, or_replace, missing)


def replace_view(read: StatementReader) -> Statement:
    """Reads what follows CREATE OR REPLACE."""
    read.expect("VIEW")
    return create_view(read, or_replace=True)


def drop_view(read: StatementReader) -> Statement:
    there = if_exists(read)
    return DropView(read.ref("a view"), there)


def if_not_exists(read: StatementReader) -> bool:
    return read.word("IF", "NOT", "EXISTS")


def if_exists(read: StatementReader) -> bool:
    return read.word("IF", "EXISTS")
