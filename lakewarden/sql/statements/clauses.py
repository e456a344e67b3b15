"""What several statements share in their texts, and what it means: names, columns, options, partitions, assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakewarden.catalog.model import Column, Table
from lakewarden.delta.partitions import Partition, spelled
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs, PartitionSpec, Ref
from lakewarden.sql.relations import SEQ
from lakewarden.sql.writing.target import Assignment


def if_not_exists(read: StatementReader) -> bool:
    return read.word("IF", "NOT", "EXISTS")


def if_exists(read: StatementReader) -> bool:
    return read.word("IF", "EXISTS")


def partition_spec(read: StatementReader) -> PartitionSpec:
    """Reads `(column = value, …)`, which follows PARTITION."""
    return tuple(read.listed(lambda: _partition_literal(read)))


def _partition_literal(read: StatementReader) -> tuple[str, str | None]:
    name = read.column("a partition column")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {name}")
    if read.word("NULL"):
        return name, None
    return name, read.text("a value") if read.at_text else read.value_of(name)


def in_namespace(read: StatementReader) -> str | None:
    if not (read.word("IN") or read.word("FROM")):
        return None
    read.word("NAMESPACE")
    return read.namespace()


def more_options(read: StatementReader) -> Pairs:
    """Reads WITH (name = value, …): options of an operation that have no clause of their own."""
    return read.pairs() if read.word("WITH") else ()


def ref_of(read: StatementReader, found: exp.Expr | None) -> Ref:
    if not isinstance(found, exp.Table) or not isinstance(found.this, exp.Identifier):
        raise read.misread("expected the name of a table")
    only(read, found, frozenset({"this", "db", "catalog", "alias"}), "a table here")
    if found.catalog:
        raise InvalidArgument(f"{found.catalog}.{found.db}.{found.name} has three parts; a table is namespace.table")
    return Ref(found.name, found.db or None)


def alias_of(found: exp.Expr) -> str | None:
    return found.alias or None


def where_of(found: exp.Expr) -> exp.Expr | None:
    where = found.args.get("where")
    return None if where is None else where.this


def assignments_of(read: StatementReader, found: list[exp.Expr]) -> tuple[Assignment, ...]:
    made = []
    for each in found:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise read.misread("expected an assignment: column = value")
        table = Ref(each.this.table, each.this.text("db") or None) if each.this.table else None
        made.append(Assignment(each.this.name, each.expression, table))
    names = [one.column.lower() for one in made]
    if len(set(names)) < len(names):
        raise InvalidArgument("a column is set twice")
    return tuple(made)


def only(read: StatementReader, found: exp.Expr, parts: frozenset[str], what: str) -> None:
    extra = [name for name, value in found.args.items() if value and name not in parts]
    if "returning" in extra:
        raise Unsupported(f"{what} … RETURNING is not supported")  # those that have it say so in `parts`
    if extra:
        raise read.misread(f"{what} takes no {extra[0].strip('_').replace('_', ' ').upper()}")


def returning_of(read: StatementReader, found: exp.Expr) -> tuple[exp.Expr, ...]:
    """The expressions behind RETURNING.

    Raises:
        Unsupported: one is of more than its row, or of what the row has behind the statement alone.
    """
    returning = found.args.get("returning")
    if returning is None:
        return ()
    if returning.args.get("into"):
        raise read.misread("RETURNING takes no INTO")
    for each in returning.expressions:
        if each.find(exp.AggFunc, exp.Window, exp.Query):
            raise Unsupported("RETURNING takes values of each row: no aggregate, window function or subquery")
        if any(column.name.lower() == SEQ for column in each.find_all(exp.Column)):
            raise Unsupported(
                "RETURNING _seq is not supported: a row gets it when the log takes it; read it behind the statement"
            )
    return tuple(returning.expressions)


def as_declared(declared: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names as they were declared: names in SQL ignore case."""
    known = {each.lower(): each for each in declared}
    return [known.get(name.lower(), name) for name in names]


def options_of(pairs: Pairs) -> dict[str, str]:
    """Raises InvalidArgument: an option is given twice."""
    twice = [key for key, count in Counter(key.upper() for key, _ in pairs).items() if count > 1]
    if twice:
        raise InvalidArgument(f"option {twice[0]} is given twice")
    return dict(pairs)


# Partitions as statements name them, by the values of partition columns.
def partition_of(table: Table, given: PartitionSpec) -> Partition:
    """The partition that the values name, spelled as in Delta's log.

    Raises:
        InvalidArgument: as `named_of`, or a partition column has no value.
    """
    found = named_of(table, given)
    if len(found) < len(table.schema.partition_by):
        raise InvalidArgument(f"PARTITION of {table.name} needs a value for each of {', '.join(table.schema.partition_by)}")
    return found


def named_of(table: Table, given: PartitionSpec) -> Partition:
    """The values of some partition columns, in the table's order: they name each partition that has these.

    Raises:
        InvalidArgument: the table has no partitions, a column is none of its partition columns or is named twice, or a value
            does not fit.
    """
    names = table.schema.partition_by
    if not names:
        raise InvalidArgument(f"{table.name} is not partitioned, so it takes no PARTITION")
    values = {name.lower(): text for name, text in given}
    if len(values) < len(given) or not values.keys() <= {name.lower() for name in names}:
        raise InvalidArgument(f"PARTITION of {table.name} takes each of these columns at most once: {', '.join(names)}")
    return tuple((name, spelled_as(table, name, values[name.lower()])) for name in names if name.lower() in values)


def spelled_as(table: Table, name: str, text: str | None) -> str | None:
    """The value of a partition column as Delta's log spells it.

    Raises:
        InvalidArgument: it is not a value of the column's type.
    """
    column = table.schema.column(name)
    assert column is not None, "a partition column is one of the table's"
    try:
        value = pa.chunked_array([pa.array([text], pa.string()).cast(column.type.arrow)])
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"{name} = {text!r}: it is no {column.type}") from error
    found: str | None = spelled(value)[0].as_py()
    return found


TYPES = ("USER", "SHARED", "STREAM")

_SERIALS = frozenset({"SMALLSERIAL", "SERIAL", "BIGSERIAL"})
"""All become BIGINT: the numbers of SNOWFLAKE_ID() need 64 bits."""
_GENERATED = "SNOWFLAKE_ID()"


def read_column(read: StatementReader) -> tuple[Column, bool]:
    """Reads `name type …`; returns the column and whether it is the PRIMARY KEY."""
    name = read.column()
    kind = read_type(read)
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


def read_type(read: StatementReader) -> str:
    """A type as written, with its numbers: `catalog.column_types` decides which are valid."""

    def words() -> str:
        name = "DOUBLE" if read.word("DOUBLE", "PRECISION") else read.name("a type")
        read.word("VARYING")
        if read.symbol(TokenType.L_PAREN):
            read.whole("a precision")
            while read.symbol(TokenType.COMMA):
                read.whole("a scale")
            read.close()
        if not read.word("WITH", "TIME", "ZONE"):
            read.word("WITHOUT", "TIME", "ZONE")
        return name

    return " ".join(read.source(words, "a type").split())


def table_words(verb: str) -> dict[str, str | None]:
    """CREATE TABLE, and CREATE USER TABLE and so on, each with the type that it names."""
    return {f"{verb} TABLE": None, **{f"{verb} {kind} TABLE": kind for kind in TYPES}}
